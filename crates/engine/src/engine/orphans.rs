//! Streams that the program has closed, and whose connections go on.

use std::sync::{MutexGuard, PoisonError};

use dev_core::Backend;

use crate::engine::kinds::Object;

use crate::engine::orphan_table::Orphans;
use crate::engine::{Engine, TcpSocket};

impl<B: Backend> Engine<B> {
    /// The program has let go of a socket whose connection goes on.
    pub(super) fn keep_orphan(&self, socket: &TcpSocket<B>, object: &'static Object<B>) {
        self.orphans().add(socket, object);
    }

    /// Each of them has a descriptor, perhaps: of more than a few the oldest become the kernel's.
    /// Under the control lock.
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
