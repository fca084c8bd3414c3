//! What every call on one socket has that may wait: whose it is, for how long, and how it polls
//! before it sleeps.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;

use crate::cpu_sharing::Spin;
use crate::sockets::host::Host;
use crate::sockets::interrupt::Mark;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

/// The generation of a socket that is not open; each that is has an odd one.
const CLOSED: u32 = 0;

/// A call from its beginning to its end, over any number of attempts.
#[derive(Debug)]
pub struct BlockingCall {
    pub(crate) generation: u32,
    mark: Mark,
    pub(crate) blocking: bool,
    pub(crate) deadline_nsec: Option<u64>,
    /// Polls before sleeping; `None` without end.
    pub(crate) polls_left: Option<u32>,
    pub(crate) spin: Spin,
    pub(crate) slept: bool,
    /// It has had packets shown to a function of the program's.
    pub(crate) has_shown: bool,
}

impl BlockingCall {
    /// Begins a call on the socket that was found behind a descriptor. `flags` are the
    /// application's, `timeout` is that of its direction (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
    #[inline]
    pub(crate) fn begin<S: Stack>(
        host: &Host<S>,
        fd: c_int,
        socket: &SocketCore<S>,
        timeout_nsec: &AtomicU64,
        flags: c_int,
    ) -> Self {
        // In this order: an object that is behind the descriptor afterwards has this number, or an
        // earlier one.
        let generation = socket.generation();
        let is_open = host.is_behind(fd, socket);
        let settings = host.settings();
        let blocking = flags & libc::MSG_DONTWAIT == 0
            && !socket.kernel_socket.nonblocking.load(Ordering::Relaxed);
        let timeout = timeout_nsec.load(Ordering::Relaxed);
        Self {
            generation: if is_open { generation } else { CLOSED },
            mark: Mark::now(),
            blocking,
            deadline_nsec: (blocking && timeout > 0)
                .then(|| sys::now_nsec().saturating_add(timeout)),
            polls_left: u32::try_from(settings.rx_poll).ok(),
            spin: Spin::new(settings.poll_shared_cpu, settings.rx_poll >= 0),
            slept: false,
            has_shown: false,
        }
    }

    /// Whether a signal handler has run that ends the call with `EINTR` (signal(7)).
    pub fn interrupted(&self) -> bool {
        if self.deadline_nsec.is_some() {
            self.mark.any_handler()
        } else {
            self.mark.interrupted()
        }
    }

    /// Whether the library has seen any handler run since the call began.
    pub fn any_handler(&self) -> bool {
        self.mark.any_handler()
    }

    /// Counts a poll in vain; says whether the call is to sleep now.
    #[inline]
    pub(crate) fn stops_polling(&mut self) -> bool {
        let is_over = self.polls_left.as_mut().map(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        });
        self.spin.stops(is_over)
    }
}
