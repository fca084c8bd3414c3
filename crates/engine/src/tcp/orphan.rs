//! A connection that the program has closed, and that goes on: what was written is sent, and the
//! peer has its part to end. A descriptor of the library's keeps the kernel's socket meanwhile, and
//! with it the addresses. Most are over soon. What takes longer becomes the kernel's, which needs
//! no descriptor for that: the number is the program's again, and the kernel bounds how many there
//! are (`net.ipv4.tcp_max_orphans`) and how long they wait (`net.ipv4.tcp_fin_timeout`).

use std::os::fd::{AsRawFd, RawFd};

use ::tcp::Instant;

use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::clock::now;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

impl<S: Stack> Stream<S> {
    /// The kernel's socket, if nobody but the library has it.
    pub(super) fn kernels_fd(&self) -> Option<RawFd> {
        let copy = self.orphan.as_ref()?.copy.as_ref()?;
        Some(copy.as_raw_fd())
    }

    /// Whether nobody has had it for so long that it is to be the kernel's.
    pub(super) fn is_long_abandoned(&self, now: Instant) -> bool {
        let orphan = self.orphan.as_ref().filter(|_| !self.is_over());
        orphan.is_some_and(|orphan| orphan.leaves_at <= now)
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// The connection that nobody has becomes the kernel's. What is over is forgotten. Returns
    /// whether the object is nobody's any more; `false`: no such connection is here. Under the
    /// control lock.
    pub(crate) fn leave_as_orphan(&'static self, host: &Host<S>) -> bool {
        let now = now();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return false;
        };
        if stream.orphan.is_none() {
            return false;
        }
        let is_over = stream.is_over();
        let waits = stream.owes_time_wait() && stream.may_wait_in_kernel(self.globals, now);
        drop(role);
        if waits {
            self.leave_time_wait(host);
        } else if !is_over {
            log::debug!("a connection that was closed goes on in the kernel");
            self.hand_over_stream(host);
            self.drop_flows();
            self.hand_over_rest(host);
        }
        self.let_go_of_end();
        true
    }
}
