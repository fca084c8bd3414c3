//! Changes of host `b`'s network, and of its peer's, and what becomes of traffic from `b` to
//! `stage::FAR`.

/// A change, and where packets come in after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// Lines of `ip`, with "; " between them.
    pub(crate) line: &'static str,
    /// An interface of host `a`; "": nowhere.
    pub(crate) device: &'static str,
    /// What send calls say.
    pub(crate) error: &'static str,
    /// Packets go past the kernel then.
    pub(crate) is_accelerated: bool,
    /// Packets that are on their way at that moment are lost.
    pub(crate) loses: bool,
}

/// Nothing is lost.
pub(crate) const fn to(device: &'static str, line: &'static str) -> Change {
    Change {
        line,
        device,
        error: "none",
        is_accelerated: true,
        loses: false,
    }
}

/// What is sent before the change is known is lost, as what is sent through the kernel before it
/// is.
pub(crate) const fn cut(device: &'static str, line: &'static str) -> Change {
    Change {
        loses: true,
        ..to(device, line)
    }
}

/// The kernel's datagrams from here on, by fragments.
const fn by_kernel(device: &'static str, line: &'static str) -> Change {
    Change {
        is_accelerated: false,
        ..to(device, line)
    }
}

const fn refused(error: &'static str, line: &'static str) -> Change {
    Change {
        error,
        is_accelerated: false,
        ..to("", line)
    }
}

pub(crate) const ROUTES: &[Change] = &[
    // What comes back takes the other cable.
    cut("va", "a: route add 10.77.0.2/32 via 10.78.0.2"),
    to("va", "a: route del 10.77.0.2/32"),
    to("wa", "route replace 10.99.0.0/24 via 10.78.0.1"),
    to("va", "route add 10.99.0.1/32 via 10.77.0.1"),
    to(
        "wa",
        "route add 10.99.0.1/32 via 10.78.0.1 table 100; rule add to 10.99.0.1 lookup 100 priority 10",
    ),
    to("va", "rule del priority 10"),
    refused("EINVAL", "route replace blackhole 10.99.0.1/32"),
    refused("EHOSTUNREACH", "route replace unreachable 10.99.0.1/32"),
    refused("EACCES", "route replace prohibit 10.99.0.1/32"),
    cut("va", "route replace 10.99.0.1/32 via 10.77.0.1"),
    to("wa", "route del 10.99.0.1/32"),
    to("va", "route replace 10.99.0.0/24 dev vb"),
    to(
        "wa",
        "route replace default via 10.78.0.1; route del 10.99.0.0/24",
    ),
];

pub(crate) const METRICS: &[Change] = &[
    by_kernel("va", "link set vb mtu 900"),
    to("va", "link set vb mtu 1500"),
    by_kernel("va", "route replace 10.99.0.0/24 via 10.77.0.1 mtu 800"),
    by_kernel(
        "va",
        "route replace 10.99.0.0/24 via 10.77.0.1 mtu lock 800",
    ),
    to(
        "va",
        "address add 10.77.0.9/24 dev vb; route replace 10.99.0.0/24 via 10.77.0.1 src 10.77.0.9",
    ),
    by_kernel("va", "route replace 10.99.0.0/24 via 10.77.0.1 hoplimit 5"),
    to("va", "route replace 10.99.0.0/24 via 10.77.0.1"),
];

pub(crate) const NEIGHBOURS: &[Change] = &[
    to("va", "neigh del 10.77.0.1 dev vb"),
    to("va", "neigh flush all"),
    // It says so itself (`arp_notify`).
    cut("va", "a: link set va address 02:00:00:00:00:77"),
    cut(
        "",
        "neigh replace 10.77.0.1 lladdr 02:00:00:00:00:78 dev vb nud permanent",
    ),
    cut("va", "neigh del 10.77.0.1 dev vb"),
    cut(
        "va",
        "neigh replace 10.77.0.1 lladdr 02:00:00:00:00:77 dev vb nud permanent",
    ),
    to("va", "neigh del 10.77.0.1 dev vb"),
];

pub(crate) const LINKS: &[Change] = &[
    to("va", "link set vb name vx"),
    to("va", "link set vx name vb"),
    to(
        "wa",
        "route replace 10.99.0.0/24 via 10.78.0.1 metric 5; route del 10.99.0.0/24 via 10.77.0.1; \
         route add 10.99.0.0/24 via 10.77.0.1 metric 10",
    ),
    cut("va", "link set wb down"),
    to("va", "link set wb up"),
    to("wa", "route add 10.99.0.0/24 via 10.78.0.1 metric 5"),
    // The other end of the cable; the host does not use routes without a carrier
    // (`ignore_routes_with_linkdown`).
    cut("va", "a: link set wa down"),
    cut("wa", "a: link set wa up"),
    cut("va", "link del wb"),
];
