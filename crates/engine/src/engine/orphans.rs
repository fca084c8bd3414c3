//! Streams that the program has closed, and whose connections go on.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ptr;
use std::sync::{MutexGuard, PoisonError};

use dev_core::Backend;

use crate::engine::{AnySocket, Engine, Object, TcpSocket};
use crate::sockets::stack::Described;

/// By the addresses of their sockets.
pub(super) struct Orphans<B: Backend> {
    objects: HashMap<usize, Orphan<B>>,
    /// Those that have come, the oldest first, also such as are gone.
    order: VecDeque<(usize, u64)>,
    came: u64,
}

struct Orphan<B: Backend> {
    /// The how many-th.
    number: u64,
    object: &'static Object<B>,
}

impl<B: Backend> Default for Orphans<B> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            order: VecDeque::new(),
            came: 0,
        }
    }
}

impl<B: Backend> Orphans<B> {
    fn add(&mut self, socket: &TcpSocket<B>, object: &'static Object<B>) {
        self.came += 1;
        let (key, number) = (ptr::from_ref(socket).addr(), self.came);
        self.objects.insert(key, Orphan { number, object });
        self.order.push_back((key, number));
        if self.order.len() > 2 * self.objects.len() + LEFT_IN_ORDER {
            let objects = &self.objects;
            self.order.retain(|entry| is_here(objects, *entry));
        }
    }

    pub(super) fn remove(&mut self, socket: &TcpSocket<B>) -> Option<&'static Object<B>> {
        let removed = self.objects.remove(&ptr::from_ref(socket).addr());
        removed.map(|orphan| orphan.object)
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = AnySocket<B>> + '_ {
        let orphans = self.objects.values();
        orphans.filter_map(|orphan| orphan.object.socket())
    }

    /// Takes the oldest out of the order, if there are more than `most`.
    fn next_beyond(&mut self, most: usize) -> Option<&'static Object<B>> {
        while self.objects.len() > most {
            let entry = self.order.pop_front()?;
            if is_here(&self.objects, entry) {
                return self.objects.get(&entry.0).map(|orphan| orphan.object);
            }
        }
        None
    }
}

/// So many entries of those that are gone are no trouble.
const LEFT_IN_ORDER: usize = 64;

fn is_here<B: Backend>(objects: &HashMap<usize, Orphan<B>>, (key, number): (usize, u64)) -> bool {
    objects
        .get(&key)
        .is_some_and(|orphan| orphan.number == number)
}

impl<B: Backend> fmt::Debug for Orphans<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orphans").finish_non_exhaustive()
    }
}

impl<B: Backend> Engine<B> {
    /// The program has let go of a socket whose connection goes on.
    pub(super) fn keep_orphan(&self, socket: &TcpSocket<B>, object: &'static Object<B>) {
        self.orphans().add(socket, object);
    }

    /// Each of them has a descriptor, perhaps: of more than a few the oldest become the kernel's. Under the control lock.
    pub(super) fn bound_orphans(&self) {
        let most = descriptors::room_for_closed();
        loop {
            let beyond = self.orphans().next_beyond(most);
            let Some(Object::Tcp(socket)) = beyond else {
                return;
            };
            if socket.leave_as_orphan(self) {
                self.give_stream_back(socket);
            }
        }
    }

    pub(super) fn orphans(&self) -> MutexGuard<'_, Orphans<B>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
