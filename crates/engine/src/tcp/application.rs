//! What is common to the application's calls on a stream, and the small ones.

use std::net::SocketAddr;

use links::interface::sending::Sender;
use links::reason::Reason;

use ::tcp::{Error, Instant, Shutdown};
use libc::c_int;
use sys::{Errno, streams};

use crate::sockets::host::Host;
use crate::sockets::stack::MayOpen;
use crate::sockets::{events, hand_over};
use crate::tcp::clock::now;
use crate::tcp::egress::Egress;
use crate::tcp::info::name_of;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::{Outcome, Stream};

/// `TCP_CC_INFO`
const TCP_CC_INFO: c_int = 26;

/// What `SO_ERROR` and failing calls say.
pub(super) fn errno_of(error: Error) -> Errno {
    Errno(match error {
        Error::Refused => libc::ECONNREFUSED,
        Error::Reset => libc::ECONNRESET,
        Error::BrokenPipe => libc::EPIPE,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::HostUnreachable => libc::EHOSTUNREACH,
        Error::NetUnreachable => libc::ENETUNREACH,
        Error::Protocol => libc::EPROTO,
        Error::MessageSize => libc::EMSGSIZE,
        Error::ProtocolUnreachable => libc::ENOPROTOOPT,
        Error::Prohibited => libc::EACCES,
        Error::Aborted => libc::ECONNABORTED,
    })
}

/// What an `ioctl(2)` asks a stream for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// `FIONREAD`, `SIOCINQ`
    Readable,
    /// `TIOCOUTQ`, `SIOCOUTQ`
    Unacknowledged,
    /// `SIOCOUTQNSD`
    Unsent,
    /// `SIOCATMARK`
    AtMark,
}

impl<S: TcpStack> TcpSocket<S> {
    /// Does what has to be done after a connection was changed. No lock may be held.
    #[inline]
    pub(super) fn after(
        &'static self,
        host: &Host<S>,
        outcome: &Outcome,
        sender: Option<Sender<S>>,
    ) {
        if outcome.needs_kick
            && let Some(sender) = sender
        {
            sender.start_segments();
        }
        self.announce(outcome);
        if outcome.needs_egress {
            self.find_way(host);
        }
    }

    /// Changes the connection, if there is one, and does what has to be done then. No lock may be
    /// held.
    pub(super) fn change_stream(
        &'static self,
        host: &Host<S>,
        change: impl FnOnce(&mut Stream<S>, Instant),
    ) {
        let now = now();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        change(stream, now);
        let outcome = stream.settle(&self.core, now);
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        self.after(host, &outcome, sender);
    }

    /// What the program held is free: so many octets. The window opens.
    pub(crate) fn release_held(&'static self, host: &Host<S>, len: usize) {
        self.change_stream(host, |stream, now| stream.connection.release_held(now, len));
    }

    /// Finds out how segments reach the peer. A connection that has no way past the kernel any more
    /// goes back to it. No lock may be held.
    #[cold]
    pub(crate) fn find_way(&'static self, host: &Host<S>) {
        let (ends, device, headers, user, is_lost) = match &*self.role.lock() {
            Role::Stream(stream) => {
                let is_lost = stream.interface.is_lost();
                (
                    (stream.local, stream.peer),
                    stream.device,
                    stream.headers,
                    stream.user,
                    is_lost,
                )
            }
            _ => return,
        };
        if is_lost {
            return self.lose_way(host, ends, Reason::DeviceLost);
        }
        match Egress::find(host, ends, device, headers, user) {
            Ok(egress) => self.take_egress(ends, egress),
            // Looked for again when the network changes, or the connection's timer says so.
            Err(Reason::Neighbour) => self.open_through_kernel(host),
            Err(Reason::Opening) => {}
            Err(reason) => self.lose_way(host, ends, reason),
        }
    }

    /// The same, if it has none.
    pub(crate) fn find_missing_way(&'static self, host: &Host<S>) {
        let is_missing = match &*self.role.lock() {
            Role::Stream(stream) => !stream.egress.as_ref().is_some_and(Egress::is_found),
            _ => false,
        };
        if is_missing {
            self.find_way(host);
        }
    }

    /// Whether the kernel's socket has got segments of the connection.
    pub(crate) fn has_strayed(&self) -> bool {
        let is_stream = match &*self.role.lock() {
            Role::Stream(stream) => stream.orphan.is_none(),
            _ => false,
        };
        is_stream && streams::segments_received(self.fd()) > 0
    }

    /// Whether the kernel can have the connection now. It cannot while it knows no way to the peer:
    /// it does not connect its socket then. With a connection of its own it would wait for a way,
    /// and so does one that stays here.
    pub(crate) fn can_return(&self, host: &Host<S>) -> bool {
        let (local, peer) = match &*self.role.lock() {
            // To the kernel all peers are on the link of a socket that is bound to one.
            Role::Stream(stream) if stream.device != 0 && stream.peer.is_ipv4() => return true,
            Role::Stream(stream) => (stream.local, stream.peer),
            _ => return true,
        };
        host.network().has_route(local, peer)
    }

    /// The network or a device has changed. Under the control lock.
    pub(crate) fn follow_kernel(&'static self, host: &Host<S>, may_open: MayOpen) -> Vec<u32> {
        if self.waits_as_stream() {
            self.may_come();
            return Vec::new();
        }
        if self.waits_to_listen() {
            return self.listens_at_last(host, may_open);
        }
        let is_lost = match &*self.role.lock() {
            Role::Stream(stream) => Some(stream.interface.is_lost()),
            Role::Listener(_) => None,
            _ => return Vec::new(),
        };
        let Some(is_lost) = is_lost else {
            self.follow_places(host);
            return self.gain_places(host, may_open);
        };
        let reason = if is_lost {
            Reason::DeviceLost
        } else if host.network().has_ipsec() {
            Reason::Ipsec
        } else {
            return Vec::new();
        };
        if self.can_return(host) {
            hand_over::hand_over(host, self.into(), reason, "");
        }
        Vec::new()
    }

    fn take_egress(&'static self, of: (SocketAddr, SocketAddr), egress: Egress<S>) {
        let now = now();
        let sender = *egress.sender;
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        if (stream.local, stream.peer) != of {
            // The object has begun another life meanwhile.
            return;
        }
        let path_mtus = &self.globals.path_mtus;
        let mtu = path_mtus.at_most(stream.peer, egress.mtu, now);
        stream.connection.set_path_mtu(mtu);
        stream.egress = Some(egress);
        let outcome = stream.settle(&self.core, now);
        drop(role);
        if outcome.needs_kick {
            sender.start_segments();
        }
        self.announce(&outcome);
    }

    fn lose_way(&'static self, host: &Host<S>, of: (SocketAddr, SocketAddr), reason: Reason) {
        // If not, it is looked for again when the network changes.
        let can_return = self.can_return(host);
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        if (stream.local, stream.peer) != of {
            return;
        }
        if !can_return {
            stream.egress = None;
            return;
        }
        if stream.orphan.is_some() {
            // Nobody is left who could be told, and no descriptor to give back.
            stream.connection.abort();
            let outcome = stream.settle(&self.core, now());
            drop(role);
            return self.announce(&outcome);
        }
        drop(role);
        host.leave_to_kernel(self, reason);
    }

    /// `shutdown(2)`. `None`: it is the kernel's.
    pub fn shut_down(&'static self, host: &Host<S>, how: c_int) -> Option<Result<(), Errno>> {
        let direction = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return None,
        };
        // What has come before can still be read; what comes after a shutdown of both directions
        // resets the connection.
        self.interfaces.drain();
        let now = now();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            drop(role);
            if self.is_local() {
                host.leave_to_kernel(self, Reason::ShutDown);
            }
            Self::wait_for_hand_over(host);
            return self.shut_down_in_kernel(how);
        };
        let is_connected = stream.connection.shutdown(now, direction);
        if is_connected {
            stream.is_read_shut |= direction != Shutdown::Write;
            stream.is_write_shut |= direction != Shutdown::Read;
        }
        let mut outcome = stream.settle(&self.core, now);
        outcome.events |= events::ALL;
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        self.after(host, &outcome, sender);
        Some(is_connected.then_some(()).ok_or(Errno(libc::ENOTCONN)))
    }

    /// Shows readers of the statistics how the connection is.
    pub(crate) fn refresh_statistics(&self) {
        if let Role::Stream(stream) = &mut *self.role.lock() {
            stream.refresh_statistics(&self.core, now());
        }
    }

    /// What an `ioctl(2)` asks for. `None`: the kernel knows.
    pub fn amount(&self, amount: Amount) -> Option<usize> {
        self.interfaces.receive_waiting();
        let mut role = self.role.lock();
        let stream = match &mut *role {
            Role::Stream(stream) => stream,
            Role::Local(local) => return Self::amount_of(local, amount),
            _ => return None,
        };
        let connection = &stream.connection;
        Some(match amount {
            Amount::Readable => connection.readable_len(),
            Amount::Unacknowledged => connection.unacknowledged_len(),
            Amount::Unsent => connection.unsent_len(),
            Amount::AtMark => usize::from(connection.is_at_mark()),
        })
    }

    /// Fetches and clears the error (`SO_ERROR`). `None`: the kernel has it.
    pub fn take_error(&self) -> Option<Option<Errno>> {
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return None;
        };
        let error = stream.connection.take_error().map(errno_of);
        stream.show_readiness(&self.core);
        Some(error)
    }

    /// Fetches and clears what has ended the connection, which `recvmmsg(2)` looks for first.
    /// `None` if nothing has, or the kernel has it.
    pub fn take_failure(&self) -> Option<Errno> {
        let has_failed = match &*self.role.lock() {
            Role::Stream(stream) => stream.connection.has_error(),
            _ => false,
        };
        if has_failed { self.take_error()? } else { None }
    }

    /// Whether there is nothing to be read but the connection's error.
    pub fn has_only_failed(&self) -> bool {
        match &*self.role.lock() {
            Role::Stream(stream) => {
                stream.connection.has_error() && stream.connection.readable_len() == 0
            }
            _ => false,
        }
    }

    /// What `getsockopt(2)` is to say where the kernel's socket has another value. `None`: it has
    /// the right one.
    pub fn option(&self, level: c_int, name: c_int) -> Option<Vec<u8>> {
        self.interfaces.receive_waiting();
        let int = |value: c_int| value.to_ne_bytes().to_vec();
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = self.take_error()?;
                Some(int(error.map_or(0, |Errno(errno)| errno)))
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => self.info(),
            (libc::IPPROTO_TCP, TCP_CC_INFO) => self.congestion_info(),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                self.has_peer()?;
                // Under repair the kernel's socket shares its port with all.
                Some(int(self.attachment().reuses_address().into()))
            }
            _ => {
                let Role::Stream(stream) = &*self.role.lock() else {
                    return None;
                };
                let options = stream.connection.options();
                match (level, name) {
                    (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
                        Some(int(options.keep_alive().into()))
                    }
                    (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                        let mss = stream.connection.info(now()).snd_mss;
                        Some(int(c_int::try_from(mss).unwrap_or(c_int::MAX)))
                    }
                    (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => name_of(options.congestion()),
                    _ => None,
                }
            }
        }
    }

    /// How long the headers of the segment are that has opened the connection (`TCP_SAVED_SYN`),
    /// wherever that is now. `None`: there are none here.
    pub fn saved_syn_len(&self) -> Option<usize> {
        self.wishes.syn().as_ref().map(|headers| headers.len())
    }

    /// The headers, once.
    pub fn take_saved_syn(&self) -> Option<Box<[u8]>> {
        self.wishes.syn().take()
    }

    /// Whether the stream has a peer, to `getpeername(2)`. `None`: the kernel knows.
    pub fn has_peer(&self) -> Option<bool> {
        self.interfaces.receive_waiting();
        let Role::Stream(stream) = &*self.role.lock() else {
            return None;
        };
        use tcp::State::{Closed, SynSent, TimeWait};
        // In TIME-WAIT the kernel's socket is a closed one.
        let state = stream.connection.state();
        Some(!matches!(state, SynSent | Closed | TimeWait))
    }
}
