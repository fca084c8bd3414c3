//! What the kernel applies to packets on their way through it: netfilter rules and traffic control.

use std::ops::ControlFlow;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcMessage};
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;
use crate::framing::{Message, attributes};

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Whether the network namespace of the calling thread has nftables rules for packets of a version
/// (`linux/netfilter/nf_tables.h`): a chain at a hook that has rules, or that drops by default.
/// Those of iptables-nft are among them.
///
/// # Errors
///
/// EPERM without CAP_NET_ADMIN, EINVAL or EPROTONOSUPPORT if the kernel has no nftables.
pub fn has_nftables_rules(version: IpVersion) -> Result<bool, Error> {
    let mut connection = Connection::open_protocol(Some(netlink::NETFILTER))?;
    let mut found = false;
    let kind = (NFT_MSG_GETCHAIN, NLM_F_DUMP);
    // `struct nfgenmsg` of no particular family.
    connection.ask_raw("list nftables chains", kind, &[0; 4], |message| {
        found |= applies(message, version);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Whether the network namespace of the calling thread has tables of the older iptables or
/// ip6tables. Who may not read it, has none.
pub fn has_iptables_tables(version: IpVersion) -> bool {
    let names = std::fs::read(match version {
        IpVersion::V4 => "/proc/thread-self/net/ip_tables_names",
        IpVersion::V6 => "/proc/thread-self/net/ip6_tables_names",
    });
    names.is_ok_and(|names| !names.is_empty())
}

/// A base chain of a family that sees packets of the version, and not an empty one that accepts.
fn applies(message: &Message<'_>, version: IpVersion) -> bool {
    let own = match version {
        IpVersion::V4 => NFPROTO_IPV4,
        IpVersion::V6 => NFPROTO_IPV6,
    };
    let families = [NFPROTO_INET, NFPROTO_NETDEV, own];
    if !message
        .family()
        .is_some_and(|family| families.contains(&family))
    {
        return false;
    }
    let of_chain = message.payload.get(NFGENMSG_BYTES..).unwrap_or(&[]);
    let number = |wanted| {
        let (_, value) = attributes(of_chain).find(|(kind, _)| *kind == wanted)?;
        Some(u32::from_be_bytes(*value.first_chunk()?))
    };
    let is_base = attributes(of_chain).any(|(kind, _)| kind == NFTA_CHAIN_HOOK);
    let rules = number(NFTA_CHAIN_USE).unwrap_or(0);
    is_base && (rules > 0 || number(NFTA_CHAIN_POLICY) == Some(NF_DROP))
}

/// The kinds of the queueing disciplines of a link that are not what a link has by itself, such as
/// "clsact" or "htb". In any order, each once.
pub(crate) fn queueing_disciplines(
    connection: &mut Connection,
    link_index: u32,
) -> Result<Vec<String>, Error> {
    let mut message = TcMessage::default();
    message.header.index = link_index.cast_signed();
    let message = RouteNetlinkMessage::GetQueueDiscipline(message);
    let request = "list queueing disciplines";
    connection.dump(request, &message, |kinds: &mut Vec<String>, message| {
        let Ok(RouteNetlinkMessage::NewQueueDiscipline(message)) = message.decode() else {
            return;
        };
        if message.header.index.cast_unsigned() != link_index {
            return;
        }
        let kind = message
            .attributes
            .into_iter()
            .find_map(|attribute| match attribute {
                TcAttribute::Kind(kind) => Some(kind),
                _ => None,
            });
        kinds.extend(
            kind.filter(|kind| !ORDINARY.contains(&kind.as_str()) && !kinds.contains(kind)),
        );
    })
}

/// Queueing disciplines that only put packets in an order.
const ORDINARY: &[&str] = &[
    "noqueue",
    "noop",
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "mq",
    "fq",
    "fq_codel",
];

/// NFNL_SUBSYS_NFTABLES in the upper byte.
const NFT_MSG_GETCHAIN: u16 = 10 << 8 | 4;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_USE: u16 = 6;
const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_NETDEV: u8 = 5;
const NFPROTO_IPV6: u8 = 10;
const NF_DROP: u32 = 0;
const NFGENMSG_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use testkit::{Namespace, Namespaces, or_skip};

    use super::*;
    use crate::Netconf;
    use crate::framing::datagram;
    use crate::socket::Socket;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A table with one chain for incoming packets, by a batch of orders as nft(8) sends it.
    fn add_chain(namespace: &Namespace, family: u8, chain: &str, policy: u32) {
        const CREATE: u16 = 0x401;
        let hook = [
            attribute(1, &1_u32.to_be_bytes()),
            attribute(2, &0_u32.to_be_bytes()),
        ]
        .concat();
        let header: &[u8] = &[family, 0, 0, 0];
        let table = [header, &attribute(1, b"t\0")].concat();
        let chain = [
            header,
            &attribute(1, b"t\0"),
            &attribute(3, chain.as_bytes()),
            &attribute(NFTA_CHAIN_HOOK | 1 << 15, &hook),
            &attribute(NFTA_CHAIN_POLICY, &policy.to_be_bytes()),
            &attribute(7, b"filter\0"),
        ]
        .concat();
        let batch: Vec<u8> = [
            datagram(0x10, 1, 1, &[0, 0, 0, 10]),
            datagram(10 << 8, CREATE, 2, &table),
            datagram(10 << 8 | 3, CREATE, 3, &chain),
            datagram(0x11, 1, 4, &[0, 0, 0, 10]),
        ]
        .concat();
        namespace.enter(|| {
            let socket = Socket::open(Some(netlink::NETFILTER), 0).unwrap();
            socket.send(&batch).unwrap();
        });
    }

    /// What the kernel tells of a chain with a rule.
    fn chain_message(family: u8) -> Vec<u8> {
        let payload = [
            vec![family, 0, 0, 0],
            attribute(NFTA_CHAIN_HOOK, &[0; 4]),
            attribute(NFTA_CHAIN_USE, &1_u32.to_be_bytes()),
        ]
        .concat();
        datagram(10 << 8 | 3, 0, 1, &payload)
    }

    #[test]
    fn chains_that_do_something_are_rules() {
        let pair = or_skip!(Namespaces::pair());
        let has = |version| pair.a.enter(|| has_nftables_rules(version));
        if has(IpVersion::V4).is_err() {
            return testkit::skip("this kernel has no nftables");
        }
        let both = || [IpVersion::V4, IpVersion::V6].map(|version| has(version).unwrap());
        assert_eq!(both(), [false, false]);
        add_chain(&pair.a, NFPROTO_IPV6, "accepts\0", 1);
        assert_eq!(both(), [false, false], "it is empty and accepts");
        add_chain(&pair.a, NFPROTO_IPV6, "drops\0", NF_DROP);
        assert_eq!(both(), [false, true]);
        add_chain(&pair.a, NFPROTO_IPV4, "drops\0", NF_DROP);
        assert_eq!(both(), [true, true]);
        for family in [NFPROTO_INET, NFPROTO_NETDEV] {
            let payload = chain_message(family);
            let message = crate::framing::Messages::new(&payload).next().unwrap();
            let message = message.unwrap();
            assert!([IpVersion::V4, IpVersion::V6].map(|it| applies(&message, it)) == [true; 2]);
        }
    }

    #[test]
    fn disciplines_beyond_the_default_are_named() {
        let pair = or_skip!(Namespaces::pair());
        let netconf = pair.a.enter(Netconf::open).unwrap();
        let of = |name| {
            let link = netconf.links().find(|link| link.name == name).unwrap();
            netconf.queueing_disciplines(link.index).unwrap()
        };
        let tc = |arguments: &str| {
            let mut command: Command = pair.a.command("tc");
            assert!(
                command
                    .args(arguments.split(' '))
                    .status()
                    .unwrap()
                    .success()
            );
        };
        assert!(of("va").is_empty());
        tc("qdisc add dev va clsact");
        assert_eq!(of("va"), ["clsact"]);
        assert!(of("lo").is_empty());
        tc("qdisc del dev va clsact");
        assert!(of("va").is_empty());
    }
}
