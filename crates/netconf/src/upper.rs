//! Links over others whose packets the kernel sorts and steers: VLANs, macvlans, bonds and teams.

use dev_core::{Carrier, LinkSpec, Upper};

use crate::link::Link;

/// Of this kind (`IFLA_INFO_KIND`)?
pub(crate) fn is_upper(kind: &str) -> bool {
    matches!(kind, "vlan" | "macvlan" | "bond" | "team")
}

/// What a back-end is told of a link; `links` are all of the namespace.
pub(crate) fn spec<'a>(link: &Link, links: impl Iterator<Item = &'a Link> + Clone) -> LinkSpec {
    LinkSpec {
        index: link.index,
        name: link.name.clone(),
        mac: link.mac.unwrap_or_default(),
        mtu: link.mtu,
        upper: upper(link, links),
    }
}

/// `None`: the link is a device, or of another kind.
fn upper<'a>(link: &Link, links: impl Iterator<Item = &'a Link> + Clone) -> Option<Upper> {
    link.kind.as_deref().filter(|kind| is_upper(kind))?;
    let parts = parts_of(link, links.clone());
    Some(Upper {
        queues: link.rx_queues,
        parts: parts.map(|part| part.name.clone()).collect(),
        vlan_id: link.vlan_id,
        carriers: carriers(link, links),
    })
}

fn parts_of<'a>(
    link: &Link,
    links: impl Iterator<Item = &'a Link>,
) -> impl Iterator<Item = &'a Link> {
    links.filter(move |part| part.master == Some(link.index))
}

fn carriers<'a>(link: &Link, links: impl Iterator<Item = &'a Link> + Clone) -> Vec<Carrier> {
    let bond_or_device = match link.vlan_id {
        Some(_) => links.clone().find(|it| Some(it.index) == link.lower),
        None => Some(link),
    };
    match bond_or_device {
        Some(bond) if bond.bonds_by_flow => parts_of(bond, links)
            .map(|part| Carrier {
                name: part.name.clone(),
                is_active: part.running && !part.backup,
            })
            .collect(),
        Some(device) if !device.kind.as_deref().is_some_and(is_upper) => vec![Carrier {
            name: device.name.clone(),
            is_active: true,
        }],
        _ => Vec::new(),
    }
}
