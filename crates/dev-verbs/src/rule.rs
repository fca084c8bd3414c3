//! A flow as the device's rule.

use std::net::IpAddr;

use dev_core::{Flow, Protocol};
use rdma_core_sys::{
    IBV_FLOW_ATTR_NORMAL, IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV4, IBV_FLOW_SPEC_IPV6,
    IBV_FLOW_SPEC_TCP, IBV_FLOW_SPEC_UDP, ibv_flow_attr, ibv_flow_eth_filter, ibv_flow_ipv4_filter,
    ibv_flow_ipv6_filter, ibv_flow_spec_eth, ibv_flow_spec_ipv4, ibv_flow_spec_ipv6,
    ibv_flow_spec_tcp_udp, ibv_flow_tcp_udp_filter,
};
use wire::ethernet;

use crate::tag::Tag;

/// A rule with what it asks of addresses of IPv4.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RuleV4 {
    attr: ibv_flow_attr,
    ethernet: ibv_flow_spec_eth,
    ip: ibv_flow_spec_ipv4,
    ports: ibv_flow_spec_tcp_udp,
}

/// The same of IPv6.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RuleV6 {
    attr: ibv_flow_attr,
    ethernet: ibv_flow_spec_eth,
    ip: ibv_flow_spec_ipv6,
    ports: ibv_flow_spec_tcp_udp,
}

/// A rule of either version.
#[derive(Debug)]
pub(crate) enum Rule {
    V4(RuleV4),
    V6(RuleV6),
}

/// The hardware address that packets for an address have: the interface's, or a group's.
fn destination_mac(address: IpAddr, mac: [u8; 6]) -> [u8; 6] {
    match address.is_multicast() {
        true => ethernet::group_address(address),
        false => mac,
    }
}

fn head<T>(port: u8) -> ibv_flow_attr {
    ibv_flow_attr {
        r#type: IBV_FLOW_ATTR_NORMAL,
        size: size_of::<T>() as u16,
        num_of_specs: 3,
        port,
        ..ibv_flow_attr::default()
    }
}

fn ethernet_spec(address: IpAddr, mac: [u8; 6], tag: Option<Tag>) -> ibv_flow_spec_eth {
    let ether_type = match address {
        IpAddr::V4(_) => ethernet::TYPE_IPV4,
        IpAddr::V6(_) => ethernet::TYPE_IPV6,
    };
    ibv_flow_spec_eth {
        r#type: IBV_FLOW_SPEC_ETH,
        size: size_of::<ibv_flow_spec_eth>() as u16,
        val: ibv_flow_eth_filter {
            dst_mac: destination_mac(address, mac),
            ether_type: ether_type.to_be(),
            vlan_tag: tag.map_or(0, |tag| tag.id().to_be()),
            ..ibv_flow_eth_filter::default()
        },
        mask: ibv_flow_eth_filter {
            dst_mac: [0xff; 6],
            ether_type: u16::MAX,
            vlan_tag: tag.map_or(0, |_| Tag::ID_MASK.to_be()),
            ..ibv_flow_eth_filter::default()
        },
    }
}

fn ports(flow: &Flow) -> ibv_flow_spec_tcp_udp {
    ibv_flow_spec_tcp_udp {
        r#type: match flow.protocol {
            Protocol::Tcp => IBV_FLOW_SPEC_TCP,
            Protocol::Udp => IBV_FLOW_SPEC_UDP,
        },
        size: size_of::<ibv_flow_spec_tcp_udp>() as u16,
        val: ibv_flow_tcp_udp_filter {
            dst_port: flow.local.port().to_be(),
            src_port: flow.peer.map_or(0, |peer| peer.port().to_be()),
        },
        mask: ibv_flow_tcp_udp_filter {
            dst_port: u16::MAX,
            src_port: flow.peer.map_or(0, |_| u16::MAX),
        },
    }
}

impl Rule {
    /// Of a flow at one address.
    pub(crate) fn new(flow: &Flow, mac: [u8; 6], tag: Option<Tag>, port: u8) -> Self {
        let (address, peer) = (flow.local.ip(), flow.peer.map(|peer| peer.ip()));
        let ethernet = ethernet_spec(address, mac, tag);
        let ports = ports(flow);
        match address {
            IpAddr::V4(local) => {
                let peer = match peer {
                    Some(IpAddr::V4(peer)) => Some(peer),
                    _ => None,
                };
                let number = |octets: [u8; 4]| u32::from_ne_bytes(octets);
                Self::V4(RuleV4 {
                    attr: head::<RuleV4>(port),
                    ethernet,
                    ip: ibv_flow_spec_ipv4 {
                        r#type: IBV_FLOW_SPEC_IPV4,
                        size: size_of::<ibv_flow_spec_ipv4>() as u16,
                        val: ibv_flow_ipv4_filter {
                            src_ip: peer.map_or(0, |peer| number(peer.octets())),
                            dst_ip: number(local.octets()),
                        },
                        mask: ibv_flow_ipv4_filter {
                            src_ip: peer.map_or(0, |_| u32::MAX),
                            dst_ip: u32::MAX,
                        },
                    },
                    ports,
                })
            }
            IpAddr::V6(local) => {
                let peer = match peer {
                    Some(IpAddr::V6(peer)) => Some(peer),
                    _ => None,
                };
                let filter = |src_ip, dst_ip| ibv_flow_ipv6_filter {
                    src_ip,
                    dst_ip,
                    ..ibv_flow_ipv6_filter::default()
                };
                Self::V6(RuleV6 {
                    attr: head::<RuleV6>(port),
                    ethernet,
                    ip: ibv_flow_spec_ipv6 {
                        r#type: IBV_FLOW_SPEC_IPV6,
                        size: size_of::<ibv_flow_spec_ipv6>() as u16,
                        val: filter(peer.map_or([0; 16], |peer| peer.octets()), local.octets()),
                        mask: filter(peer.map_or([0; 16], |_| [0xff; 16]), [0xff; 16]),
                    },
                    ports,
                })
            }
        }
    }

    /// Rules of one peer go before those of all. Of two that ask the same the second comes after
    /// the first.
    pub(crate) fn set_precedence(&mut self, is_of_one_peer: bool, is_second: bool) {
        let (Self::V4(RuleV4 { attr, .. }) | Self::V6(RuleV6 { attr, .. })) = self;
        attr.priority = if is_of_one_peer { 0 } else { 2 } + u16::from(is_second);
    }

    /// For the device: what it asks stands behind it.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut ibv_flow_attr {
        match self {
            Self::V4(rule) => std::ptr::from_mut(rule).cast(),
            Self::V6(rule) => std::ptr::from_mut(rule).cast(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn flow(local: &str, peer: Option<&str>) -> Flow {
        Flow {
            protocol: Protocol::Udp,
            local: local.parse().unwrap(),
            peer: peer.map(|peer| peer.parse().unwrap()),
        }
    }

    #[test]
    fn what_a_rule_asks_follows_it_without_a_gap() {
        for (local, peer) in [
            ("10.0.0.1:53", "10.0.0.2:9"),
            ("[fd00::1]:53", "[fd00::2]:9"),
        ] {
            let mut rule = Rule::new(&flow(local, Some(peer)), MAC, None, 1);
            let start = rule.as_mut_ptr().cast::<u8>();
            // SAFETY: the rule begins there.
            let size = unsafe { (*rule.as_mut_ptr()).size };
            let mut offset = size_of::<ibv_flow_attr>();
            let mut kinds = Vec::new();
            while offset < size.into() {
                // SAFETY: inside the rule.
                let spec = unsafe { start.add(offset).cast::<(u32, u16)>().read_unaligned() };
                kinds.push(spec.0);
                offset += usize::from(spec.1);
            }
            let ip = if local.contains('[') {
                IBV_FLOW_SPEC_IPV6
            } else {
                IBV_FLOW_SPEC_IPV4
            };
            assert_eq!(kinds, [IBV_FLOW_SPEC_ETH, ip, IBV_FLOW_SPEC_UDP]);
            assert_eq!(offset, usize::from(size));
        }
    }

    #[test]
    fn numbers_are_as_on_the_wire_and_a_port_asks_nothing_of_the_peer() {
        let Rule::V4(rule) = Rule::new(&flow("10.0.0.1:53", None), MAC, None, 2) else {
            panic!("IPv4");
        };
        assert_eq!(rule.attr.port, 2);
        assert_eq!(rule.ethernet.val.dst_mac, MAC);
        assert_eq!(rule.ip.val.dst_ip.to_ne_bytes(), [10, 0, 0, 1]);
        assert_eq!((rule.ip.mask.src_ip, rule.ports.mask.src_port), (0, 0));
        assert_eq!(rule.ports.val.dst_port.to_ne_bytes(), [0, 53]);
    }

    #[test]
    fn a_vlans_packets_have_its_tag() {
        let tag = Tag::new(5);
        let Rule::V4(rule) = Rule::new(&flow("10.0.0.1:53", None), MAC, tag, 1) else {
            panic!("IPv4");
        };
        let octets = |value: u16| value.to_ne_bytes();
        let ethernet = rule.ethernet;
        assert_eq!(octets(ethernet.val.vlan_tag), [0, 5]);
        assert_eq!(octets(ethernet.mask.vlan_tag), [0x0f, 0xff]);
    }

    #[test]
    fn a_group_has_its_own_hardware_address() {
        for (local, mac) in [
            ("239.129.2.3:5", [0x01, 0x00, 0x5e, 1, 2, 3]),
            ("[ff02::1:203]:5", [0x33, 0x33, 0, 1, 2, 3]),
        ] {
            let rule = Rule::new(&flow(local, None), MAC, None, 1);
            let (Rule::V4(RuleV4 { ethernet, .. }) | Rule::V6(RuleV6 { ethernet, .. })) = rule;
            assert_eq!(ethernet.val.dst_mac, mac);
        }
    }
}
