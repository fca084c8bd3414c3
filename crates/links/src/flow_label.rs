//! Flow labels of IPv6 packets, as the kernel gives them by itself (`ip6_make_flowlabel`,
//! include/net/ipv6.h; RFC 6437): all packets of a flow have the same, by which routers spread
//! flows over several ways.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dev_core::Protocol;

/// Nobody can tell from a label what else has gone into it. No lock: a thread may be here when
/// another forks.
static SECRET: AtomicU64 = AtomicU64::new(0);

fn secret() -> u64 {
    let known = SECRET.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let new = sys::random() | 1;
    let set = SECRET.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
    set.map_or_else(|first| first, |_| new)
}

/// What goes into the label of a flow: it is the same as long as the process lives.
fn hash(protocol: Protocol, ends: (SocketAddr, SocketAddr)) -> u32 {
    let mut hasher = DefaultHasher::new();
    (secret(), protocol, ends).hash(&mut hasher);
    hasher.finish() as u32 & BITS
}

/// What tells labels that a host has made by itself from those that programs ask for
/// (`IPV6_FLOWLABEL_STATELESS_FLAG`).
const STATELESS: u32 = 0x8_0000;
const BITS: u32 = 0xf_ffff;

/// The label of a flow from one end to the other, or 0. `wanted`: what the socket says
/// (`IPV6_AUTOFLOWLABEL`), if it says anything.
pub fn flow_label(wanted: Option<bool>, protocol: Protocol, ends: (SocketAddr, SocketAddr)) -> u32 {
    let settings = settings();
    if !is_given(settings & VALUES, wanted) {
        return 0;
    }
    hash(protocol, ends) | settings & STATELESS
}

/// For so long the host's settings are taken for known.
const KNOWN_NSEC: u64 = 100_000_000;
static ASKED_AT_NSEC: AtomicU64 = AtomicU64::new(0);
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// `net.ipv6.auto_flowlabels`, and the bit of [`STATELESS`] if labels have it
/// (`net.ipv6.flowlabel_state_ranges`).
fn settings() -> u32 {
    let now = sys::tick_nsec();
    let asked_at = ASKED_AT_NSEC.load(Ordering::Acquire);
    if asked_at != 0 && now.saturating_sub(asked_at) < KNOWN_NSEC {
        return KNOWN.load(Ordering::Relaxed);
    }
    let has_ranges = setting("flowlabel_state_ranges").is_some_and(|it| it != 0);
    let ranges = if has_ranges { STATELESS } else { 0 };
    let settings = setting("auto_flowlabels").unwrap_or(OPT_OUT) & VALUES | ranges;
    KNOWN.store(settings, Ordering::Relaxed);
    ASKED_AT_NSEC.store(now, Ordering::Release);
    settings
}

/// Values of `net.ipv6.auto_flowlabels`; of all others a socket has to ask.
const OFF: u32 = 0;
const OPT_OUT: u32 = 1;
const FORCED: u32 = 3;
const VALUES: u32 = 0xff;

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
            hash(Protocol::Udp, (end(9), end(port)))
        };
        assert_eq!(label(1), label(1));
        let labels: std::collections::HashSet<u32> = (0..1000).map(label).collect();
        assert!(labels.len() > 950, "{} of 1000 flows", labels.len());
    }
}
