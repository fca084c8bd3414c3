//! What the interfaces are good for.

use dev_xdp::bpf::link::AttachMode;

use crate::facts::{Facts, Interface};
use crate::measure::{Measured, words};
use crate::probe::Opened;
use crate::report::Finding;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let Some(interfaces) = &facts.interfaces else {
        return vec![Finding::worse("interfaces", "netlink does not answer", "")];
    };
    let mut findings: Vec<Finding> = interfaces.iter().map(|it| interface(facts, it)).collect();
    if !interfaces.iter().any(is_usable) {
        findings.push(Finding::missing(
            "interfaces",
            "none that is up, has an address, no XDP program, and lets an AF_XDP socket be opened",
            "Loopback is not accelerated; see ip address and ip link.",
        ));
    }
    findings
}

fn is_usable(it: &Interface) -> bool {
    let opens = it.opened.as_ref().is_none_or(|it| *it == Opened::Yes);
    let is_free = it.xdp_program.is_none() && opens;
    it.has_address && !it.is_part && (is_free || is_shared(it))
}

/// Whether the broker has it, which gives parts of it to programs that may have one.
fn is_shared(it: &Interface) -> bool {
    let holder = it.holder.as_deref();
    holder.is_some_and(|holder| holder.ends_with("(vmad)"))
}

/// Bytes of an IPv4 packet that fit into the largest frame.
const LARGEST_MTU: u32 = 3826;

/// The largest MTU with which drivers take XDP programs, where a packet is to be one buffer.
const DRIVERS: [(&str, u32); 7] = [
    ("ena", 3498),
    ("gve", 2032),
    ("virtio_net", 3506),
    ("mana", 3506),
    ("mlx5_core", 3498),
    ("igc", 1500),
    ("ixgbe", 3050),
];

fn interface(facts: &Facts, interface: &Interface) -> Finding {
    let name = interface.name.as_str();
    let driver = interface.driver.as_deref().unwrap_or("unknown driver");
    let queues = interface.queues;
    let plural = if queues == 1 { "" } else { "s" };
    let text = format!(
        "{driver}, {queues} queue{plural}, MTU {}, {}",
        interface.mtu,
        mode(facts, interface)
    );
    if let Some(finding) = held(interface, &text) {
        return finding;
    }
    if let Some(Opened::No { step, error }) = &interface.opened {
        let text = format!("{text}; no AF_XDP socket: {step}: {error}");
        let remedy = match *step {
            "socket(AF_XDP)" => {
                "The kernel needs CONFIG_XDP_SOCKETS, and this user CAP_NET_RAW; a container's filter of system calls may \
                 refuse the family, too."
            }
            "XDP_UMEM_REG" => "More memory is to be locked: see memlock.",
            _ => "See dmesg, and ethtool -i for the driver.",
        };
        return Finding::worse(name, text, remedy);
    }
    if !interface.has_address {
        let text = format!("{text}; no address");
        return Finding::worse(
            name,
            text,
            "Give it one: ip address add ADDRESS/LENGTH dev NAME.",
        );
    }
    if interface.is_part {
        return Finding::worse(
            name,
            format!("{text}; part of a bridge or bond"),
            "Packets are steered above it: give the address to the bond (a bridge is not accelerated).",
        );
    }
    let limit = DRIVERS.iter().find(|(name, _)| *name == driver);
    if let Some((_, most)) = limit.filter(|(_, most)| interface.mtu > *most) {
        let remedy = format!(
            "The driver may refuse XDP with an MTU above {most}: ip link set dev {name} mtu {most}, or VMA_XDP_MODE=generic."
        );
        return Finding::worse(name, text, &remedy);
    }
    if interface.mtu > LARGEST_MTU {
        return Finding::worse(
            name,
            text,
            "Packets beyond 3826 bytes go through the kernel.",
        );
    }
    match (&interface.measured, &interface.opened) {
        (Some(measured), _) => of_measured(name, &text, measured),
        (None, Some(_)) => Finding::fine(name, format!("{text}, an AF_XDP socket opens")),
        (None, None) => Finding::fine(name, text),
    }
}

fn of_measured(name: &str, text: &str, measured: &Measured) -> Finding {
    let (asked, native, generic, not_kept) = match measured {
        Measured::Modes {
            asked,
            native,
            generic,
            not_kept,
        } => (asked, native, generic, not_kept),
        Measured::NobodyToAsk => {
            return Finding::worse(
                name,
                format!("{text}; not measured: no neighbour with an IPv4 address is known"),
                "Ping the gateway or any host on the link first.",
            );
        }
    };
    let text = format!(
        "{text}; an ARP round trip with {asked}: native {}, generic {}",
        words(native),
        words(generic)
    );
    if native.is_err() && generic.is_err() {
        let remedy = "Answers that come to another queue than the first are not seen: measure with one (ethtool -L \
                      NAME combined 1).";
        return Finding::worse(name, text, remedy);
    }
    match not_kept {
        None => Finding::fine(name, text),
        Some(why) => Finding::worse(
            name,
            format!("{text}; not kept for VMA_XDP_MODE=auto: {why}"),
            "Run it as root, or set VMA_XDP_MODE.",
        ),
    }
}

/// That of XDP, as far as it is known before a program is attached.
fn mode(facts: &Facts, interface: &Interface) -> &'static str {
    if interface.is_upper {
        return match facts.has_generic_mode() {
            true => "generic XDP",
            false => "no XDP",
        };
    }
    match interface.measured_mode {
        Some(AttachMode::Native) => return "native XDP, as measured",
        Some(AttachMode::Generic) => return "generic XDP, as measured",
        None => {}
    }
    match (interface.is_veth, facts.has_generic_mode()) {
        (true, true) => "generic XDP",
        (true, false) => "native XDP",
        (false, true) => "native XDP if the driver has it, else generic",
        (false, false) => "native XDP if the driver has it, else none",
    }
}

/// Somebody has the interface.
fn held(interface: &Interface, text: &str) -> Option<Finding> {
    let name = interface.name.as_str();
    let what = match interface.xdp_program {
        Some(program) => format!("XDP program {program} is attached"),
        None if interface.opened == Some(Opened::Busy) => "its queue is in use".to_owned(),
        None => return None,
    };
    Some(match &interface.holder {
        Some(holder) if is_shared(interface) => {
            Finding::fine(name, format!("{text}; {holder} shares it: {what}"))
        }
        Some(holder) => Finding::worse(
            name,
            format!("{text}; held by {holder}: {what}"),
            "One process an interface: sockets of others wait for it on the kernel, and take it over when that ends; vma-broker.service \
             lets several have it.",
        ),
        None => Finding::worse(
            name,
            format!("{text}; {what}, by nobody who can be seen from here"),
            &format!(
                "bpftool net shows the program. libxdp's dispatcher goes away with xdp-loader unload {name} --all, another \
                 one with ip link set dev {name} xdp off."
            ),
        ),
    })
}

#[cfg(test)]
mod tests;
