//! The sockets of an epoll set, found by what the program, the kernel and the sockets themselves
//! know of them. No look-up and no change takes longer the more there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use libc::c_int;
use links::interface::Interface;
use links::interface::ring_set::RingSet;
use rustc_hash::FxHashMap;

use crate::mux::MuxStack;
use crate::mux::registration::Registration;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

/// A socket, by its address, and the descriptor with which it was registered, as the kernel has
/// them: a number that was closed while its socket lives on through a copy may come into the set
/// again with another socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    socket: usize,
    fd: c_int,
}

impl Key {
    pub(super) fn of<S: Stack>(socket: &SocketCore<S>, fd: c_int) -> Self {
        Self {
            socket: std::ptr::from_ref(socket).addr(),
            fd,
        }
    }
}

/// The registrations of a set.
#[derive(Debug)]
pub(crate) struct Members<S: Stack> {
    by_key: FxHashMap<Key, Member<S>>,
    /// What the kernel says of a registration is its data.
    by_data: BTreeSet<(u64, Key)>,
    /// Where the sockets receive from, with how many of them.
    interfaces: Vec<(Place<S>, usize)>,
}

#[derive(Debug)]
struct Member<S: Stack> {
    registration: Arc<Registration<S>>,
    data: u64,
    /// Those that are counted for it.
    interfaces: Vec<Place<S>>,
}

/// An interface, and the rings by which a socket receives from it.
type Place<S> = (&'static Interface<S>, RingSet);

/// Whether the sockets receive from other interfaces than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "threads that wait for the set have to look again"]
pub(crate) struct InterfacesChanged(pub(crate) bool);

impl<S: MuxStack> Members<S> {
    pub(super) fn new() -> Self {
        Self {
            by_key: FxHashMap::default(),
            by_data: BTreeSet::new(),
            interfaces: Vec::new(),
        }
    }

    /// All of them.
    pub(crate) fn registrations(&self) -> impl Iterator<Item = &Arc<Registration<S>>> {
        self.by_key.values().map(|member| &member.registration)
    }

    pub(super) fn get(&self, key: Key) -> Option<&Arc<Registration<S>>> {
        self.by_key.get(&key).map(|member| &member.registration)
    }

    /// Those with this data, which the program chooses: usually one.
    pub(super) fn with_data(&self, data: u64) -> impl Iterator<Item = &Arc<Registration<S>>> {
        self.by_data
            .range((data, FIRST_KEY)..=(data, LAST_KEY))
            .filter_map(|(_, key)| self.get(*key))
    }

    /// The interfaces of all sockets.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = Place<S>> + '_ {
        self.interfaces.iter().map(|(place, _)| *place)
    }

    /// Adds a registration that is not there. Where its socket receives from is counted with
    /// [`follow_interfaces`](Self::follow_interfaces).
    pub(super) fn insert(&mut self, key: Key, registration: Arc<Registration<S>>, data: u64) {
        self.by_data.insert((data, key));
        let member = Member {
            registration,
            data,
            interfaces: Vec::new(),
        };
        self.by_key.insert(key, member);
    }

    /// What the kernel reports with the registration's data is not meant for it, until its data
    /// change.
    pub(super) fn forget_data(&mut self, key: Key) {
        if let Some(member) = self.by_key.get(&key) {
            self.by_data.remove(&(member.data, key));
        }
    }

    /// `EPOLL_CTL_MOD`
    pub(super) fn change_data(&mut self, key: Key, data: u64) {
        if let Some(member) = self.by_key.get_mut(&key) {
            self.by_data.remove(&(member.data, key));
            self.by_data.insert((data, key));
            member.data = data;
        }
    }

    /// Removes a registration, if it is the one that is meant.
    pub(super) fn remove_if(
        &mut self,
        key: Key,
        is_meant: impl FnOnce(&Registration<S>) -> bool,
    ) -> Option<(Arc<Registration<S>>, InterfacesChanged)> {
        if !is_meant(self.get(key)?) {
            return None;
        }
        let member = self.by_key.remove(&key)?;
        self.by_data.remove(&(member.data, key));
        let mut changed = false;
        for interface in member.interfaces {
            changed |= self.count_out(interface);
        }
        Some((member.registration, InterfacesChanged(changed)))
    }

    /// The socket of a registration receives from other interfaces, perhaps.
    pub(super) fn follow_interfaces(&mut self, key: Key) -> InterfacesChanged {
        let Some(member) = self.by_key.get_mut(&key) else {
            return InterfacesChanged(false);
        };
        let present: Vec<_> = member
            .registration
            .socket()
            .core()
            .interfaces
            .iter_rings()
            .collect();
        let before = std::mem::replace(&mut member.interfaces, present.clone());
        let mut changed = false;
        // The new ones first: what stays never seems to be gone.
        for interface in present {
            changed |= self.count_in(interface);
        }
        for interface in before {
            changed |= self.count_out(interface);
        }
        InterfacesChanged(changed)
    }

    /// Returns whether it is the first.
    fn count_in(&mut self, interface: Place<S>) -> bool {
        match self.place_of(interface) {
            Some(place) => {
                self.interfaces[place].1 += 1;
                false
            }
            None => {
                self.interfaces.push((interface, 1));
                true
            }
        }
    }

    /// Returns whether it was the last.
    fn count_out(&mut self, interface: Place<S>) -> bool {
        let Some(place) = self.place_of(interface) else {
            return false;
        };
        let sockets = &mut self.interfaces[place].1;
        *sockets -= 1;
        let is_last = *sockets == 0;
        if is_last {
            self.interfaces.swap_remove(place);
        }
        is_last
    }

    fn place_of(&self, interface: Place<S>) -> Option<usize> {
        self.interfaces
            .iter()
            .position(|(other, _)| std::ptr::eq(other.0, interface.0) && other.1 == interface.1)
    }
}

const FIRST_KEY: Key = Key {
    socket: usize::MIN,
    fd: c_int::MIN,
};
const LAST_KEY: Key = Key {
    socket: usize::MAX,
    fd: c_int::MAX,
};
