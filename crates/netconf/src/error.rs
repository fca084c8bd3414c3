//! What can go wrong, and whose fault it is.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;

/// A netlink operation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a netlink socket failed.
    #[error("netlink: cannot {action}")]
    Socket {
        /// What was tried, such as "receive".
        action: &'static str,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// The kernel understood the request and refused it.
    #[error("netlink: the kernel refused to {request}")]
    Refused {
        /// What was asked for, such as "list links".
        request: &'static str,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// No reply came in time. The kernel replies at once, so a reply was lost.
    #[error("netlink: no reply to the request to {request}")]
    Timeout {
        /// What was asked for.
        request: &'static str,
    },
    /// The table changed during each of many attempts to read it.
    #[error("netlink: the configuration changes too fast to {request}")]
    Unsteady {
        /// What was asked for.
        request: &'static str,
    },
    /// The kernel sent something that is not the message it should be.
    #[error("netlink: the reply to the request to {request} is malformed: {detail}")]
    Malformed {
        /// What was asked for.
        request: &'static str,
        /// What is wrong with it.
        detail: String,
    },
}

impl Error {
    /// The errno of the system call or of the kernel's refusal, if that is what failed.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Socket { source, .. } | Self::Refused { source, .. } => source.raw_os_error(),
            Self::Timeout { .. } | Self::Unsteady { .. } | Self::Malformed { .. } => None,
        }
    }

    pub(crate) fn socket(action: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Socket {
            action,
            source: errno.into(),
        }
    }
}

/// Why there is no route.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The kernel's answer is that packets to `destination` cannot be sent.
    #[error("no route to {destination}")]
    Refused {
        /// The address asked for.
        destination: IpAddr,
        /// Carries the errno: ENETUNREACH (no route), EHOSTUNREACH (unreachable), EACCES
        /// (prohibit), EINVAL (blackhole), ENODEV and others. A source address that is not of this
        /// host is EINVAL or ENETUNREACH, depending on the kernel's version.
        #[source]
        source: io::Error,
    },
    /// The query names addresses of different families.
    #[error(
        "the source {query_source} and the destination {destination} are of different families"
    )]
    MixedFamilies {
        /// The destination asked for.
        destination: IpAddr,
        /// The source asked for.
        query_source: IpAddr,
    },
    /// The kernel could not be asked.
    #[error(transparent)]
    Netlink(#[from] Error),
}

impl RouteError {
    /// The errno, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => source.raw_os_error(),
            Self::MixedFamilies { .. } => None,
            Self::Netlink(error) => error.errno(),
        }
    }
}
