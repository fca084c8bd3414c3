//! A socket in shared memory, and who listens there: asking the process for it that has it past the
//! kernel.

use std::ops::Deref;
use std::time::Duration;

use crate::sockets::shared::socket::SharedSocket;

use crate::sockets::shared::wake_channel::WakeChannel;

/// How long whoever is about to use a socket waits for the one that has adopted it. One that is
/// stopped makes it wait this long, once a socket.
const PATIENCE_NSEC: u64 = 100_000_000;
/// How often it wakes that one meanwhile, and looks whether that one still lives.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A place in shared memory, with the channel by which those that have it wake each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    socket: &'static SharedSocket,
    channel: Option<&'static WakeChannel>,
}

impl Deref for Shared {
    type Target = SharedSocket;

    fn deref(&self) -> &SharedSocket {
        self.socket
    }
}

impl Shared {
    pub(crate) fn new(
        socket: &'static SharedSocket,
        channel: Option<&'static WakeChannel>,
    ) -> Self {
        Self { socket, channel }
    }

    /// In memory that descendants share, the first word alone.
    pub(crate) fn socket(self) -> &'static SharedSocket {
        self.socket
    }

    /// By which others call whoever adopts the socket. `None`: nobody can.
    pub(crate) fn channel(self) -> Option<&'static WakeChannel> {
        self.channel
    }

    /// The calling process is about to use the socket for more than sending. If another one has its
    /// packets past the kernel, this returns when the kernel has them: from here on nobody else
    /// adopts it. Waits 100 ms at most.
    pub(crate) fn claim_from_adopter(self, generation: u32) {
        self.mark_taken_by_several(generation);
        if self.adopter().is_some() {
            self.wait_for_kernel();
        }
    }

    #[cold]
    fn wait_for_kernel(self) {
        let deadline = sys::now_nsec() + PATIENCE_NSEC;
        while let Some(process) = self.adopter() {
            if process == sys::process_id().cast_unsigned() {
                return;
            }
            let is_called = self.channel.is_some_and(WakeChannel::wake);
            // When it has ended, the kernel has its flows.
            let is_running =
                !SharedSocket::is_process(process) || sys::is_running(process.cast_signed());
            if !is_called || !is_running || sys::now_nsec() >= deadline {
                // Nobody waits for it again.
                self.end_adoption(process);
                return;
            }
            self.wait_for_adopter(process, LOOK_INTERVAL);
        }
    }
}
