//! Ports that several processes have together: which of them takes a new connection, or a datagram,
//! and which has taken a connection.
//!
//! A connection's process is written by the program, at the SYN. That map forgets what was not used
//! for long, when others need the room: so who has a connection for a while has it among the
//! [flows](super::FlowMaps::add_flow_of), too.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::{
    FLOW_KEY_BYTES, FlowKey, FlowMaps, OWNER_SHIFT, PORT_OCTETS, V4Tables, V6_FLOW_KEY_BYTES,
    flow_key,
};
use crate::bpf::error::BpfError;
use crate::bpf::syscall::{Map, MapKind, Name};

/// Processes that an interface can have: their numbers are below.
pub(crate) const PROCESSES_MAX: u8 = 64;
/// Groups that an interface can have.
pub const GROUPS_MAX: u8 = 64;
/// The owner's octet of a port that has a group: the group's number above those of processes.
pub(in crate::bpf) const FIRST_GROUP: u8 = PROCESSES_MAX;
/// What a packet's hash can be.
const SLOTS: usize = 256;
/// Where a group's value says which processes are to keep the connections that they open: an octet
/// for each, behind the slots.
pub(in crate::bpf) const OPENERS: i16 = SLOTS as i16;
const GROUP_BYTES: usize = SLOTS + PROCESSES_MAX as usize;
/// In the slot of nobody: the packet is the kernel's.
pub const NOBODY: u8 = u8::MAX;
/// New connections that are known by the program alone.
const BIRTHS: u32 = 65_536;

/// Whose what is that reaches a port.
#[derive(Debug)]
pub(in crate::bpf) struct Owners {
    /// An octet for each port, in the place that it has among the wildcards.
    pub(super) ports: Map<4, PORT_OCTETS>,
    groups: Map<4, GROUP_BYTES>,
    births_v4: Map<FLOW_KEY_BYTES, 4>,
    births_v6: Map<V6_FLOW_KEY_BYTES, 4>,
}

/// Who takes what comes to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    slots: [u8; SLOTS],
    openers: [u8; PROCESSES_MAX as usize],
}

impl Shares {
    /// Each of these processes has about the same part. When one comes or goes the others keep most
    /// of theirs (rendezvous hashing).
    pub fn among(processes: impl Iterator<Item = u8> + Clone) -> Self {
        let mut openers = [0; PROCESSES_MAX as usize];
        for process in processes.clone() {
            if let Some(opener) = openers.get_mut(usize::from(process)) {
                *opener = 1;
            }
        }
        let slots = std::array::from_fn(|slot| {
            let weight = |process: &u8| {
                let mixed = (slot as u64) << 8 | u64::from(*process);
                let mixed = (mixed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed ^ mixed >> 29
            };
            processes.clone().max_by_key(weight).unwrap_or(NOBODY)
        });
        Self { slots, openers }
    }

    fn bytes(&self) -> [u8; GROUP_BYTES] {
        let mut bytes = [0; GROUP_BYTES];
        let (slots, openers) = bytes.split_at_mut(SLOTS);
        slots.copy_from_slice(&self.slots);
        openers.copy_from_slice(&self.openers);
        bytes
    }
}

impl Owners {
    pub(super) fn create() -> Result<Self, BpfError> {
        Ok(Self {
            ports: Map::create(
                MapKind::Array,
                OWNERS_NAME,
                2 * V4Tables::FIRST_OF_TCP,
                "create the XDP array of owners",
            )?,
            groups: Map::create(
                MapKind::Array,
                GROUPS_NAME,
                GROUPS_MAX.into(),
                "create the XDP array of groups",
            )?,
            births_v4: Map::create(MapKind::LruHash, BIRTHS_NAME, BIRTHS, BIRTHS_ATTEMPT)?,
            births_v6: Map::create(MapKind::LruHash, BIRTHS_NAME, BIRTHS, BIRTHS_ATTEMPT)?,
        })
    }

    pub(in crate::bpf) fn ports_fd(&self) -> BorrowedFd<'_> {
        self.ports.as_fd()
    }

    pub(in crate::bpf) fn groups_fd(&self) -> BorrowedFd<'_> {
        self.groups.as_fd()
    }

    pub(in crate::bpf) fn births_fd(&self, is_v6: bool) -> BorrowedFd<'_> {
        match is_v6 {
            true => self.births_v6.as_fd(),
            false => self.births_v4.as_fd(),
        }
    }
}

impl FlowMaps {
    /// A group has this port. Its [exemptions](Self::port_has_exemptions) must be looked for.
    pub fn set_group(&self, port: u16, protocol: u8, group: u8) -> Result<(), BpfError> {
        self.set_owner(port, protocol, FIRST_GROUP + group.min(GROUPS_MAX - 1))
    }

    /// Says who takes what comes to a group, below [`GROUPS_MAX`], that is of no flow.
    pub fn set_shares(&self, group: u8, shares: &Shares) -> Result<(), BpfError> {
        let Some(owners) = &self.owners else {
            return Ok(());
        };
        let key = u32::from(group).to_ne_bytes();
        owners
            .groups
            .update(&key, &shares.bytes())
            .map_err(|cause| BpfError::new("change the XDP array of groups", cause))
    }

    /// Which process got the connection that a peer has opened to a group's port, by the SYN alone.
    pub fn born_to(&self, local: SocketAddr, peer: SocketAddr, protocol: u8) -> Option<u8> {
        let owners = self.owners.as_ref()?;
        let value = match flow_key(local, peer, protocol) {
            FlowKey::V4(key) => owners.births_v4.lookup(&key),
            FlowKey::V6(key) => owners.births_v6.lookup(&key),
        };
        let value = u32::from_ne_bytes(value.ok()??);
        u8::try_from(value >> OWNER_SHIFT).ok()
    }

    /// Segments of a process's connections to a group's port are the kernel's from here on, except
    /// of those that have flows. Takes microseconds for each connection that any has.
    pub fn forget_births_of(&self, process: u8, port: u16, protocol: u8) {
        if let Some(owners) = &self.owners {
            forget(&owners.births_v4, process, port, (10, 12), protocol);
            forget(&owners.births_v6, process, port, (34, 36), protocol);
        }
    }

    /// Segments of that connection are the kernel's from here on, unless there is a flow for them.
    /// An error (`ENOENT`) if there is none.
    pub fn forget_birth(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        protocol: u8,
    ) -> Result<(), BpfError> {
        let Some(owners) = &self.owners else {
            return Ok(());
        };
        let forgotten = match flow_key(local, peer, protocol) {
            FlowKey::V4(key) => owners.births_v4.delete(&key),
            FlowKey::V6(key) => owners.births_v6.delete(&key),
        };
        forgotten.map_err(|cause| BpfError::new("remove a new connection from the XDP map", cause))
    }
}

/// Forgets those of a process in one map, in whose keys the local port and the protocol are at
/// these places.
fn forget<const KEY: usize>(
    births: &Map<KEY, 4>,
    process: u8,
    port: u16,
    (port_at, protocol_at): (usize, usize),
    protocol: u8,
) {
    let is_of = |key: &[u8; KEY]| {
        key[port_at..port_at + 2] == port.to_be_bytes() && key[protocol_at] == protocol
    };
    for key in births.keys(BIRTHS).iter().filter(|key| is_of(key)) {
        let value = births.lookup(key).ok().flatten().map(u32::from_ne_bytes);
        if value.is_some_and(|it| it >> OWNER_SHIFT == u32::from(process)) {
            // Another may have made room already.
            let _ = births.delete(key);
        }
    }
}

const BIRTHS_ATTEMPT: &str = "create the XDP map of new connections";
const OWNERS_NAME: Name = *b"vma_owners\0\0\0\0\0\0";
const GROUPS_NAME: Name = *b"vma_groups\0\0\0\0\0\0";
const BIRTHS_NAME: Name = *b"vma_births\0\0\0\0\0\0";

#[cfg(test)]
mod tests {
    use super::*;

    fn part(shares: &Shares, process: u8) -> usize {
        shares.slots.iter().filter(|it| **it == process).count()
    }

    #[test]
    fn processes_have_parts_and_the_others_keep_theirs() {
        let two = Shares::among([3, 60].into_iter());
        assert!((90..166).contains(&part(&two, 3)), "{}", part(&two, 3));
        assert_eq!(part(&two, 3) + part(&two, 60), SLOTS);
        let three = Shares::among([3, 7, 60].into_iter());
        let moved = |(before, after): (&u8, &u8)| before != after && *after != 7;
        assert!(!two.slots.iter().zip(&three.slots).any(moved));
        assert!((50..120).contains(&part(&three, 7)), "{}", part(&three, 7));
        let none = Shares::among(std::iter::empty());
        assert_eq!(part(&none, NOBODY), SLOTS);
        assert_eq!(none.openers, [0; PROCESSES_MAX as usize]);
    }
}
