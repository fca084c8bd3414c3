//! Two namespaces joined by a cable.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::cable::Cable;
use crate::emulated_verbs;
use crate::link::Conditions;
use crate::namespace::Namespace;
use crate::over::Over;
use crate::skip::Skip;

/// How long a fresh link may take until it carries traffic; the kernel needs milliseconds.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a [`Pair`] is made of; start from [`Namespaces::new`] or take [`Namespaces::pair`].
#[derive(Clone, Debug)]
pub struct Namespaces {
    mtu_bytes: Option<u32>,
    queue_count: u32,
    second_subnet: bool,
    ipv6: bool,
    over: Over,
    cable: Option<(Conditions, u64)>,
}

/// Two namespaces joined by a veth pair, `va` in `a` and `vb` in `b`, both up, `lo` too.
#[derive(Debug)]
pub struct Pair {
    /// Ends before the links do that it joins.
    _cable: Option<Cable>,
    /// Holds `va` with [`Pair::ADDRESS_A`].
    pub a: Namespace,
    /// Holds `vb` with [`Pair::ADDRESS_B`].
    pub b: Namespace,
}

impl Pair {
    /// Of `va`, with prefix length 24.
    pub const ADDRESS_A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    /// Of `vb`, with prefix length 24.
    pub const ADDRESS_B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
    /// Of `va` with [`Namespaces::second_subnet`], with prefix length 24.
    pub const SECOND_ADDRESS_A: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
    /// Of `vb` with [`Namespaces::second_subnet`], with prefix length 24.
    pub const SECOND_ADDRESS_B: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
    /// Of `va` with [`Namespaces::ipv6`], with prefix length 64.
    pub const IPV6_ADDRESS_A: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
    /// Of `vb` with [`Namespaces::ipv6`], with prefix length 64.
    pub const IPV6_ADDRESS_B: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
}

impl Pair {
    /// Bonds ([`Over::Bond`]) get another link each, called `second`.
    ///
    /// # Panics
    ///
    /// If they are no bonds.
    pub fn add_second_link(&self) {
        let far = self.b.name();
        let joined = |bond| format!("link set second master {bond}\nlink set second up\n");
        let added = format!("link add second type veth peer name second netns {far}\n");
        for (namespace, lines) in [(&self.a, added + &joined("va")), (&self.b, joined("vb"))] {
            namespace
                .ip_batch(&lines)
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

impl Namespaces {
    /// The plain pair: MTU 1500, one queue, one IPv4 subnet. The links have no IPv6 address, not
    /// even a link-local one, so that the kernel sends nothing on its own.
    #[expect(clippy::new_without_default, reason = "`new` starts a builder")]
    pub fn new() -> Self {
        Self {
            mtu_bytes: None,
            queue_count: 1,
            second_subnet: false,
            ipv6: false,
            over: Over::asked_for(),
            cable: None,
        }
    }

    /// The plain pair, made.
    pub fn pair() -> Result<Pair, Skip> {
        Self::new().create()
    }

    /// Sets the MTU of both ends, in bytes.
    #[must_use]
    pub fn mtu(mut self, mtu_bytes: u32) -> Self {
        self.mtu_bytes = Some(mtu_bytes);
        self
    }

    /// Sets the number of receive queues and of transmit queues of both ends.
    #[must_use]
    pub fn queues(mut self, queue_count: u32) -> Self {
        self.queue_count = queue_count;
        self
    }

    /// Adds 10.78.0.1/24 and 10.78.0.2/24 to the same link.
    #[must_use]
    pub fn second_subnet(mut self) -> Self {
        self.second_subnet = true;
        self
    }

    /// Adds fd77::1/64 and fd77::2/64, and the link-local addresses fe80::1 and fe80::2, all usable
    /// at once (without duplicate address detection).
    #[must_use]
    pub fn ipv6(mut self) -> Self {
        self.ipv6 = true;
        self
    }

    /// `va` and `vb` are of this kind, over the ends of the pair, which are both called `under`
    /// then. With `VMA_TEST_LINK`, all pairs are of the kind that it names.
    #[must_use]
    pub fn over(mut self, kind: Over) -> Self {
        self.over = kind;
        self
    }

    /// Joins the links by a cable that treats frames so in both directions, instead of directly.
    /// Both links are told to make frames of their MTU, with checksums.
    #[must_use]
    pub fn cable(mut self, conditions: Conditions, seed: u64) -> Self {
        self.cable = Some((conditions, seed));
        self
    }

    /// Makes the pair. The skip says which part this machine does not offer.
    ///
    /// # Panics
    ///
    /// If namespaces and veth work but an option does not: then the test asks for the impossible.
    pub fn create(self) -> Result<Pair, Skip> {
        let mut pair = Pair {
            _cable: None,
            a: Namespace::create("a")?,
            b: Namespace::create("b")?,
        };
        let queues = self.queue_count.to_string();
        let queues = [
            "numrxqueues",
            queues.as_str(),
            "numtxqueues",
            queues.as_str(),
        ];
        // Different indexes: a test cannot mistake one for the other, and the kernel delays the
        // carrier of a link by a second if its index is equal to its peer's.
        let near = ["va", "index", "12", "netns", pair.a.name()];
        let far = ["vb", "index", "23", "netns", pair.b.name()];
        let join = |near: &[&str], far: &[&str]| {
            let far = [&["type", "veth", "peer", "name"], far, &queues].concat();
            pair.a
                .ip(&[&["link", "add"], near, &queues, &far].concat())
                .map_err(|error| Skip::new(format!("cannot make a veth pair: {error}")))
        };
        let middle = match self.cable {
            None => {
                join(&near, &far)?;
                None
            }
            Some((conditions, seed)) => {
                let middle = Namespace::create("m")?;
                join(&near, &["ma", "index", "34", "netns", middle.name()])?;
                join(&far, &["mb", "index", "45", "netns", middle.name()])?;
                Some((middle, conditions, seed))
            }
        };
        if self.ipv6 && !std::path::Path::new("/proc/net/if_inet6").exists() {
            return Err(Skip::new("this kernel has no IPv6"));
        }

        let ends = [
            (
                &pair.a,
                "va",
                Pair::ADDRESS_A,
                Pair::SECOND_ADDRESS_A,
                Pair::IPV6_ADDRESS_A,
            ),
            (
                &pair.b,
                "vb",
                Pair::ADDRESS_B,
                Pair::SECOND_ADDRESS_B,
                Pair::IPV6_ADDRESS_B,
            ),
        ];
        for (namespace, link, address, second, ipv6) in ends {
            namespace
                .ip_batch(&self.link_lines(link, (address, second, ipv6)))
                .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        }
        if let Some((middle, conditions, seed)) = middle {
            let cable = Cable::new(middle, [(&pair.a, "va"), (&pair.b, "vb")], conditions, seed);
            pair._cable = Some(cable.unwrap_or_else(|error| panic!("{self:?}: {error}")));
        }
        for (namespace, link) in [(&pair.a, "va"), (&pair.b, "vb")] {
            namespace
                .wait_until_running(link, CARRIER_TIMEOUT)
                .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        }
        if emulated_verbs::asked_for().is_some() {
            pair.make_wire();
        }
        Ok(pair)
    }

    /// What `ip -batch` does to an end.
    fn link_lines(
        &self,
        link: &str,
        (address, second, ipv6): (Ipv4Addr, Ipv4Addr, Ipv6Addr),
    ) -> String {
        let mut lines = self.over.lines(link);
        if let Some(mtu_bytes) = self.mtu_bytes {
            for lower in self.over.lowers() {
                lines += &format!("link set {lower} mtu {mtu_bytes}\n");
            }
            lines += &format!("link set {link} mtu {mtu_bytes}\n");
        }
        lines += &format!("address add {address}/24 dev {link}\n");
        if self.second_subnet {
            lines += &format!("address add {second}/24 dev {link}\n");
        }
        // The kernel's own link-local address would be tentative for a second or two.
        lines += &format!("link set {link} addrgenmode none\n");
        if self.ipv6 {
            let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, ipv6.segments()[7]);
            lines += &format!("address add {ipv6}/64 dev {link} nodad\n");
            lines += &format!("address add {link_local}/64 dev {link} nodad\n");
        }
        lines + &format!("link set {link} up\n")
    }
}
