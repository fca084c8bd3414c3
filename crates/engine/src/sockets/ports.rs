//! Which sockets of this process are bound to a port. What comes to one socket or goes from it may concern others there, and a feed handler
//! has hundreds of sockets elsewhere.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sockets::stack::Stack;

/// Those of one port, by address.
type ByAddress<S> = HashMap<IpAddr, Vec<S>>;

/// The sockets by port. A leaf among the locks; changed under the control lock.
#[derive(Debug)]
pub(crate) struct Ports<S>(Mutex<HashMap<u16, ByAddress<S>>>);

impl<S: Stack> Ports<S> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// A socket goes over from one address to another. It has none if the port is 0.
    pub(crate) fn change(&self, socket: S, from: SocketAddr, to: SocketAddr) {
        if from == to {
            return;
        }
        let mut ports = self.lock();
        if from.port() != 0
            && let Some(there) = ports.get_mut(&from.port())
        {
            if let Some(sockets) = there.get_mut(&from.ip()) {
                sockets.retain(|it| it.core().number() != socket.core().number());
                if sockets.is_empty() {
                    there.remove(&from.ip());
                }
            }
            if there.is_empty() {
                ports.remove(&from.port());
            }
        }
        if to.port() != 0 {
            let there = ports.entry(to.port()).or_default();
            there.entry(to.ip()).or_default().push(socket);
        }
    }

    /// The socket is closed.
    pub(crate) fn remove(&self, socket: S, from: SocketAddr) {
        self.change(socket, from, SocketAddr::new(from.ip(), 0));
    }

    /// The sockets of a port whose address lets them have datagrams to a group; `None`: to any.
    pub(crate) fn of(&self, port: u16, group: Option<IpAddr>) -> Vec<S> {
        let ports = self.lock();
        let Some(there) = ports.get(&port) else {
            return Vec::new();
        };
        let Some(group) = group else {
            let by_any = there.iter();
            let by_group = by_any.filter(|(ip, _)| ip.is_unspecified() || ip.is_multicast());
            return by_group.flat_map(|(_, sockets)| sockets).copied().collect();
        };
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        any.iter()
            .chain([&group])
            .filter_map(|ip| there.get(ip))
            .flatten()
            .copied()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, ByAddress<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
