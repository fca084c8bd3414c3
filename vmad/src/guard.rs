//! Whether a process may say that a connection is its own, and whether it may be reset when the
//! process is dead.

use std::net::IpAddr;

use netconf::{Netconf, TcpSocketInfo, TcpSockets};

use crate::connection::{Connection, scope};
use crate::redirect::Host;

/// Why a connection is not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    #[error("the addresses are not those of a connection")]
    Implausible,
    #[error("its address is not one of this network namespace")]
    ForeignAddress,
    #[error("a socket of the kernel has it")]
    KernelHasIt,
    #[error("another user listens there")]
    ForeignListener,
    #[error("the kernel does not say whose it is")]
    Unknown,
}

/// What is known of a connection at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub local_address_is_ours: bool,
    /// Where the kernel would deliver the peer's segments.
    pub socket: Option<TcpSocketInfo>,
}

/// Whether a live process of `user` may claim the connection. The process itself has a socket of
/// the kernel with these addresses, or none.
pub fn may_claim(user: u32, facts: Facts) -> Result<(), Objection> {
    if !facts.local_address_is_ours {
        return Err(Objection::ForeignAddress);
    }
    match facts.socket {
        Some(socket) if socket.user != user && user != ROOT => Err(if socket.listening {
            Objection::ForeignListener
        } else {
            Objection::KernelHasIt
        }),
        _ => Ok(()),
    }
}

/// Whether a connection of a dead process may be reset: not if somebody has it now. A listener of
/// another user than `user` may have it without a socket of the kernel's.
pub fn may_reset(user: Option<u32>, facts: Facts) -> Result<(), Objection> {
    if !facts.local_address_is_ours {
        return Err(Objection::ForeignAddress);
    }
    match facts.socket {
        Some(socket) if !socket.listening => Err(Objection::KernelHasIt),
        Some(socket) if user.is_some_and(|user| user != socket.user && user != ROOT) => {
            Err(Objection::ForeignListener)
        }
        _ => Ok(()),
    }
}

const ROOT: u32 = 0;

/// Asks the kernel for the [`Facts`].
#[derive(Debug)]
pub struct Kernel {
    netconf: Netconf,
    sockets: TcpSockets,
}

impl Kernel {
    /// For this network namespace.
    pub fn open() -> Result<Self, netconf::Error> {
        Ok(Self {
            netconf: Netconf::open()?,
            sockets: TcpSockets::open()?,
        })
    }

    /// Whether addresses came or went is seen by then.
    pub fn refresh(&mut self) -> Result<(), netconf::Error> {
        self.netconf.process_events().map(drop)
    }

    /// What redirections need to know.
    pub(crate) fn host(&self) -> Host {
        let loopback = self.netconf.links().find(|link| link.loopback);
        let addresses = self.netconf.addresses().iter();
        let addresses = addresses.filter_map(|address| match address.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        Host {
            loopback: loopback.map_or(1, |link| link.index),
            addresses: addresses.collect(),
        }
    }

    /// What is known of the connection now.
    pub fn facts(&mut self, connection: &Connection) -> Result<Facts, Objection> {
        if !connection.is_plausible() {
            return Err(Objection::Implausible);
        }
        let (local, link) = (connection.local.ip(), scope(connection.local));
        let local_address_is_ours = match link {
            0 => self.netconf.link_of_address(local).is_some(),
            link => self
                .netconf
                .addresses_of(link)
                .any(|it| it.address == local),
        };
        let socket = self
            .sockets
            .find(connection.local, connection.peer)
            .map_err(|_| Objection::Unknown)?;
        Ok(Facts {
            local_address_is_ours,
            socket,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};

    fn v4(address: SocketAddr) -> SocketAddrV4 {
        match address {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(address) => panic!("{address}"),
        }
    }

    /// Sockets that the kernel really has.
    struct Sockets {
        listener: SocketAddrV4,
        client: SocketAddrV4,
        _open: (TcpListener, TcpStream, TcpStream),
    }

    fn sockets() -> Sockets {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        Sockets {
            listener: v4(listener.local_addr().unwrap()),
            client: v4(client.local_addr().unwrap()),
            _open: (listener, client, accepted),
        }
    }

    #[test]
    fn the_kernel_names_connections_listeners_and_their_user() {
        let Sockets {
            listener, client, ..
        } = &sockets();
        let mut kernel = TcpSockets::open().unwrap();
        let connected = kernel.find(*client, *listener).unwrap().unwrap();
        assert!(!connected.listening);
        let accepted = kernel.find(*listener, *client).unwrap().unwrap();
        assert!(!accepted.listening);
        let nobody = SocketAddrV4::new([127, 0, 0, 2].into(), 1);
        let listening = kernel.find(*listener, nobody).unwrap().unwrap();
        assert!(listening.listening);
        assert_eq!(connected.user, listening.user);
        assert_eq!(kernel.find(nobody, *listener).unwrap(), None);
    }

    fn facts(socket: Option<(bool, u32)>) -> Facts {
        let mut kernel = TcpSockets::open().unwrap();
        let Sockets {
            listener, client, ..
        } = &sockets();
        // The type cannot be made here, only taken from the kernel and changed.
        let mut some = kernel.find(*client, *listener).unwrap().unwrap();
        Facts {
            local_address_is_ours: true,
            socket: socket.map(|(listening, user)| {
                (some.listening, some.user) = (listening, user);
                some
            }),
        }
    }

    #[test]
    fn a_live_process_claims_what_no_other_user_has() {
        assert_eq!(may_claim(100, facts(None)), Ok(()));
        assert_eq!(may_claim(100, facts(Some((false, 100)))), Ok(()));
        assert_eq!(may_claim(100, facts(Some((true, 100)))), Ok(()));
        assert_eq!(
            may_claim(100, facts(Some((false, 200)))),
            Err(Objection::KernelHasIt)
        );
        assert_eq!(
            may_claim(100, facts(Some((true, 0)))),
            Err(Objection::ForeignListener)
        );
        assert_eq!(may_claim(0, facts(Some((true, 100)))), Ok(()));
    }

    #[test]
    fn what_somebody_has_is_not_reset() {
        for user in [None, Some(0), Some(100)] {
            assert_eq!(may_reset(user, facts(None)), Ok(()));
            assert_eq!(may_reset(user, facts(Some((true, 100)))), Ok(()));
            assert_eq!(
                may_reset(user, facts(Some((false, 100)))),
                Err(Objection::KernelHasIt)
            );
        }
        assert_eq!(
            may_reset(Some(200), facts(Some((true, 100)))),
            Err(Objection::ForeignListener)
        );
    }

    #[test]
    fn an_address_of_elsewhere_is_nobodys() {
        let elsewhere = Facts {
            local_address_is_ours: false,
            ..facts(None)
        };
        assert_eq!(may_claim(0, elsewhere), Err(Objection::ForeignAddress));
        assert_eq!(may_reset(None, elsewhere), Err(Objection::ForeignAddress));
    }
}
