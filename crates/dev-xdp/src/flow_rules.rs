//! Rules of a network card that bring flows by chosen queues ("n-tuple filters", `ethtool -N`):
//! `ETHTOOL_SRXCLSRLINS` of `include/uapi/linux/ethtool.h`. What no rule is about comes by the
//! queue that the card chooses.

mod ledger;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use descriptors::OwnDescriptor;
use dev_core::{Flow, Protocol};

use crate::ethtool;
use ledger::{Ledger, Place};

const ETHTOOL_GRXCLSRLCNT: u32 = 0x2e;
const ETHTOOL_GRXCLSRULE: u32 = 0x2f;
const ETHTOOL_GRXCLSRLALL: u32 = 0x30;
const ETHTOOL_SRXCLSRLDEL: u32 = 0x31;
const ETHTOOL_SRXCLSRLINS: u32 = 0x32;
/// In the answer to `ETHTOOL_GRXCLSRLCNT`: the driver finds a place by itself.
const RX_CLS_LOC_SPECIAL: u64 = 0x8000_0000;
const RX_CLS_LOC_ANY: u32 = 0xffff_ffff;

const TCP_V4_FLOW: u32 = 1;
const UDP_V4_FLOW: u32 = 2;
const TCP_V6_FLOW: u32 = 5;
const UDP_V6_FLOW: u32 = 6;

/// Places of rules that are read at most: as many as large cards have.
const PLACES_MAX: usize = 16 * 1024;

/// `union ethtool_flow_union`, as octets.
type Fields = [u8; 52];

/// What a rule is about, and the queue: the octets of a [`FlowSpec`] that are one's own.
type Rule = [u8; RULE_BYTES];
const RULE_BYTES: usize = 4 + 2 * 52 + 8;

/// `struct ethtool_rx_flow_spec`
#[derive(Clone, Copy)]
#[repr(C)]
struct FlowSpec {
    flow_type: u32,
    fields: Fields,
    /// `struct ethtool_flow_ext`
    extension: [u8; 20],
    /// Bits of `fields` that count.
    mask: Fields,
    mask_extension: [u8; 20],
    /// The queue.
    ring_cookie: u64,
    location: u32,
}

/// `struct ethtool_rxnfc`
#[derive(Clone, Copy)]
#[repr(C)]
struct Rxnfc {
    command: u32,
    flow_type: u32,
    data: u64,
    spec: FlowSpec,
    rule_count: u32,
}

/// The same with the places behind it.
#[repr(C)]
struct RxnfcWithPlaces {
    head: Rxnfc,
    places: [u32; PLACES_MAX],
}

const _: () = assert!(size_of::<FlowSpec>() == 168 && size_of::<Rxnfc>() == 192);
const _: () = assert!(std::mem::offset_of!(FlowSpec, ring_cookie) == 152);
const _: () = assert!(std::mem::offset_of!(Rxnfc, rule_count) == 184);

impl Rxnfc {
    fn new(command: u32) -> Self {
        Self {
            command,
            flow_type: 0,
            data: 0,
            spec: FlowSpec {
                flow_type: 0,
                fields: [0; 52],
                extension: [0; 20],
                mask: [0; 52],
                mask_extension: [0; 20],
                ring_cookie: 0,
                location: 0,
            },
            rule_count: 0,
        }
    }

    /// Brings a flow by a queue.
    fn insert(flow: &Flow, queue: u32, location: u32) -> Self {
        let mut message = Self::new(ETHTOOL_SRXCLSRLINS);
        let spec = &mut message.spec;
        let is_v4 = flow.local.is_ipv4();
        spec.flow_type = match (flow.protocol, is_v4) {
            (Protocol::Tcp, true) => TCP_V4_FLOW,
            (Protocol::Udp, true) => UDP_V4_FLOW,
            (Protocol::Tcp, false) => TCP_V6_FLOW,
            (Protocol::Udp, false) => UDP_V6_FLOW,
        };
        // Source and destination, then their ports, both as on the wire (`struct
        // ethtool_tcpip4_spec` and `_tcpip6_spec`).
        let len = if is_v4 { 4 } else { 16 };
        let mut put = |end: SocketAddr, place: usize| {
            let address = match end {
                SocketAddr::V4(end) => end.ip().octets().to_vec(),
                SocketAddr::V6(end) => end.ip().octets().to_vec(),
            };
            let port_at = 2 * len + 2 * place;
            if !end.ip().is_unspecified() {
                spec.fields[place * len..][..len].copy_from_slice(&address);
                spec.mask[place * len..][..len].fill(0xff);
            }
            spec.fields[port_at..][..2].copy_from_slice(&end.port().to_be_bytes());
            spec.mask[port_at..][..2].fill(0xff);
        };
        put(flow.local, 1);
        if let Some(peer) = flow.peer.filter(|peer| peer.is_ipv4() == is_v4) {
            put(peer, 0);
        }
        spec.ring_cookie = queue.into();
        spec.location = location;
        message
    }

    fn remove(location: u32) -> Self {
        let mut message = Self::new(ETHTOOL_SRXCLSRLDEL);
        message.spec.location = location;
        message
    }

    /// Asks for the rule at a place.
    fn read(location: u32) -> Self {
        let mut message = Self::new(ETHTOOL_GRXCLSRULE);
        message.spec.location = location;
        message
    }

    fn rule(&self) -> Rule {
        let spec = &self.spec;
        let (kind, queue) = (spec.flow_type.to_ne_bytes(), spec.ring_cookie.to_ne_bytes());
        let mut octets = kind
            .iter()
            .chain(&spec.fields)
            .chain(&spec.mask)
            .chain(&queue);
        std::array::from_fn(|_| octets.next().copied().unwrap_or(0))
    }
}

/// What asks a card: `ioctl(2)`, or a test.
trait Card {
    /// Sends a message, in which the answer is afterwards.
    fn ask(&self, message: &mut Rxnfc) -> io::Result<()>;

    /// The places that are taken, and how many there are.
    fn places(&self) -> io::Result<(Vec<u32>, u64)>;
}

/// An interface by its name, in the network namespace of the socket.
#[derive(Debug)]
struct Ioctl {
    socket: OwnDescriptor,
    interface: String,
}

impl Ioctl {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Card for Ioctl {
    fn ask(&self, message: &mut Rxnfc) -> io::Result<()> {
        // SAFETY: the commands of this file read and write this struct, and no place behind it.
        unsafe { ethtool::ask_through(self.fd(), &self.interface, message) }
    }

    fn places(&self) -> io::Result<(Vec<u32>, u64)> {
        let mut message = Box::new(RxnfcWithPlaces {
            head: Rxnfc::new(ETHTOOL_GRXCLSRLALL),
            places: [0; PLACES_MAX],
        });
        message.head.rule_count = PLACES_MAX as u32;
        // SAFETY: the command writes as many places behind the struct as `rule_count` says, which
        // are there.
        unsafe { ethtool::ask_through(self.fd(), &self.interface, &mut *message) }?;
        let count = (message.head.rule_count as usize).min(PLACES_MAX);
        Ok((message.places[..count].to_vec(), message.head.data))
    }
}

/// The rules of an interface that are ours.
#[derive(Debug)]
pub(crate) struct FlowRules {
    /// `None`: it takes none.
    card: Option<Ioctl>,
    rules: Rules,
}

impl FlowRules {
    /// Those of an interface that the calling thread sees by this name and index, of which it has
    /// several queues or rings, and which is this process's. What others left there when they were
    /// killed is taken away, if it is known from `directory`, where it is written down what this
    /// process makes.
    pub(crate) fn of(interface: &str, index: u32, directory: Option<&Path>) -> Self {
        let card = ethtool::socket().map(|socket| Ioctl {
            socket,
            interface: interface.to_owned(),
        });
        let rules = match (&card, directory) {
            (Some(card), Some(directory)) => Rules::known_in(directory, index, card),
            _ => Rules::default(),
        };
        Self { card, rules }
    }

    /// None ever.
    pub(crate) fn none() -> Self {
        Self {
            card: None,
            rules: Rules::default(),
        }
    }

    /// Brings a flow by a queue from here on.
    pub(crate) fn bring(&mut self, flow: &Flow, queue: u32) -> io::Result<()> {
        let Some(card) = &self.card else {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        };
        let brought = self.rules.bring(card, flow, queue);
        if brought.as_ref().is_err_and(is_for_good) {
            self.card = None;
        }
        brought
    }

    /// The flow comes by any queue from here on.
    pub(crate) fn remove(&mut self, flow: &Flow) {
        if let Some(card) = &self.card {
            self.rules.remove(card, flow);
        }
    }

    /// All flows do: nobody takes the rules away when the process has ended.
    pub(crate) fn remove_all(&mut self) {
        if let Some(card) = &self.card {
            self.rules.remove_all(card);
        }
    }
}

/// The card has no such rules, or the process may not make them.
fn is_for_good(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    matches!(errno, Some(libc::EOPNOTSUPP | libc::EPERM | libc::ENODEV))
}

/// Which flow has which rule.
#[derive(Debug, Default)]
struct Rules {
    /// The place of each, and the queue.
    places: HashMap<Flow, (u32, u32)>,
    /// Whether the driver finds places by itself, if it was asked.
    finds_places: Option<bool>,
    /// Where they are written down.
    ledger: Option<Ledger>,
}

impl Rules {
    fn known_in(directory: &Path, index: u32, card: &impl Card) -> Self {
        let mut rules = Self::default();
        let Ok(place) = Place::of(index) else {
            return rules;
        };
        // Most cards have none.
        if rules.asks_for_places(card).is_ok() {
            ledger::remove_leftovers(card, directory, &place);
            rules.ledger = Ledger::begin(directory, &place).ok();
        }
        rules
    }

    fn bring(&mut self, card: &impl Card, flow: &Flow, queue: u32) -> io::Result<()> {
        if self.places.get(flow).is_some_and(|known| known.1 == queue) {
            return Ok(());
        }
        // Some drivers refuse a second rule for the same packets.
        self.remove(card, flow);
        let place = self.free_place(card)?;
        let mut message = Rxnfc::insert(flow, queue, place);
        let rule = message.rule();
        card.ask(&mut message)?;
        let place = message.spec.location;
        if let Some(ledger) = &mut self.ledger {
            ledger.note(place, &rule);
        }
        self.places.insert(*flow, (place, queue));
        Ok(())
    }

    /// Whether the driver finds places by itself.
    fn asks_for_places(&mut self, card: &impl Card) -> io::Result<bool> {
        if let Some(finds) = self.finds_places {
            return Ok(finds);
        }
        let mut count = Rxnfc::new(ETHTOOL_GRXCLSRLCNT);
        card.ask(&mut count)?;
        Ok(*self
            .finds_places
            .insert(count.data & RX_CLS_LOC_SPECIAL != 0))
    }

    /// As ethtool(8) does it: the driver's choice, or the last that is free.
    fn free_place(&mut self, card: &impl Card) -> io::Result<u32> {
        if self.asks_for_places(card)? {
            return Ok(RX_CLS_LOC_ANY);
        }
        let (taken, count) = card.places()?;
        let places = (0..u32::try_from(count).unwrap_or(0)).rev();
        let mut free = places.filter(|place| !taken.contains(place));
        free.next()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSPC))
    }

    fn remove(&mut self, card: &impl Card, flow: &Flow) {
        if let Some((place, _)) = self.places.remove(flow) {
            if let Some(ledger) = &mut self.ledger {
                ledger.strike(place);
            }
            // One that stays does no harm: the kernel receives by that queue, too.
            let _ = card.ask(&mut Rxnfc::remove(place));
        }
    }

    fn remove_all(&mut self, card: &impl Card) {
        let flows: Vec<_> = self.places.keys().copied().collect();
        flows.iter().for_each(|flow| self.remove(card, flow));
        if let Some(ledger) = self.ledger.take() {
            ledger.end();
        }
    }
}

#[cfg(test)]
mod tests;
