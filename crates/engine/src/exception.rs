//! `VMA_EXCEPTION_HANDLING`: what happens when a program asks an accelerated socket for something that only the kernel does.
//!
//! Usually the kernel does it and has the socket back, which is never wrong. Whoever wants to find such requests can have them
//! logged as errors, refused, or end the program.

use std::fmt;

use libc::c_int;
use ring::Backend;

use crate::engine::Engine;
use crate::options;
use crate::reason::Reason;
use crate::udp::UdpSocket;

/// How a request that only the kernel can fulfil is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptionHandling {
    /// The kernel has the socket back; said at level DEBUG.
    LeaveToKernel,
    /// The kernel has the socket back; said at level ERROR.
    LeaveToKernelWithError,
    /// The call fails with `EINVAL`; said at level ERROR.
    Refuse,
    /// The program ends; said at level ERROR.
    Abort,
}

/// What a program asks a socket for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `setsockopt(2)`
    Option {
        /// `SOL_SOCKET` and so on.
        level: c_int,
        /// `SO_TIMESTAMP` and so on.
        name: c_int,
    },
    /// Signals when something comes: `O_ASYNC` by `fcntl(2)`, `FIOASYNC` by `ioctl(2)`.
    SignalDriven,
    /// `MSG_MORE`: parts of a datagram in several calls.
    MoreToCome,
}

impl Request {
    fn needs_kernel(self) -> bool {
        match self {
            Self::Option { level, name } => options::needs_kernel(level, name),
            Self::SignalDriven | Self::MoreToCome => true,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Option { .. } | Self::SignalDriven => Reason::Option,
            Self::MoreToCome => Reason::Message,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { level, name } => {
                write!(
                    f,
                    "unimplemented setsockopt level={level:#x}, optname={name:#x}"
                )
            }
            Self::SignalDriven => f.write_str("unimplemented fcntl or ioctl for O_ASYNC"),
            Self::MoreToCome => f.write_str("unimplemented flag MSG_MORE"),
        }
    }
}

/// What to do instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fail the call with `EINVAL`.
    Fail,
    /// Call `abort(3)`.
    Abort,
}

impl<B: Backend> Engine<B> {
    /// Asked before the kernel is: whether the request is not even to be tried.
    pub fn refusal(&self, socket: &UdpSocket<B>, request: Request) -> Option<Refusal> {
        let refusal = match self.settings().exceptions {
            ExceptionHandling::LeaveToKernel | ExceptionHandling::LeaveToKernelWithError => {
                return None;
            }
            ExceptionHandling::Refuse => Refusal::Fail,
            ExceptionHandling::Abort => Refusal::Abort,
        };
        if !request.needs_kernel() || !self.may_be_accelerated(socket) {
            return None;
        }
        let fd = socket.fd();
        match refusal {
            Refusal::Fail => log::error!("fd {fd}: {request}: refused"),
            Refusal::Abort => log::error!("fd {fd}: {request}: the program ends"),
        }
        Some(refusal)
    }

    /// The kernel has fulfilled, or is to fulfil, a request that only it can: it has the socket back.
    pub(crate) fn leave_to_kernel_for(&self, socket: &UdpSocket<B>, request: Request) {
        if self.may_be_accelerated(socket) {
            let fd = socket.fd();
            if self.settings().exceptions == ExceptionHandling::LeaveToKernelWithError {
                log::error!("fd {fd}: {request}: back to the kernel");
            } else {
                log::debug!("fd {fd}: {request}");
            }
        }
        self.leave_to_kernel(socket, request.reason());
    }

    fn may_be_accelerated(&self, socket: &UdpSocket<B>) -> bool {
        self.settings().offloaded_sockets
            && matches!(socket.reason(), Reason::Offloaded | Reason::NotBound)
    }
}
