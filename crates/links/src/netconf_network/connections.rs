//! The kernel's TCP connections by netlink (sock_diag(7)).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use netconf::{TcpConnectionInfo, TcpEnds, TcpSockets};

use crate::network::{KernelConnection, KernelConnections};

/// Those of one network namespace. The two have a lock each: who asks need not wait for who is
/// told.
#[derive(Debug)]
pub(super) struct Connections {
    ends: Mutex<TcpEnds>,
    events: Arc<OwnDescriptor>,
    asked: Mutex<TcpSockets>,
}

impl Connections {
    pub(super) fn open() -> Result<Self, netconf::Error> {
        let ends = TcpEnds::open()?;
        Ok(Self {
            events: Arc::clone(ends.descriptor()),
            ends: Mutex::new(ends),
            asked: Mutex::new(TcpSockets::open()?),
        })
    }
}

impl KernelConnections for Connections {
    fn events_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    fn follow(&self, does_follow: bool) -> io::Result<()> {
        let change = if does_follow {
            sys::subscribe
        } else {
            sys::unsubscribe
        };
        lock(&self.ends).follow(change).map_err(io::Error::other)
    }

    fn take_ended(&self, ended: &mut dyn FnMut(u64)) -> io::Result<bool> {
        lock(&self.ends).take(ended).map_err(io::Error::other)
    }

    fn find(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        link: u32,
    ) -> io::Result<Option<KernelConnection>> {
        let found = lock(&self.asked).connection(local, peer, link);
        Ok(found.map_err(io::Error::other)?.map(connection))
    }

    fn at_port(&self, port: u16) -> io::Result<Vec<KernelConnection>> {
        let found = lock(&self.asked).connections_at(port);
        let found = found.map_err(io::Error::other)?;
        Ok(found.into_iter().map(connection).collect())
    }
}

fn connection(info: TcpConnectionInfo) -> KernelConnection {
    KernelConnection {
        local: info.local,
        peer: info.peer,
        cookie: info.cookie,
        waits: info.waits,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
