//! The streams that the program has closed, and whose connections go on.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ptr;

use dev_core::Backend;

use crate::engine::kinds::{AnySocket, Object};
use crate::sockets::stack::Described;
use crate::tcp;

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
    pub(super) fn add(
        &mut self,
        socket: &tcp::TcpSocket<AnySocket<B>>,
        object: &'static Object<B>,
    ) {
        self.came += 1;
        let (key, number) = (ptr::from_ref(socket).addr(), self.came);
        self.objects.insert(key, Orphan { number, object });
        self.order.push_back((key, number));
        if self.order.len() > 2 * self.objects.len() + LEFT_IN_ORDER {
            let objects = &self.objects;
            self.order.retain(|entry| is_here(objects, *entry));
        }
    }

    pub(super) fn remove(
        &mut self,
        socket: &tcp::TcpSocket<AnySocket<B>>,
    ) -> Option<&'static Object<B>> {
        let removed = self.objects.remove(&ptr::from_ref(socket).addr());
        removed.map(|orphan| orphan.object)
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = AnySocket<B>> + '_ {
        let orphans = self.objects.values();
        orphans.filter_map(|orphan| orphan.object.socket())
    }

    /// Takes the oldest out of the order, if there are more than `most`.
    pub(super) fn next_beyond(&mut self, most: usize) -> Option<&'static Object<B>> {
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
