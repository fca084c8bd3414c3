//! What a queue shows at its socket.

use std::sync::atomic::Ordering;

use crate::sockets::events;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::{SocketWatcher, Stack};

use super::queue::Room;

impl<S: Stack> SocketCore<S> {
    /// Whether the kernel is not to be asked whether sending is possible.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.kernel_socket.is_full.load(Ordering::Relaxed)
    }
}

impl<S: Stack> Room for SocketCore<S> {
    fn show_room(&self, has_room: bool) {
        self.kernel_socket
            .is_full
            .store(!has_room, Ordering::Relaxed);
        self.readiness
            .set_kernels(if has_room { events::OUT } else { 0 });
        for watcher in self.readiness.watchers() {
            watcher.room_changed();
        }
        self.readiness.sleepers.wake_all();
    }
}
