//! The offload decision: a pure function of what is known about a socket and the interfaces.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dev_core::{Flow, Protocol};
use links::family::Versions;
use links::network::InterfaceFacts;
use links::reason::Reason;
use vma_config::rules::{ProcessRule, ProcessRules, Role};

/// What is known about a bound UDP socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketFacts<'a> {
    /// Bound address; unspecified means every address of the host, of the versions that it carries.
    pub(crate) local: SocketAddr,
    /// Peer of a connected socket.
    pub(crate) peer: Option<SocketAddr>,
    /// The versions of IP that it carries.
    pub(crate) versions: Versions,
    /// `SO_BINDTODEVICE`: index of the interface, or 0.
    pub(crate) device: u32,
    /// With `SO_REUSEADDR` or `SO_REUSEPORT`: who else has the port.
    pub(crate) sharing: PortSharing,
    /// Why no socket of the process may be accelerated.
    pub(crate) refusal: Option<Reason>,
    /// Made in another network namespace than the engine's.
    pub(crate) foreign: bool,
    /// IPsec policies are in force.
    pub(crate) ipsec: bool,
    /// `libvma.conf`
    pub(crate) rules: &'a ProcessRules,
}

/// What is known about who else has the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortSharing {
    /// Nobody who could get our datagrams.
    Alone,
    /// Other processes have their part, where a broker serves the interface.
    Joint,
    /// Somebody, for some of them.
    Shared,
    /// The kernel does not say.
    Unknown,
}

/// Why a socket has no flows, and the rule behind it if it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOffloaded<'a> {
    pub(crate) reason: Reason,
    pub(crate) rule: Option<&'a ProcessRule>,
}

impl fmt::Display for NotOffloaded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason.text())?;
        self.rule.iter().try_for_each(|rule| write!(f, ": {rule}"))
    }
}

impl From<Reason> for NotOffloaded<'_> {
    fn from(reason: Reason) -> Self {
        Self { reason, rule: None }
    }
}

impl NotOffloaded<'_> {
    /// What the reason is about, as far as the socket's address says it.
    pub(crate) fn detail(&self, local: SocketAddr, interfaces: &[InterfaceFacts]) -> String {
        let address = local.ip();
        let owners = interfaces.iter().filter(|it| {
            !it.loopback && (address.is_unspecified() || it.addresses.contains(&address))
        });
        match self.reason {
            Reason::Multicast | Reason::AddressNotLocal | Reason::NotUnicast => address.to_string(),
            Reason::NoInterface => {
                let names = owners.map(|it| format!("{}: {}", it.spec.name, it.obstacle));
                names
                    .map(|it| it.trim_end_matches(": ").to_owned())
                    .collect::<Vec<_>>()
                    .join(", ")
            }
            Reason::OpenFailed | Reason::DeviceLost => {
                let names: Vec<_> = owners.map(|owner| owner.spec.name.as_str()).collect();
                names.join(", ")
            }
            _ => String::new(),
        }
    }
}

/// The rule by which the program sends and receives through the kernel only, whatever the
/// addresses: the socket need not even be looked at.
pub(crate) fn program_rule(rules: &ProcessRules) -> Option<&ProcessRule> {
    rules.leaves_all_to_os(Role::UdpSender)?;
    rules.leaves_all_to_os(Role::UdpReceiver)
}

/// The rule by which datagrams to an address go through the kernel.
pub(crate) fn sender_rule(rules: &ProcessRules, destination: SocketAddr) -> Option<&ProcessRule> {
    os_rule(rules, Role::UdpSender, destination, None)
}

/// The rule by which datagrams that come to an address are the kernel's.
pub(crate) fn receiver_rule(rules: &ProcessRules, local: SocketAddr) -> Option<&ProcessRule> {
    os_rule(rules, Role::UdpReceiver, local, None)
}

/// The rule by which a socket that is connected is the kernel's.
pub(crate) fn connect_rule(
    rules: &ProcessRules,
    peer: SocketAddr,
    local: SocketAddr,
) -> Option<&ProcessRule> {
    os_rule(rules, Role::UdpConnect, peer, Some(local))
}

/// The rule by which what is between two addresses is the kernel's.
pub(crate) fn os_rule(
    rules: &ProcessRules,
    role: Role,
    first: SocketAddr,
    second: Option<SocketAddr>,
) -> Option<&ProcessRule> {
    rules
        .find(role, first, second)
        .filter(|rule| rule.leaves_to_os())
}

/// Why a socket is the kernel's whatever interfaces there are.
fn refuse<'a>(socket: &SocketFacts<'a>) -> Result<(), NotOffloaded<'a>> {
    if let Some(reason) = socket.refusal {
        return Err(reason.into());
    }
    if socket.foreign {
        return Err(Reason::Namespace.into());
    }
    if socket.ipsec {
        return Err(Reason::Ipsec.into());
    }
    let rule_for = |peer| connect_rule(socket.rules, peer, socket.local);
    if let Some(rule) = socket.peer.and_then(rule_for) {
        let (reason, rule) = (Reason::Rule, Some(rule));
        return Err(NotOffloaded { reason, rule });
    }
    match socket.sharing {
        PortSharing::Alone | PortSharing::Joint => {}
        PortSharing::Shared => return Err(Reason::PortShared.into()),
        PortSharing::Unknown => return Err(Reason::ReuseAddress.into()),
    }
    let wanted = socket.local.ip();
    match wanted {
        _ if wanted.is_multicast() => return Err(Reason::Multicast.into()),
        IpAddr::V4(Ipv4Addr::BROADCAST) => return Err(Reason::NotUnicast.into()),
        _ => {}
    }
    if wanted.is_loopback() {
        return Err(Reason::Loopback.into());
    }
    Ok(())
}

/// Flows that would give the socket its packets, each with the index of the interface that they
/// come in on.
pub(crate) fn plan<'a>(
    socket: &SocketFacts<'a>,
    interfaces: &[InterfaceFacts],
) -> Result<Vec<(u32, Flow)>, NotOffloaded<'a>> {
    refuse(socket)?;
    let wanted = socket.local.ip();
    let flow = |address| Flow {
        protocol: Protocol::Udp,
        local: SocketAddr::new(address, socket.local.port()),
        peer: socket.peer,
    };
    let is_wanted = |address: &IpAddr| {
        *address == wanted || wanted.is_unspecified() && socket.versions.carry(*address)
    };
    let owned = |interface: &&InterfaceFacts| {
        wanted.is_unspecified() || interface.addresses.contains(&wanted)
    };
    let mut owners = interfaces.iter().filter(owned).peekable();
    if owners.peek().is_none() {
        return Err(Reason::AddressNotLocal.into());
    }
    let mut flows = Vec::new();
    // One flow for any address, however many there are, unless rules tell them apart.
    let rule_of = |address: &IpAddr| {
        let local = SocketAddr::new(*address, socket.local.port());
        receiver_rule(socket.rules, local)
    };
    let addresses = || interfaces.iter().flat_map(|it| &it.addresses);
    let is_for_any = wanted.is_unspecified()
        && socket.peer.is_none()
        && !addresses().any(|address| rule_of(address).is_some());
    let is_device = |index| socket.device == 0 || socket.device == index;
    for interface in owners.filter(|interface| {
        interface.is_eligible() && !interface.loopback && is_device(interface.spec.index)
    }) {
        let index = interface.spec.index;
        let addresses = interface.addresses.iter().copied();
        let addresses = addresses.filter(is_wanted);
        if is_for_any {
            let mut versions = [false; 2];
            addresses.for_each(|address| versions[usize::from(address.is_ipv6())] = true);
            let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
            let any = any
                .into_iter()
                .zip(versions)
                .filter(|(_, is_there)| *is_there);
            flows.extend(any.map(|(any, _)| (index, flow(any))));
        } else {
            flows.extend(addresses.map(|address| (index, flow(address))));
        }
    }
    // An address may be there twice, with two prefix lengths.
    let mut seen = HashSet::new();
    flows.retain(|flow| seen.insert(*flow));
    if flows.is_empty() {
        return Err(Reason::NoInterface.into());
    }
    let mut ruled_out = None;
    flows.retain(|(_, flow)| {
        let rule = receiver_rule(socket.rules, flow.local).filter(|_| !is_for_any);
        ruled_out = ruled_out.or(rule);
        rule.is_none()
    });
    if flows.is_empty() {
        let (reason, rule) = (Reason::ReceiverRule, ruled_out);
        return Err(NotOffloaded { reason, rule });
    }
    Ok(flows)
}

#[cfg(test)]
mod tests;
