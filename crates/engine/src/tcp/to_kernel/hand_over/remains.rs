//! The return of a connection that is over: what nobody has read, the end behind that and an error
//! belong to whoever has the socket next. The kernel's socket is connected with what is left in it,
//! and then told of the same end in the peer's stead, on this host only. No packet leaves.

use std::net::SocketAddr;
use std::time::Duration;

use links::family::{Family, link_of};

use ::tcp::{Error, Flags, Header, Remains, SeqNumber, State};
use libc::c_int;
use sys::Errno;

use super::{begin_again, bind, octets, packet, put_all};
use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::tcp::socket::TcpStack;
use crate::tcp::state::time_wait::Wait;
use crate::tcp::stream::Stream;
use crate::tcp::to_kernel::time_wait;
use sys::streams::{self, RepairQueue};

/// How often, and how far apart, it is looked whether the kernel's socket has taken the end.
const LOOKS: u32 = 50;
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// After so many the end is told again.
const TOLD_EVERY: u32 = 10;
/// How often the kernel's socket is ended before somebody else's end of it is taken for good.
const DESTRUCTIONS_MAX: u32 = 5;

/// A connection in TIME-WAIT or CLOSED. The kernel's socket is under repair, unless the kernel has
/// its TIME-WAIT.
pub(super) fn put<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    family: Family,
    stream: &mut Stream<S>,
    reuses: bool,
) -> Result<(), Errno> {
    let owes_time_wait = stream.owes_time_wait();
    let Some(remains) = stream.connection.take_remains() else {
        return Err(Errno(libc::EINVAL));
    };
    let (local, peer) = (family.form(stream.local), family.form(stream.peer));
    let is_kernels = stream.wait == Wait::Kernels;
    if is_kernels && remains.unread.is_empty() {
        // The kernel's socket is in this state already.
        return Ok(());
    }
    if !remains.had_peer {
        let between = (stream.local, stream.peer);
        return put_failed(host, fd, between, (local, peer), &remains);
    }
    let before = streams::widen_buffers(fd, 0, len_of(&remains.unread));
    if owes_time_wait {
        time_wait::put(host, fd, family, stream, &remains.unread, reuses)?;
    } else {
        if is_kernels {
            streams::repair_begins(fd)?;
        }
        let mut peer = stream.peer;
        if is_kernels {
            // The kernel's TIME-WAIT keeps the addresses. Nobody can see those of the peer.
            peer.set_port(peer.port() ^ 1);
        }
        put_closed(host, fd, family, (stream.local, peer), &remains)?;
    }
    streams::restore_buffers(fd, before);
    Ok(())
}

/// One in CLOSED, to the kernel's socket, too.
fn put_closed<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    family: Family,
    between: (SocketAddr, SocketAddr),
    remains: &Remains<Received>,
) -> Result<(), Errno> {
    let ends = (family.form(between.0), family.form(between.1));
    // Only behind an error it makes a difference whether the peer has sent everything.
    let has_fin = remains.has_peer_fin && remains.error.is_some();
    let rcv_nxt = remains.rcv_nxt - u32::from(has_fin);
    let header = |seq: SeqNumber, flags: Flags| Header {
        seq: seq.0,
        ack: remains.snd_nxt.0,
        flags: Flags::ACK | flags,
        window: u16::MAX,
        ..Header::default()
    };
    let connect = || {
        streams::disconnect(fd)?;
        connect_with(fd, ends, (remains.snd_nxt, rcv_nxt), &remains.unread)?;
        if has_fin {
            tell(host, between, &header(rcv_nxt, Flags::FIN));
        }
        Ok(())
    };
    connect()?;
    if remains.error == Some(Error::Aborted) {
        for _ in 0..DESTRUCTIONS_MAX {
            if destroys(host, fd, between) || !is_closed(fd) {
                break;
            }
            // It acknowledges the FIN with the next tick of the clock, and the peer, which knows no
            // such connection, has reset it: that is another error.
            let _ = sys::option_int(fd, libc::SOL_SOCKET, libc::SO_ERROR);
            let _ = streams::repair_begins(fd);
            connect()?;
        }
    } else if has_fin && remains.error != Some(Error::BrokenPipe) {
        // Under repair it is silent. The kernel tells one error of those that have sent a FIN, too,
        // and another of the others.
        let _ = streams::shutdown(fd, libc::SHUT_WR);
    }
    let reset = header(remains.rcv_nxt, Flags::RST);
    let has_ended = is_closed(fd) || ends_by(host, fd, between, &reset);
    streams::repair_ends(fd, false)?;
    if !has_ended {
        // What was not read can be, and then there is the end.
        return streams::shutdown(fd, libc::SHUT_RD);
    }
    if remains.error.is_none() {
        // Somebody has fetched it.
        sys::option_int(fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
    }
    Ok(())
}

/// Connects a socket under repair that is not connected, silently, with `unread` in its receive
/// queue. Behind that the peer goes on with `rcv_nxt`; what is sent from here on counts as sent.
pub(in crate::tcp) fn connect_with(
    fd: c_int,
    (local, peer): (SocketAddr, SocketAddr),
    (snd_nxt, rcv_nxt): (SeqNumber, SeqNumber),
    unread: &[Received],
) -> Result<(), Errno> {
    let first = rcv_nxt - octets(len_of(unread));
    bind(fd, local)?;
    streams::set_queue_number(fd, RepairQueue::Receive, first.0)?;
    streams::set_queue_number(fd, RepairQueue::Send, snd_nxt.0)?;
    streams::connect(fd, peer)?;
    if unread.is_empty() {
        return Ok(());
    }
    streams::choose_queue(fd, RepairQueue::Receive)?;
    for data in unread {
        put_all(fd, data.as_ref())?;
    }
    streams::choose_queue(fd, RepairQueue::Send)?;
    // `struct tcp_repair_window`: there is room for a FIN behind the data.
    let room = u32::from(u16::MAX);
    let window = [rcv_nxt.0, room, room, room, rcv_nxt.0];
    streams::set_tcp_option(fd, libc::TCP_REPAIR_WINDOW, &window)
}

/// A connection that never was: `connect(2)` has still to tell why. A refusal is told by a reset to
/// a SYN that does not leave this host; of what else there is the kernel finds out itself.
fn put_failed<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    between: (SocketAddr, SocketAddr),
    (local, peer): (SocketAddr, SocketAddr),
    remains: &Remains<Received>,
) -> Result<(), Errno> {
    const LOOPBACK_INDEX: u32 = 1;
    streams::disconnect(fd)?;
    if !matches!(remains.error, None | Some(Error::Refused)) {
        return begin_again(fd, local, peer);
    }
    let device = sys::bound_device(fd);
    streams::bind_to_device(fd, LOOPBACK_INDEX);
    let begun = begin_again(fd, local, peer);
    // A reset from an address of another host would not reach it there.
    streams::bind_to_device(fd, device);
    if begun.is_err() {
        // IPv6 knows no way there by that interface. The peer is asked once more, then, and its
        // answer comes too late.
        begin_again(fd, local, peer)?;
    }
    let snd_nxt = streams::send_queue_number(fd)?;
    let refusal = Header {
        ack: snd_nxt,
        flags: Flags::ACK | Flags::RST,
        ..Header::default()
    };
    let has_ended = ends_by(host, fd, between, &refusal);
    if remains.error.is_none() {
        sys::option_int(fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
    }
    has_ended.then_some(()).ok_or(Errno(libc::EHOSTUNREACH))
}

/// Ends the kernel's socket as an administrator does, which was done to the connection. To its
/// peer, which was told already, this is a reset of no connection. Returns whether it has done so.
fn destroys<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    (local, peer): (SocketAddr, SocketAddr),
) -> bool {
    let link = sys::bound_device(fd);
    let ended = host.network().end_connection(local, peer, link);
    ended.unwrap_or_else(|error| {
        log::debug!("fd {fd}: the connection's end is told as a reset: {error}");
        false
    })
}

fn is_closed(fd: c_int) -> bool {
    streams::state(fd) == Some(State::Closed.linux_number())
}

/// Tells the kernel's socket of its end, until it has taken note.
fn ends_by<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    between: (SocketAddr, SocketAddr),
    reset: &Header,
) -> bool {
    (0..LOOKS).any(|look| {
        if look % TOLD_EVERY == 0 && !tell(host, between, reset) {
            return false;
        }
        let is_closed = is_closed(fd);
        if !is_closed {
            std::thread::sleep(LOOK_INTERVAL);
        }
        is_closed
    })
}

/// A segment in the peer's stead, to the kernel's socket only.
pub(in crate::tcp) fn tell<S: TcpStack>(
    host: &Host<S>,
    (local, peer): (SocketAddr, SocketAddr),
    header: &Header,
) -> bool {
    let packet = packet(local, peer, header, &[]);
    let raw = host.return_socket().zip(packet);
    raw.is_some_and(|(raw, packet)| raw.send(&packet, link_of(local, peer)))
}

fn len_of(unread: &[Received]) -> usize {
    unread.iter().map(|data| data.as_ref().len()).sum()
}
