//! A process that asks for an interface: who it is, and where.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use dev_xdp::shared::{self, Hello};
use rustix::net::sockopt::socket_peercred;

use super::policy::{Credentials, Policy};
use crate::process::{self, Process};

/// An interface: its network namespace, as the kernel numbers these, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InterfaceId {
    pub(super) namespace: (u64, u64),
    pub(super) index: u32,
}

/// A process that is served, if it may have the interface.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) socket: OwnedFd,
    pub(super) hello: Hello,
    pub(super) interface: InterfaceId,
    pub(super) pid: u32,
    /// Readable when it has ended.
    pub(super) pidfd: OwnedFd,
    policy: Policy,
    credentials: Credentials,
}

/// Why somebody is not heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotHeard {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("process {0} is of another version")]
    Version(u32),
    #[error("process {0} is in a PID namespace of its own that is not seen from here")]
    Unseen(u32),
    #[error("process {0} has ended")]
    Ended(u32),
    #[error("process {0} names a network namespace that it is not in")]
    Namespace(u32),
}

impl NotHeard {
    /// Who has asked and gets nothing.
    pub(super) fn process(&self) -> Option<u32> {
        match *self {
            Self::System(_) | Self::Ended(_) => None,
            Self::Version(pid) | Self::Unseen(pid) | Self::Namespace(pid) => Some(pid),
        }
    }
}

impl Newcomer {
    /// Reads what somebody says, and asks the kernel who that is. Also returns its namespace.
    pub(super) fn hear(socket: OwnedFd, policy: &Policy) -> Result<(Self, OwnedFd), NotHeard> {
        let peer = socket_peercred(&socket).map_err(io::Error::from)?;
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
        let greeting = shared::greeting(socket.as_fd())?;
        let refused = |why: NotHeard| {
            shared::refuse(socket.as_fd(), &why.to_string());
            why
        };
        let (hello, namespace) = greeting.ok_or_else(|| refused(NotHeard::Version(pid)))?;
        // Of whatever has this number from here on it is known when it ends.
        let process = Process::open(pid).ok_or_else(|| refused(NotHeard::Unseen(pid)))?;
        let facts = rustix::fs::fstat(&namespace).map_err(io::Error::from)?;
        let named = (facts.st_dev, facts.st_ino);
        if !process::is_in_network_namespace(pid, named) {
            return Err(refused(NotHeard::Namespace(pid)));
        }
        let mut groups = process::groups(pid);
        groups.push(peer.gid.as_raw());
        if !process::is_alive(&process.pidfd) {
            return Err(NotHeard::Ended(pid));
        }
        let newcomer = Self {
            socket,
            interface: InterfaceId {
                namespace: named,
                index: hello.ifindex,
            },
            hello,
            pid,
            pidfd: process.pidfd,
            policy: policy.clone(),
            credentials: Credentials {
                user: peer.uid.as_raw(),
                groups,
            },
        };
        Ok((newcomer, namespace))
    }

    /// Whether it may have the interface of this name.
    pub(super) fn may_have(&self, interface: &str) -> bool {
        self.policy.allows(&self.credentials, interface)
    }

    pub(super) fn user(&self) -> u32 {
        self.credentials.user
    }

    /// Says why it gets nothing.
    pub(super) fn refuse(&self, why: &str) {
        shared::refuse(self.socket.as_fd(), why);
    }
}
