//! What `fcntl(2)` and `ioctl(2)` have to do with sockets of ours.

use libc::{c_int, c_ulong};

use crate::tcp::Amount;

/// A command of `fcntl(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fcntl {
    /// `F_DUPFD`, `F_DUPFD_CLOEXEC`: a copy with these flags.
    Duplicate { flags: c_int },
    /// `F_SETFL`, and whether it asks for signals (`O_ASYNC`).
    StatusFlags { is_signal_driven: bool },
    /// `F_SETOWN`, `F_SETOWN_EX`
    Owner,
    /// `F_SETFD`: a program that is executed is to have the descriptor.
    HandedDown,
    /// None of these.
    Other,
}

// include/uapi/asm-generic/fcntl.h
const F_SETOWN_EX: c_int = 15;

impl Fcntl {
    /// Passed as a pointer or not, the argument is an int.
    #[inline]
    pub fn of(command: c_int, argument: usize) -> Self {
        let argument = argument as c_int;
        match command {
            libc::F_DUPFD => Self::Duplicate { flags: 0 },
            libc::F_DUPFD_CLOEXEC => Self::Duplicate {
                flags: libc::O_CLOEXEC,
            },
            libc::F_SETFL => Self::StatusFlags {
                is_signal_driven: argument & libc::O_ASYNC != 0,
            },
            libc::F_SETOWN | F_SETOWN_EX => Self::Owner,
            libc::F_SETFD if argument & libc::FD_CLOEXEC == 0 => Self::HandedDown,
            _ => Self::Other,
        }
    }

    /// Whether the process that has the socket in user space would not learn of it.
    #[inline]
    pub fn recalls(self) -> bool {
        !matches!(self, Self::Other)
    }
}

/// A request of `ioctl(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ioctl {
    /// `FIONBIO`
    Nonblocking,
    /// `FIOASYNC`
    SignalDriven,
    /// `FIOSETOWN`, `SIOCSPGRP`
    Owner,
    /// `FIONCLEX`: a program that is executed is to have the descriptor.
    HandedDown,
    /// `SIOCGSTAMP`, `SIOCGSTAMPNS`: the time of the last datagram. The second word of the answer
    /// counts so many nanoseconds each.
    LastStamp { unit_nsec: u64 },
    /// `FIONREAD`: what the next datagram has, or a stream.
    Readable,
    /// What only streams are asked for.
    OfStream(Amount),
    /// None of these.
    Other,
}

// include/uapi/asm-generic/sockios.h and linux/sockios.h; of the stamps the old forms, and those
// with 64 bits.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
const SIOCATMARK: c_ulong = 0x8905;
const SIOCGSTAMP: c_ulong = 0x8906;
const SIOCGSTAMPNS: c_ulong = 0x8907;
const SIOCGSTAMP_NEW: c_ulong = 0x8010_8906;
const SIOCGSTAMPNS_NEW: c_ulong = 0x8010_8907;
const SIOCOUTQNSD: c_ulong = 0x894b;

impl Ioctl {
    #[inline]
    pub fn of(request: c_ulong) -> Self {
        match request {
            libc::FIONBIO => Self::Nonblocking,
            libc::FIOASYNC => Self::SignalDriven,
            FIOSETOWN | SIOCSPGRP => Self::Owner,
            libc::FIONCLEX => Self::HandedDown,
            SIOCGSTAMP | SIOCGSTAMP_NEW => Self::LastStamp { unit_nsec: 1000 },
            SIOCGSTAMPNS | SIOCGSTAMPNS_NEW => Self::LastStamp { unit_nsec: 1 },
            libc::FIONREAD => Self::Readable,
            libc::TIOCOUTQ => Self::OfStream(Amount::Unacknowledged),
            SIOCOUTQNSD => Self::OfStream(Amount::Unsent),
            SIOCATMARK => Self::OfStream(Amount::AtMark),
            _ => Self::Other,
        }
    }

    /// Whether the process that has the socket in user space would not learn of it, or knows what
    /// is asked for.
    #[inline]
    pub fn recalls(self) -> bool {
        match self {
            Self::Nonblocking | Self::SignalDriven | Self::Owner => true,
            Self::HandedDown | Self::Readable => true,
            Self::LastStamp { .. } | Self::OfStream(_) | Self::Other => false,
        }
    }

    /// What a stream answers itself.
    #[inline]
    pub fn amount(self) -> Option<Amount> {
        match self {
            Self::Readable => Some(Amount::Readable),
            Self::OfStream(amount) => Some(amount),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_a_meaning() {
        let async_flag = libc::O_ASYNC as usize;
        let flags = |is_signal_driven| Fcntl::StatusFlags { is_signal_driven };
        for (command, argument, expected, recalls) in [
            (libc::F_DUPFD, 7, Fcntl::Duplicate { flags: 0 }, true),
            (
                libc::F_DUPFD_CLOEXEC,
                7,
                Fcntl::Duplicate {
                    flags: libc::O_CLOEXEC,
                },
                true,
            ),
            (libc::F_SETFL, async_flag, flags(true), true),
            (libc::F_SETFL, libc::O_NONBLOCK as usize, flags(false), true),
            (libc::F_SETOWN, 1, Fcntl::Owner, true),
            (15, 0, Fcntl::Owner, true),
            (libc::F_SETFD, 0, Fcntl::HandedDown, true),
            (
                libc::F_SETFD,
                libc::FD_CLOEXEC as usize,
                Fcntl::Other,
                false,
            ),
            (libc::F_GETFL, 0, Fcntl::Other, false),
            (libc::F_GETFD, 0, Fcntl::Other, false),
        ] {
            let seen = Fcntl::of(command, argument);
            assert_eq!((seen, seen.recalls()), (expected, recalls), "{command}");
        }
    }

    #[test]
    fn requests_have_a_meaning() {
        for (request, expected, recalls, amount) in [
            (libc::FIONBIO, Ioctl::Nonblocking, true, None),
            (libc::FIOASYNC, Ioctl::SignalDriven, true, None),
            (0x8901, Ioctl::Owner, true, None),
            (0x8902, Ioctl::Owner, true, None),
            (libc::FIONCLEX, Ioctl::HandedDown, true, None),
            (
                libc::FIONREAD,
                Ioctl::Readable,
                true,
                Some(Amount::Readable),
            ),
            (
                libc::TIOCOUTQ,
                Ioctl::OfStream(Amount::Unacknowledged),
                false,
                Some(Amount::Unacknowledged),
            ),
            (
                0x894b,
                Ioctl::OfStream(Amount::Unsent),
                false,
                Some(Amount::Unsent),
            ),
            (
                0x8905,
                Ioctl::OfStream(Amount::AtMark),
                false,
                Some(Amount::AtMark),
            ),
            (libc::FIOCLEX, Ioctl::Other, false, None),
            (libc::TCGETS, Ioctl::Other, false, None),
        ] {
            let seen = Ioctl::of(request);
            let known = (seen, seen.recalls(), seen.amount());
            assert_eq!(known, (expected, recalls, amount), "{request:#x}");
        }
    }

    #[test]
    fn stamps_have_a_unit() {
        for (request, unit_nsec) in [
            (0x8906, 1000),
            (0x8010_8906, 1000),
            (0x8907, 1),
            (0x8010_8907, 1),
        ] {
            assert_eq!(Ioctl::of(request), Ioctl::LastStamp { unit_nsec });
        }
    }
}
