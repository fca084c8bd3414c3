//! Which links an XDP program on them does right: packets that come in on them are for this host,
//! and what is sent out of them leaves as the kernel's own packets do.

use crate::link::Link;
use crate::upper::is_upper;

/// Why an XDP program on a link would get packets wrong, or none; in a few words for an operator.
/// `named` finds other links.
///
/// Hardware, veth and tap devices have no obstacle, nor has a VLAN, a bond or the like above them:
/// what it receives has been sorted, and what it sends is tagged and given to one of its parts by
/// the kernel. The parts have: their packets are steered above them. On a bridge, most are others'.
pub(crate) fn obstacle<'a>(link: &Link, named: impl Fn(u32) -> Option<&'a Link>) -> Option<String> {
    let other = |index: u32| match named(index) {
        Some(other) => match other.kind.as_deref() {
            Some(kind) => format!("the {kind} {}", other.name),
            None => other.name.clone(),
        },
        None => format!("interface {index}"),
    };
    if link.loopback {
        return Some("the loopback interface".to_owned());
    }
    if !link.ethernet || link.mac.is_none() {
        return Some("not an Ethernet interface".to_owned());
    }
    if let Some(master) = link.master {
        return Some(format!("part of {}", other(master)));
    }
    match (link.kind.as_deref(), link.lower) {
        (None | Some("veth" | "tun"), _) => None,
        (Some(kind), _) if is_upper(kind) => None,
        (Some(kind), lower) => {
            let article = if kind.starts_with('i') { "an" } else { "a" };
            let place = lower.map(|lower| format!(" on {}", other(lower)));
            Some(format!("{article} {kind}{}", place.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::changes::Changes;
    use crate::framing::Messages;
    use crate::link::Link;
    use crate::snapshot::{Snapshot, Update};

    /// An attribute (`struct rtattr`), padded.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = 4 + value.len();
        let mut bytes = u16::try_from(len).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(len.next_multiple_of(4), 0);
        bytes
    }

    struct Recorded<'a> {
        index: u32,
        name: &'a str,
        /// `IFLA_LINK`, `IFLA_MASTER`
        lower: Option<u32>,
        master: Option<u32>,
        /// `IFLA_INFO_KIND`, with data of that kind, and `IFLA_INFO_SLAVE_KIND`.
        kind: Option<(&'a str, &'a [u8])>,
        slave_kind: Option<&'a str>,
        /// `IFLA_INFO_SLAVE_DATA`
        slave_data: Vec<u8>,
    }

    /// What `rtnl_fill_ifinfo` (net/core/rtnetlink.c) makes of a link, as far as it is read here
    /// and in its order.
    fn newlink(link: &Recorded<'_>) -> Vec<u8> {
        const RTM_NEWLINK: u16 = 16;
        const ARPHRD_ETHER: u16 = 1;
        const UP_RUNNING_LOWER_UP: u32 = 0x1_0043;
        let mut body = vec![0, 0];
        body.extend(ARPHRD_ETHER.to_ne_bytes());
        body.extend(link.index.to_ne_bytes());
        body.extend(UP_RUNNING_LOWER_UP.to_ne_bytes());
        body.extend([0; 4]);
        let string = |kind, text: &str| attribute(kind, format!("{text}\0").as_bytes());
        body.extend(string(3, link.name));
        body.extend(attribute(4, &1500_u32.to_ne_bytes()));
        let master = link.master.map(|it| attribute(10, &it.to_ne_bytes()));
        body.extend(master.unwrap_or_default());
        let lower = link.lower.map(|it| attribute(5, &it.to_ne_bytes()));
        body.extend(lower.unwrap_or_default());
        body.extend(attribute(
            1,
            &[2, 0, 0, 0, 0, u8::try_from(link.index).unwrap()],
        ));
        let mut info = Vec::new();
        if let Some((kind, data)) = link.kind {
            info.extend(string(1, kind));
            // Not every kind has some.
            if !data.is_empty() {
                info.extend(attribute(2, data));
            }
        }
        info.extend(
            link.slave_kind
                .map(|kind| string(4, kind))
                .unwrap_or_default(),
        );
        if !link.slave_data.is_empty() {
            info.extend(attribute(5, &link.slave_data));
        }
        if !info.is_empty() {
            body.extend(attribute(18, &info));
        }
        let len = u32::try_from(16 + body.len()).unwrap();
        let mut message = len.to_ne_bytes().to_vec();
        message.extend(RTM_NEWLINK.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message
    }

    fn read(recorded: &[Recorded<'_>]) -> BTreeMap<u32, Link> {
        let datagram: Vec<u8> = recorded.iter().flat_map(newlink).collect();
        let mut snapshot = Snapshot::default();
        for message in Messages::new(&datagram) {
            let update = Update::from_message(&message.unwrap()).unwrap();
            snapshot.apply(update, &mut Changes::default());
        }
        assert_eq!(snapshot.links.len(), recorded.len());
        snapshot.links
    }

    #[test]
    fn parts_of_others_and_bridges_have_an_obstacle() {
        let plain = |index, name| Recorded {
            index,
            name,
            lower: None,
            master: None,
            kind: None,
            slave_kind: None,
            slave_data: Vec::new(),
        };
        // IFLA_VLAN_ID 5 and IFLA_VLAN_PROTOCOL 802.1Q; IFLA_BOND_MODE active-backup.
        let vlan = [
            &attribute(1, &5_u16.to_ne_bytes())[..],
            &attribute(5, &[0x81, 0])[..],
        ]
        .concat();
        let bond = attribute(1, &[1]);
        // IFLA_BOND_SLAVE_STATE: BOND_STATE_ACTIVE, BOND_STATE_BACKUP.
        let state = |state| attribute(1, &[state]);
        let recorded = [
            plain(2, "eth0"),
            Recorded {
                lower: Some(9),
                kind: Some(("veth", &[])),
                ..plain(3, "veth0")
            },
            Recorded {
                kind: Some(("tun", &[])),
                ..plain(4, "tap0")
            },
            Recorded {
                kind: Some(("bridge", &[])),
                ..plain(10, "br0")
            },
            Recorded {
                master: Some(10),
                slave_kind: Some("bridge"),
                ..plain(11, "eth1")
            },
            Recorded {
                master: Some(10),
                slave_kind: Some("bridge"),
                lower: Some(9),
                kind: Some(("veth", &[])),
                ..plain(12, "veth1")
            },
            Recorded {
                kind: Some(("bond", &bond)),
                ..plain(20, "bond0")
            },
            Recorded {
                master: Some(20),
                slave_kind: Some("bond"),
                slave_data: state(0),
                ..plain(21, "eth2")
            },
            Recorded {
                master: Some(20),
                slave_kind: Some("bond"),
                slave_data: state(1),
                ..plain(22, "eth4")
            },
            Recorded {
                lower: Some(2),
                kind: Some(("vlan", &vlan)),
                ..plain(30, "eth0.5")
            },
            Recorded {
                lower: Some(20),
                kind: Some(("vlan", &vlan)),
                ..plain(31, "bond0.5")
            },
            Recorded {
                lower: Some(2),
                kind: Some(("macvlan", &[])),
                ..plain(32, "mac0")
            },
            Recorded {
                lower: Some(77),
                kind: Some(("ipvlan", &[])),
                ..plain(33, "ipv0")
            },
            Recorded {
                kind: Some(("team", &[])),
                ..plain(40, "team0")
            },
            Recorded {
                kind: Some(("vxlan", &[])),
                ..plain(41, "vx0")
            },
            Recorded {
                master: Some(51),
                slave_kind: Some("vrf"),
                ..plain(50, "eth3")
            },
        ];
        let links = read(&recorded);
        let obstacles: Vec<_> = links
            .values()
            .filter_map(|link| {
                let obstacle = super::obstacle(link, |index| links.get(&index))?;
                Some(format!("{}: {obstacle}", link.name))
            })
            .collect();
        let expected = [
            "br0: a bridge",
            "eth1: part of the bridge br0",
            "veth1: part of the bridge br0",
            "eth2: part of the bond bond0",
            "eth4: part of the bond bond0",
            "ipv0: an ipvlan on interface 77",
            "vx0: a vxlan",
            "eth3: part of interface 51",
        ];
        assert_eq!(obstacles, expected);
        let uppers = links.values().filter_map(|link| {
            let upper = crate::upper::spec(link, links.values()).upper?;
            let carriers = upper.carriers.iter().map(|it| {
                let mark = if it.is_active { "" } else { " (backup)" };
                format!("{}{mark}", it.name)
            });
            let carriers: Vec<_> = carriers.collect();
            let parts = upper.parts.join(" ");
            let queues_and_vlan = (upper.queues, upper.vlan_id);
            Some((
                link.name.as_str(),
                queues_and_vlan,
                parts,
                carriers.join(" "),
            ))
        });
        let expected = [
            ("bond0", (1, None), "eth2 eth4", "eth2 eth4 (backup)"),
            ("eth0.5", (1, Some(5)), "", "eth0"),
            ("bond0.5", (1, Some(5)), "", "eth2 eth4 (backup)"),
            ("mac0", (1, None), "", ""),
            ("team0", (1, None), "", ""),
        ];
        let owned = |text: &str| text.to_owned();
        let expected = expected
            .map(|(name, numbers, parts, carriers)| (name, numbers, owned(parts), owned(carriers)));
        assert_eq!(uppers.collect::<Vec<_>>(), expected);
    }
}
