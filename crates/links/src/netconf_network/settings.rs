//! Settings of the network in /proc/sys.

/// The hop limit that an interface has from a router, or by configuration (`ip6_dst_hoplimit`,
/// net/ipv6/output_core.c).
pub(super) fn hop_limit_of(link: &str) -> u8 {
    let path = format!("/proc/sys/net/ipv6/conf/{link}/hop_limit");
    let text = std::fs::read_to_string(path).ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(64)
}

/// A setting of an interface that is in force if it is set for this or for all (`ip-sysctl`).
pub(super) fn conf(version: &str, link: &str, setting: &str) -> u32 {
    let of = |link: &str| self::setting(&format!("{version}/conf/{link}/{setting}"));
    of(link).max(of("all"))
}

/// A setting in the thread's namespace; 0 if there is none.
pub(super) fn setting(name: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/sys/net/{name}")).ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
