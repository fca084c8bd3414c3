//! The return of a connection to the kernel: all that the peer can notice of it is put into the
//! kernel's socket (`TCP_REPAIR`), which goes on from there. Not one octet is lost, sent twice as
//! new or out of order.

use std::net::SocketAddr;

use links::family::{Family, link_of};

use ::tcp::{Flags, Header, Snapshot, State};
use libc::c_int;
use sys::Errno;
use wire::tcp::{Options, Timestamps};

use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::tcp::clock::now;
use crate::tcp::globals::Globals;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::moving::Moving;
use crate::tcp::stream::Stream;
use sys::streams::{self, RepairQueue};

mod remains;
mod segments;
mod urgent;

pub(in crate::tcp) use remains::{connect_with, tell};
use segments::send_moving;
pub(in crate::tcp) use segments::{packet, send_on};
use urgent::Unread;

impl<S: TcpStack> TcpSocket<S> {
    /// Gives the connection to the kernel's socket, while its segments still come here: none finds
    /// the kernel's socket when that is not connected, which would reset the connection. Under the
    /// control lock.
    pub(crate) fn hand_over_stream(&'static self, host: &Host<S>) {
        if self.is_listener() {
            self.begin_returning(host);
            self.clear_readiness();
            self.counters().tcp_state.set(0);
            return;
        }
        if !self.is_stream() {
            self.hand_over_local();
            return;
        }
        // What has come is acknowledged, perhaps.
        self.interfaces.drain();
        let mut role = self.role.lock();
        let Role::Stream(mut stream) = std::mem::replace(&mut *role, Role::None) else {
            return;
        };
        stream.end_showing(&self.shown.lock());
        *role = Role::Moving(Box::new(Moving {
            local: stream.local,
            peer: stream.peer,
            // Of one that nobody has any more the listener need not hear.
            listener: stream.listener.filter(|_| stream.orphan.is_none()),
            segments: Vec::new(),
        }));
        drop(role);
        self.globals.timers.disarm(self.timer());
        self.end_watch_for_destruction();
        self.commit();
        // Of one that nobody has any more, the copy keeps the kernel's socket, and with its end
        // that is closed.
        let fd = stream.kernels_fd().unwrap_or_else(|| self.fd());
        let keep_alive = stream.connection.options().keep_alive();
        let reuses = self.attachment().reuses_address();
        let is_read_shut = stream.is_read_shut;
        let mut stream = *stream;
        let orphan = stream.orphan.take();
        self.bound_as_before(fd, stream.device, || {
            match put(host, fd, self.family(), stream, reuses) {
                Ok(()) => self.becomes_exempt(host, fd),
                Err(errno) => log::error!(
                    "fd {fd}: the connection could not be given to the kernel (errno {}): it is lost",
                    errno.0
                ),
            }
        });
        if is_read_shut {
            // It fails if the connection is over, which ends reading, too.
            let _ = streams::shutdown(fd, libc::SHUT_RD);
        }
        if keep_alive {
            let _ = streams::set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1);
        }
        streams::share_port(fd, reuses);
        drop(orphan);
        self.clear_readiness();
        self.counters().tcp_state.set(0);
        self.silence(false);
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// The kernel's socket, at `fd`, has the connection: its segments come there from here on, also
    /// if all others of its port come past the kernel. Under the control lock.
    fn becomes_exempt(&self, host: &Host<S>, fd: c_int) {
        // In their order: those that have come, and then what comes to the kernel.
        self.interfaces.drain();
        if let Role::Moving(moving) = &mut *self.role.lock() {
            send_moving(host, moving);
        }
        let flows = self.attachment().flows.clone();
        for (interface, flow) in flows {
            self.globals.exempt.begin(interface, &flow, fd);
        }
    }

    /// A call that is the kernel's waits while its connection is on its way there, if that is so:
    /// meanwhile the kernel's socket takes for its queues whatever is sent. No lock may be held.
    #[cold]
    pub(in crate::tcp) fn wait_for_hand_over(host: &Host<S>) {
        drop(host.control());
    }

    /// The connection's segments are the kernel's from here on: those that have come meanwhile
    /// follow. Under the control lock.
    pub(crate) fn hand_over_rest(&self, host: &Host<S>) {
        if self.is_returning() {
            self.go_on_returning(host);
            return;
        }
        let was = std::mem::replace(&mut *self.role.lock(), Role::None);
        if let Role::Moving(mut moving) = was {
            send_moving(host, &mut moving);
            if let Some((listener, generation)) = moving.listener
                && let Some(listener) = listener.as_tcp()
            {
                let segments = self.counters().rx_packets.value();
                listener.note_returned(host, generation, segments);
            }
        }
    }
}

impl<S: TcpStack> Globals<S> {
    /// Segments for ports of ours that are of no connection here: the kernel knows whose they are,
    /// or resets them.
    pub(in crate::tcp) fn hand_over_unmatched(&self, host: &Host<S>) {
        let Some(raw) = host.return_socket() else {
            return;
        };
        for segment in self.take_unmatched() {
            send_on(raw, &segment);
        }
        self.exempt.decide_openings(host);
    }
}

/// Puts a connection into the kernel's socket, which is connected to the peer, under repair.
fn put<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    family: Family,
    mut stream: Stream<S>,
    reuses: bool,
) -> Result<(), Errno> {
    if stream.is_over() {
        return remains::put(host, fd, family, &mut stream, reuses);
    }
    let (local, peer) = (family.form(stream.local), family.form(stream.peer));
    let state = stream.connection.state();
    streams::disconnect(fd)?;
    if matches!(state, State::SynSent | State::SynReceived) {
        return begin_again(fd, local, peer);
    }
    let Some(snapshot) = stream.connection.export(now()) else {
        return streams::repair_ends(fd, false);
    };
    let len: usize = snapshot.unread.iter().map(|data| data.as_ref().len()).sum();
    let unread = Unread::of(&snapshot);
    let before = streams::widen_buffers(fd, snapshot.unacknowledged.len(), len);
    connect_silently(fd, local, peer, &snapshot, len)?;
    set_options(fd, &snapshot)?;
    streams::choose_queue(fd, RepairQueue::Receive)?;
    put_all(fd, &unread.before)?;
    let in_flight = snapshot.snd_nxt - snapshot.snd_una;
    let in_flight = snapshot.unacknowledged.len().min(in_flight as usize);
    let (sent, unsent) = snapshot.unacknowledged.split_at(in_flight);
    streams::choose_queue(fd, RepairQueue::Send)?;
    put_all(fd, sent)?;
    streams::set_tcp_option(
        fd,
        libc::TCP_REPAIR_WINDOW,
        &unread.window(snapshot.repair_window()),
    )?;
    streams::repair_ends(fd, true)?;
    unread.arrive(host, fd, (stream.local, stream.peer), &snapshot)?;
    put_all(fd, unsent)?;
    end(host, fd, stream.local, stream.peer, &snapshot)?;
    streams::restore_buffers(fd, before);
    if known_window(&snapshot) < SMALL_WINDOW && !state.has_peer_fin() {
        // Without it the peer asks in the end.
        let _ = have_window_told(host, stream.local, stream.peer, &snapshot);
    }
    Ok(())
}

/// Peers may wait for more room than this, for they send whole segments.
const SMALL_WINDOW: u32 = 32 * 1024;

/// What the peer may send still, as far as it has been told.
fn known_window(snapshot: &Snapshot<Received>) -> u32 {
    let edge = snapshot.window.rcv_wup + snapshot.window.rcv_wnd;
    edge - snapshot.rcv_nxt
}

/// Has the kernel's socket tell the peer its window. It does so when the repair ends, but in a
/// segment that is old to the peer (`tcp_send_window_probe`), which therefore does not heed it
/// (`tcp_may_update_window`); and then takes it for told. To an octet that it has already it
/// answers at once.
fn have_window_told<S: TcpStack>(
    host: &Host<S>,
    local: SocketAddr,
    peer: SocketAddr,
    snapshot: &Snapshot<Received>,
) -> Result<(), Errno> {
    let header = peers_header(snapshot, snapshot.rcv_nxt - 1, Flags::ACK);
    say_with(host, local, peer, &header, &[0])
}

/// The kernel makes the handshake anew: nothing was sent or received.
fn begin_again(fd: c_int, local: SocketAddr, peer: SocketAddr) -> Result<(), Errno> {
    bind(fd, local)?;
    streams::repair_ends(fd, false)?;
    let flags = sys::status_flags(fd)?;
    streams::set_nonblocking(fd, true)?;
    let begun = streams::connect(fd, peer);
    if flags & libc::O_NONBLOCK == 0 {
        streams::set_nonblocking(fd, false)?;
    }
    match begun {
        Ok(()) | Err(Errno(libc::EINPROGRESS)) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Gives the socket, which is under repair, its address back. If the program had bound it, it still
/// has the port. What the kernel says of an unbound socket's address does not tell.
///
/// The port is shared with whoever has it, for as long as the repair has the socket's
/// `SO_REUSEADDR`. A port that nobody has is taken without: the kernel would give it to all that
/// set the option, whatever the socket has in the end. No queue is chosen behind that.
pub(in crate::tcp) fn bind(fd: c_int, local: SocketAddr) -> Result<(), Errno> {
    streams::share_port(fd, false);
    let alone = streams::bind(fd, local);
    streams::repair_begins(fd)?;
    match alone {
        Err(Errno(libc::EINVAL)) => Ok(()),
        Err(Errno(libc::EADDRINUSE)) => streams::bind(fd, local),
        bound => bound,
    }
}

/// A socket under repair is connected without a packet, in the state ESTABLISHED, with these
/// numbers.
fn connect_silently(
    fd: c_int,
    local: SocketAddr,
    peer: SocketAddr,
    snapshot: &Snapshot<Received>,
    unread: usize,
) -> Result<(), Errno> {
    let fin = u32::from(snapshot.state.has_peer_fin());
    let read_nxt = snapshot.rcv_nxt - fin - octets(unread);
    bind(fd, local)?;
    streams::set_queue_number(fd, RepairQueue::Receive, read_nxt.0)?;
    let fin = u32::from(snapshot.state == State::FinWait2);
    streams::set_queue_number(fd, RepairQueue::Send, (snapshot.snd_una - fin).0)?;
    streams::connect(fd, peer)
}

fn set_options(fd: c_int, snapshot: &Snapshot<Received>) -> Result<(), Errno> {
    for option in snapshot.repair_options() {
        streams::set_tcp_option(fd, libc::TCP_REPAIR_OPTIONS, &option)?;
    }
    match snapshot.timestamps {
        Some(timestamps) => streams::set_tcp_option(fd, libc::TCP_TIMESTAMP, &timestamps.value),
        None => Ok(()),
    }
}

/// What has ended of the connection: this side's FIN is the kernel's to send, the peer's comes as
/// if from it.
fn end<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    local: SocketAddr,
    peer: SocketAddr,
    snapshot: &Snapshot<Received>,
) -> Result<(), Errno> {
    let state = snapshot.state;
    if state.has_fin() && state != State::LastAck {
        streams::shutdown(fd, libc::SHUT_WR)?;
    }
    if state.has_peer_fin() {
        say(
            host,
            local,
            peer,
            snapshot,
            snapshot.rcv_nxt - 1,
            Flags::ACK | Flags::FIN,
        )?;
    }
    if state == State::LastAck {
        streams::shutdown(fd, libc::SHUT_WR)?;
    }
    if state == State::FinWait2 {
        say(host, local, peer, snapshot, snapshot.rcv_nxt, Flags::ACK)?;
    }
    Ok(())
}

/// The header of what the peer might send at this point.
pub(in crate::tcp) fn peers_header(
    snapshot: &Snapshot<Received>,
    seq: tcp::SeqNumber,
    flags: Flags,
) -> Header {
    let scale = snapshot.window_scales.map_or(0, |scales| scales.snd);
    let window = snapshot.window.snd_wnd >> scale;
    Header {
        seq: seq.0,
        ack: snapshot.snd_una.0,
        flags,
        window: u16::try_from(window).unwrap_or(u16::MAX),
        urgent: 0,
        options: Options {
            timestamps: snapshot.timestamps.map(|timestamps| Timestamps {
                value: timestamps.recent,
                echo: timestamps.value,
            }),
            ..Options::default()
        },
    }
}

/// A segment in the peer's stead, to the kernel's socket only.
fn say<S: TcpStack>(
    host: &Host<S>,
    local: SocketAddr,
    peer: SocketAddr,
    snapshot: &Snapshot<Received>,
    seq: tcp::SeqNumber,
    flags: Flags,
) -> Result<(), Errno> {
    say_with(host, local, peer, &peers_header(snapshot, seq, flags), &[])
}

/// The same with data.
fn say_with<S: TcpStack>(
    host: &Host<S>,
    local: SocketAddr,
    peer: SocketAddr,
    header: &Header,
    data: &[u8],
) -> Result<(), Errno> {
    let packet = packet(local, peer, header, data);
    let sent = host
        .return_socket()
        .zip(packet)
        .is_some_and(|(raw, packet)| raw.send(&packet, link_of(local, peer)));
    if sent {
        Ok(())
    } else {
        Err(Errno(libc::EHOSTUNREACH))
    }
}

pub(in crate::tcp) const ETHERNET_HEADER_LEN: usize = 14;

fn put_all(fd: c_int, bytes: &[u8]) -> Result<(), Errno> {
    if streams::put(fd, bytes)? == bytes.len() {
        Ok(())
    } else {
        Err(Errno(libc::ENOBUFS))
    }
}

/// Of a queue, as sequence numbers count them.
fn octets(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
