//! Neighbours: which hardware address an IP address has on a link.

use std::net::IpAddr;

use netlink_packet_route::neighbour::NeighbourState as WireState;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};

/// An entry of the kernel's neighbour table (ARP or IPv6 neighbour discovery).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbour {
    /// The interface it is reached by.
    pub link_index: u32,
    /// The neighbour's IP address.
    pub address: IpAddr,
    /// Its hardware address, if it is known and has six bytes.
    pub mac: Option<[u8; 6]>,
    /// What the kernel knows of its reachability.
    pub state: NeighbourState,
}

/// What the kernel knows of a neighbour's reachability (NUD_* in linux/neighbour.h, RFC 4861 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeighbourState {
    /// The address is being resolved.
    Incomplete,
    /// Confirmed a short time ago.
    Reachable,
    /// Not confirmed for a while; good for sending, which starts the confirmation.
    Stale,
    /// Sent to while stale; the kernel waits for a confirmation by upper layers.
    Delay,
    /// The kernel asks the neighbour itself.
    Probe,
    /// There was no answer.
    Failed,
    /// The link needs no resolution.
    Noarp,
    /// Configured by the administrator.
    Permanent,
    /// No state yet, or a combination of states that the kernel does not use.
    None,
}

impl Neighbour {
    /// Whether frames can be sent to [`Neighbour::mac`].
    pub fn usable(&self) -> bool {
        self.usable_mac().is_some()
    }

    /// The hardware address if frames can be sent to it: all that matters for forwarding.
    pub(crate) fn usable_mac(&self) -> Option<[u8; 6]> {
        match self.state {
            NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Noarp
            | NeighbourState::Permanent => self.mac,
            NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::None => None,
        }
    }

    /// `None` if the message is not about an IP neighbour: proxy entries answer for others.
    pub(crate) fn from_message(message: &NeighbourMessage) -> Option<Self> {
        let header = &message.header;
        if header.flags.contains(NeighbourFlags::Proxy) {
            return None;
        }
        let mut address = None;
        let mut mac = None;
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(value)) => {
                    address = Some(IpAddr::V4(*value));
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(value)) => {
                    address = Some(IpAddr::V6(*value));
                }
                NeighbourAttribute::LinkLayerAddress(value) => {
                    mac = value.as_slice().try_into().ok()
                }
                _ => {}
            }
        }
        let state = NeighbourState::from_wire(header.state);
        Some(Self {
            link_index: header.ifindex,
            address: address?,
            mac,
            state,
        })
    }
}

impl NeighbourState {
    fn from_wire(state: WireState) -> Self {
        match state {
            WireState::Incomplete => Self::Incomplete,
            WireState::Reachable => Self::Reachable,
            WireState::Stale => Self::Stale,
            WireState::Delay => Self::Delay,
            WireState::Probe => Self::Probe,
            WireState::Failed => Self::Failed,
            WireState::Noarp => Self::Noarp,
            WireState::Permanent => Self::Permanent,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_usable_with_a_mac_in_a_valid_state() {
        let in_state = |state, mac| {
            let address = IpAddr::from([192, 0, 2, 1]);
            Neighbour {
                link_index: 1,
                address,
                mac,
                state,
            }
            .usable()
        };
        let valid = [
            NeighbourState::Reachable,
            NeighbourState::Stale,
            NeighbourState::Delay,
            NeighbourState::Probe,
            NeighbourState::Noarp,
            NeighbourState::Permanent,
        ];
        for state in valid {
            assert!(in_state(state, Some([2; 6])), "{state:?}");
            assert!(!in_state(state, None), "{state:?}");
        }
        for state in [
            NeighbourState::Incomplete,
            NeighbourState::Failed,
            NeighbourState::None,
        ] {
            assert!(!in_state(state, Some([2; 6])), "{state:?}");
        }
    }
}
