//! Links over those of a pair.

/// What `va` and `vb` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The ends of the pair themselves.
    Nothing,
    /// Macvlans, which most kernels have.
    Macvlan,
    /// VLANs: their frames have tags.
    Vlan,
    /// Bonds of one link each.
    Bond,
    /// VLANs over bonds.
    VlanOverBond,
}

impl Over {
    /// By `VMA_TEST_LINK`.
    ///
    /// # Panics
    ///
    /// If that names no kind.
    pub(crate) fn asked_for() -> Self {
        match std::env::var("VMA_TEST_LINK").as_deref() {
            Err(_) | Ok("") => Self::Nothing,
            Ok("macvlan") => Self::Macvlan,
            Ok("vlan") => Self::Vlan,
            Ok("bond") => Self::Bond,
            Ok("vlan-over-bond") => Self::VlanOverBond,
            Ok(other) => panic!("VMA_TEST_LINK={other}"),
        }
    }

    /// What `va` and `vb` are over, from below.
    pub(crate) fn lowers(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::Macvlan | Self::Vlan | Self::Bond => &["under"],
            Self::VlanOverBond => &["under", "both"],
        }
    }

    /// What `ip -batch` does to the end `link` of a pair: it is called `under` then, and `link` is
    /// over it.
    pub(crate) fn lines(self, link: &str) -> String {
        const BOND: &str = "type bond mode active-backup miimon 20";
        // A macvlan's lower link would answer for its address.
        let arp = if self == Self::Macvlan { "off" } else { "on" };
        let renamed = format!("link set {link} addrgenmode none arp {arp} name under\n");
        let bond = |name: &str| format!("link add {name} {BOND}\nlink set under master {name}\n");
        let vlan = |lower: &str| {
            format!("link set {lower} up\nlink add {link} link {lower} type vlan id 5\n")
        };
        match self {
            Self::Nothing => String::new(),
            Self::Macvlan => {
                let over = format!("link add {link} link under type macvlan mode bridge\n");
                renamed + &over + "link set under up\n"
            }
            Self::Vlan => renamed + &vlan("under"),
            Self::Bond => renamed + &bond(link),
            Self::VlanOverBond => {
                renamed + &bond("both") + "link set both addrgenmode none\n" + &vlan("both")
            }
        }
    }
}
