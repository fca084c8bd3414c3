//! `VMA_EXCEPTION_HANDLING`: what happens when a program asks an accelerated socket for something
//! that only the kernel does.
//!
//! Usually the kernel does it and has the socket back, which is never wrong. Whoever wants to find
//! such requests can have them logged as errors, refused, or end the program.

use std::fmt;

use libc::c_int;
use links::reason::Reason;
use vma_config::ExceptionHandling;

use crate::sockets::host::Host;
use crate::sockets::option_names::OptionName;
use crate::sockets::options;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

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
    /// The time of the datagram that was read last: `SIOCGSTAMP` by `ioctl(2)`.
    LastStamp,
    /// `MSG_MORE`: parts of a datagram in several calls.
    MoreToCome,
}

impl Request {
    fn needs_kernel(self) -> bool {
        match self {
            Self::Option { level, name } => options::needs_kernel(level, name),
            Self::SignalDriven | Self::LastStamp | Self::MoreToCome => true,
        }
    }

    /// What the reason is about.
    fn detail(self) -> String {
        match self {
            Self::Option { level, name } => OptionName { level, name }.to_string(),
            Self::SignalDriven => "O_ASYNC".to_owned(),
            Self::LastStamp => "SIOCGSTAMP".to_owned(),
            Self::MoreToCome => "MSG_MORE".to_owned(),
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Option { .. } | Self::SignalDriven | Self::LastStamp => Reason::Option,
            Self::MoreToCome => Reason::Message,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { level, name } => {
                let (level, name) = (*level, *name);
                let text = OptionName { level, name };
                write!(
                    f,
                    "unimplemented setsockopt level={level:#x}, optname={name:#x} ({text})"
                )
            }
            Self::SignalDriven => f.write_str("unimplemented fcntl or ioctl for O_ASYNC"),
            Self::LastStamp => f.write_str("unimplemented ioctl SIOCGSTAMP"),
            Self::MoreToCome => f.write_str("unimplemented flag MSG_MORE"),
        }
    }
}

/// What to do instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptionAction {
    /// Fail the call with `EINVAL`.
    Fail,
    /// Call `abort(3)`.
    Abort,
}

impl<S: Stack> Host<S> {
    /// Asked before the kernel is: whether the request is not even to be tried.
    pub fn exception_action(
        &self,
        socket: &SocketCore<S>,
        request: Request,
    ) -> Option<ExceptionAction> {
        let action = match self.settings().exceptions {
            ExceptionHandling::ExitOnFailedStart
            | ExceptionHandling::LogDebug
            | ExceptionHandling::LogDebugAndUnoffload
            | ExceptionHandling::LogErrorAndUnoffload => {
                return None;
            }
            ExceptionHandling::ReturnError => ExceptionAction::Fail,
            ExceptionHandling::Abort => ExceptionAction::Abort,
        };
        if !request.needs_kernel() || !self.may_be_accelerated(socket) {
            return None;
        }
        let fd = socket.fd();
        match action {
            ExceptionAction::Fail => log::error!("fd {fd}: {request}: refused"),
            ExceptionAction::Abort => log::error!("fd {fd}: {request}: the program ends"),
        }
        Some(action)
    }

    /// The kernel has fulfilled, or is to fulfil, a request that only it can: it has the socket
    /// back.
    pub(crate) fn leave_to_kernel_for(&self, socket: S, request: Request) {
        let core = socket.core();
        if self.may_be_accelerated(core) {
            let fd = core.fd();
            if self.settings().exceptions == ExceptionHandling::LogErrorAndUnoffload {
                log::error!("fd {fd}: {request}: back to the kernel");
            } else {
                log::debug!("fd {fd}: {request}");
            }
        }
        self.leave_to_kernel_about(socket, request.reason(), &request.detail());
    }

    fn may_be_accelerated(&self, socket: &SocketCore<S>) -> bool {
        self.offloads_any()
            && (matches!(socket.reason(), Reason::Offloaded | Reason::NotBound)
                || socket.reason().passes())
    }
}
