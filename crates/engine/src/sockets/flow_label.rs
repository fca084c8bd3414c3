//! Flow labels of IPv6 packets, as the kernel gives them by itself (`ip6_make_flowlabel`, include/net/ipv6.h; RFC 6437): all packets of a
//! flow have the same, by which routers spread flows over several ways.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::LazyLock;

use dev_core::Protocol;

/// Nobody can tell from a label what else has gone into it.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// What tells labels that a host has made by itself from those that programs ask for (`IPV6_FLOWLABEL_STATELESS_FLAG`).
const STATELESS: u32 = 0x8_0000;
const BITS: u32 = 0xf_ffff;

/// The label of a flow from one end to the other, or 0. `wanted`: what the socket says (`IPV6_AUTOFLOWLABEL`), if it says anything.
pub(crate) fn flow_label(
    wanted: Option<bool>,
    protocol: Protocol,
    ends: (SocketAddr, SocketAddr),
) -> u32 {
    if !is_given(setting("auto_flowlabels").unwrap_or(OPT_OUT), wanted) {
        return 0;
    }
    let label = KEYS.hash_one((protocol, ends)) as u32 & BITS;
    match setting("flowlabel_state_ranges") {
        None | Some(0) => label,
        Some(_) => label | STATELESS,
    }
}

/// Values of `net.ipv6.auto_flowlabels`; of all others a socket has to ask.
const OFF: u32 = 0;
const OPT_OUT: u32 = 1;
const FORCED: u32 = 3;

fn is_given(setting: u32, wanted: Option<bool>) -> bool {
    match setting {
        OFF => false,
        FORCED => true,
        setting => wanted.unwrap_or(setting == OPT_OUT),
    }
}

/// `net.ipv6`, in the thread's namespace.
fn setting(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv6/{name}"));
    text.ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_socket_decide_together() {
        for (setting, expected) in [
            (0, [false, false, false]),
            (1, [true, false, true]),
            (2, [false, false, true]),
            (3, [true, true, true]),
        ] {
            let seen = [None, Some(false), Some(true)].map(|wanted| is_given(setting, wanted));
            assert_eq!(seen, expected, "{setting}");
        }
    }

    #[test]
    fn a_flow_keeps_its_label_and_others_have_others() {
        let label = |port: u16| {
            let end = |port| SocketAddr::new([0xfd, 0, 0, 0, 0, 0, 0, 1].into(), port);
            KEYS.hash_one((Protocol::Udp, (end(9), end(port)))) as u32 & BITS
        };
        assert_eq!(label(1), label(1));
        let labels: std::collections::HashSet<u32> = (0..1000).map(label).collect();
        assert!(labels.len() > 950, "{} of 1000 flows", labels.len());
    }
}
