//! The return of a listener to the kernel: the connections that nobody has accepted yet come into
//! the queue of the kernel's socket, in their order and with what was received, so that whichever
//! process accepts gets them. Those whose handshake is not over stay here until it is: they take
//! the packets of their own flows meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;

use links::family::link_of;
use links::interface::Interface;
use links::network::Network;
use links::reason::Reason;

use ::tcp::{Flags, Instant, Snapshot};
use dev_core::{Admission, Agreed, Clocks, Flow, Protocol, ReceivingHost, WindowShifts};
use libc::c_int;
use sys::streams;

use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::tcp::clock::now;
use crate::tcp::listen::return_queue::Returning;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::habit::Habit;
use crate::tcp::stream::Stream;
use crate::tcp::to_kernel::hand_over::{packet, peers_header, send_on};

/// What goes into a packet to this host itself: little enough that the kernel's buffers have room
/// for a whole window in such packets.
const PART_BYTES: usize = 15_000;
/// How soon is looked again whether the kernel's queue has room.
const RETRY: std::time::Duration = std::time::Duration::from_millis(10);

impl<S: TcpStack> TcpSocket<S> {
    /// The kernel's socket listens alone from here on, and gets the connections that are
    /// established. Their segments still come here: [`go_on_returning`](Self::go_on_returning)
    /// follows when the listener's flows are gone. Under the control lock.
    pub(in crate::tcp) fn begin_returning(&'static self, host: &Host<S>) {
        // What has come may end a handshake.
        self.interfaces.drain();
        let mut role = self.role.lock();
        let Role::Listener(mut listening) = std::mem::replace(&mut *role, Role::None) else {
            return;
        };
        // Also if nobody waits: what comes before the flows are gone is the kernel's.
        let admission = (!listening.is_empty()).then(|| host.admission());
        let admission = match admission.transpose() {
            Ok(admission) => admission.map(Arc::from),
            Err(error) => {
                drop(role);
                let count = listening.children.len();
                log::warn!(
                    "fd {}: {count} connections that wait to be accepted are reset: the kernel cannot take them: {error}",
                    self.fd()
                );
                return self.end_listening(listening);
            }
        };
        listening.is_returning = true;
        listening.refuses_at = None;
        *role = Role::Returning(Box::new(Returning {
            listening,
            admission,
            flows: Vec::new(),
            later: Vec::new(),
            is_orphan: false,
        }));
        drop(role);
        // Connections have the filter of their listener.
        self.clear_filter();
        self.admit_those_ready(host);
        self.keep_the_others();
        self.clear_readiness();
    }

    /// A connection that this socket has accepted in this life of it has returned to the kernel,
    /// after so many segments of its peer. If most of them do, the listener returns, too. Under the
    /// control lock.
    pub(in crate::tcp) fn note_returned(
        &'static self,
        host: &Host<S>,
        generation: u32,
        segments: u64,
    ) {
        if self.generation() != generation {
            return;
        }
        let may_leave = self.may_leave(host, |habit| {
            habit.returns(segments);
            habit.is_to_return()
        });
        if may_leave {
            hand_over::hand_over(host, self.into(), Reason::Returning, "");
        }
    }

    /// The program has closed a connection that this socket has accepted, after so many segments of
    /// its peer. Where others do what takes rights, or workers would share the kernel's listener
    /// else, many short ones are better the kernel's. Under the control lock.
    pub(in crate::tcp) fn note_ended(
        &'static self,
        host: &Host<S>,
        generation: u32,
        (now, segments): (Instant, u64),
    ) {
        let is_together = self.is_taken_together();
        let is_concerned = is_together || sys::has_helper_for_options();
        if !is_concerned || self.generation() != generation {
            return;
        }
        let may_leave = self.may_leave(host, |habit| {
            habit.ends(now, segments);
            habit.is_of_short_ones() && (is_together || !may_administer())
        });
        if may_leave {
            self.stops_taking_together();
            hand_over::hand_over(host, self.into(), Reason::Returning, "short connections");
        }
    }

    /// Whether the listener is to be the kernel's, as what becomes of its connections says, and
    /// nobody is reset for the sake of speed.
    fn may_leave(&self, host: &Host<S>, is_to_leave: impl FnOnce(&mut Habit) -> bool) -> bool {
        let mut role = self.role.lock();
        let Role::Listener(listening) = &mut *role else {
            return false;
        };
        if !is_to_leave(&mut listening.habit) {
            return false;
        }
        let is_empty = listening.is_empty();
        drop(role);
        is_empty || host.admission().is_ok()
    }

    /// Gives the kernel those connections whose handshake is over, as far as its queue has room.
    fn admit_those_ready(&self, host: &Host<S>) {
        let fd = self.listening_fd();
        while fd.is_none_or(has_room) {
            let mut role = self.role.lock();
            let Role::Returning(returning) = &mut *role else {
                return;
            };
            let Some(key) = returning.listening.next() else {
                return;
            };
            let Some(admission) = returning.admission.clone() else {
                return;
            };
            let Some(stream) = returning.listening.accepted(key, &self.core) else {
                return;
            };
            let is_of = |(_, flow): &(_, Flow)| *flow == flow_of(key);
            let place = returning.flows.iter().position(is_of);
            let flow = place.map(|place| returning.flows.swap_remove(place));
            drop(role);
            admit(host, fd, &*admission, *stream);
            if let Some((interface, flow)) = flow {
                interface.detach(&flow);
            }
        }
    }

    /// The kernel's listening socket. `None`: it is closed here, and its number may be another's.
    fn listening_fd(&self) -> Option<c_int> {
        match &*self.role.lock() {
            Role::Returning(returning) if returning.is_orphan => None,
            _ => Some(self.fd()),
        }
    }

    /// Connections that stay for now get flows of their own.
    fn keep_the_others(&'static self) {
        let keys: Vec<_> = match &*self.role.lock() {
            Role::Returning(returning) => returning.listening.children.keys().copied().collect(),
            _ => return,
        };
        for key in keys {
            let interface = match &*self.role.lock() {
                Role::Returning(returning) => returning.listening.interface_of(key),
                _ => return,
            };
            let Some(interface) = interface else {
                continue;
            };
            let flow = flow_of(key);
            let is_kept = interface.attach(&flow, self.into()).is_ok();
            if let Role::Returning(returning) = &mut *self.role.lock() {
                if is_kept {
                    returning.flows.push((interface, flow));
                } else {
                    returning.listening.children.remove(&key);
                }
            }
        }
    }

    /// Gives the kernel what it does not have yet, as far as it can have it now. Returns whether
    /// that was all. Under the control lock.
    pub(crate) fn go_on_returning(&self, host: &Host<S>) -> bool {
        let now = now();
        let (wake_up, interfaces) = match &mut *self.role.lock() {
            Role::Returning(returning) => {
                let listening = &mut returning.listening;
                let outcome = listening.look_after(&self.core, self.globals, now);
                let interfaces: Vec<_> = listening.interfaces().collect();
                (outcome.wake_up, interfaces)
            }
            _ => return true,
        };
        interfaces.into_iter().for_each(Interface::start_segments);
        self.admit_those_ready(host);
        self.give_later_to_kernel(host);
        let mut role = self.role.lock();
        let Role::Returning(returning) = &mut *role else {
            return true;
        };
        if !returning.listening.children.is_empty() {
            let retry = returning.listening.next().map(|_| now + RETRY);
            drop(role);
            if let Some(at) = wake_up.into_iter().chain(retry).min() {
                self.globals.timers.arm(self.timer(), at);
            }
            return false;
        }
        // Of those that have given up.
        let flows = std::mem::take(&mut returning.flows);
        drop(role);
        flows
            .iter()
            .for_each(|(interface, flow)| interface.detach(flow));
        self.give_later_to_kernel(host);
        *self.role.lock() = Role::None;
        self.globals.timers.disarm(self.timer());
        true
    }

    /// What the kernel does not have by now it does not get: peers whose handshake is not over
    /// begin anew. Under the control lock.
    pub(crate) fn give_up_returning(&self) {
        let was = match &mut *self.role.lock() {
            role @ Role::Returning(_) => std::mem::replace(role, Role::None),
            _ => return,
        };
        if let Role::Returning(mut returning) = was {
            returning.listening.abort_all(&self.core, now());
            for interface in returning.listening.interfaces() {
                interface.start_segments();
            }
            let flows = std::mem::take(&mut returning.flows);
            flows
                .iter()
                .for_each(|(interface, flow)| interface.detach(flow));
        }
        self.globals.timers.disarm(self.timer());
    }

    /// Segments of connections that the kernel has by now, or is to make.
    fn give_later_to_kernel(&self, host: &Host<S>) {
        let later = match &mut *self.role.lock() {
            Role::Returning(returning) => std::mem::take(&mut returning.later),
            _ => return,
        };
        if let Some(raw) = host.return_socket() {
            later.iter().for_each(|segment| send_on(raw, segment));
        }
    }

    /// Whether connections are still to be given to the kernel's socket.
    pub(crate) fn is_returning(&self) -> bool {
        matches!(&*self.role.lock(), Role::Returning(_))
    }

    /// The last descriptor is about to be closed. Returns whether connections are still here, for
    /// other processes that have the kernel's socket.
    pub(in crate::tcp) fn returns_as_orphan(&self) -> bool {
        match &mut *self.role.lock() {
            Role::Returning(returning) => {
                returning.is_orphan = true;
                true
            }
            _ => false,
        }
    }

    /// In the internal thread. Returns whether the object is nobody's any more.
    pub(in crate::tcp) fn look_after_return(&self, host: &Host<S>) -> bool {
        let _control = host.control();
        let is_orphan = match &*self.role.lock() {
            Role::Returning(returning) => returning.is_orphan,
            _ => return false,
        };
        self.go_on_returning(host) && is_orphan
    }
}

/// Whether nobody has to be asked for what takes rights.
fn may_administer() -> bool {
    sys::capabilities().is_ok_and(|it| it.effective & 1 << sys::CAP_NET_ADMIN != 0)
}

pub(super) fn flow_of((local, peer): (SocketAddr, SocketAddr)) -> Flow {
    Flow {
        protocol: Protocol::Tcp,
        local,
        peer: Some(peer),
    }
}

/// Whether the queue of the kernel's listening socket takes another connection
/// (`sk_acceptq_is_full`). Yes if that cannot be asked.
pub(super) fn has_room(fd: c_int) -> bool {
    /// Where `struct tcp_info` has the length of that queue (`tcpi_unacked`), and its limit behind
    /// it.
    const QUEUE: usize = 24;
    let mut info = [0; QUEUE + 8];
    let read = streams::option_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    let [.., q0, q1, q2, q3, l0, l1, l2, l3] = info;
    let (queue, limit) = (
        u32::from_ne_bytes([q0, q1, q2, q3]),
        u32::from_ne_bytes([l0, l1, l2, l3]),
    );
    read != Ok(info.len()) || queue <= limit
}

/// Puts a connection into the queue of the kernel's listening socket: the one at `fd`, or another
/// process's.
pub(super) fn admit<S: TcpStack>(
    host: &Host<S>,
    fd: Option<c_int>,
    admission: &dyn Admission,
    stream: Stream<S>,
) {
    let (local, peer) = (stream.local, stream.peer);
    let link = stream.interface.spec().index;
    // Of one that the peer has reset nothing is left.
    let Some(snapshot) = stream.connection.export(now()) else {
        return;
    };
    // An earlier connection of these addresses may be in the kernel still, in TIME-WAIT, and would
    // hide the listener. The peer, which has ended a handshake since, does not know it any more.
    // The broker does that itself for who may not.
    if let Err(error) = host.network().end_connection(local, peer, link)
        && !sys::has_helper_for_options()
    {
        log::warn!("{local}: an earlier connection of {peer} cannot be ended: {error}");
    }
    let agreed = agreed(&snapshot);
    let packets = packets(&snapshot, local, peer);
    let kernel = Kernel {
        network: host.network(),
        raw: host.return_socket(),
        ends: (local, peer),
    };
    let admitted = unbound(fd, || {
        kernel.try_asking()?;
        admission.admit(local, peer, &agreed, &packets, &kernel)
    });
    match admitted {
        Ok(()) => log::debug!("{local}: the connection of {peer} waits in the kernel"),
        Err(error) => log::warn!("{local}: the connection of {peer} is reset: {error}"),
    }
}

/// A listener at a link-local address is bound to an interface, and what comes back to this host
/// comes by another. The connections are bound to theirs all the same.
fn unbound<T>(fd: Option<c_int>, admit: impl FnOnce() -> T) -> T {
    let bound = fd.map(|fd| (fd, sys::bound_device(fd)));
    let Some((fd, device)) = bound.filter(|(_, device)| *device != 0) else {
        return admit();
    };
    streams::bind_to_device(fd, 0);
    let admitted = admit();
    streams::bind_to_device(fd, device);
    admitted
}

/// The kernel, which receives segments of a connection once more.
struct Kernel<'a> {
    network: &'a dyn Network,
    raw: Option<&'a sys::RawSocket>,
    ends: (SocketAddr, SocketAddr),
}

impl Kernel<'_> {
    /// Whether [`has_connection`](ReceivingHost::has_connection) will be true at all: else the
    /// kernel would get a part only.
    fn try_asking(&self) -> std::io::Result<()> {
        let (local, peer) = self.ends;
        match link_of(local, peer) {
            0 => Ok(()),
            _ => self.network.has_connection(local, peer).map(drop),
        }
    }
}

impl ReceivingHost for Kernel<'_> {
    fn receive(&self, packet: &[u8]) -> bool {
        let (local, peer) = self.ends;
        self.raw
            .is_some_and(|raw| raw.send(packet, link_of(local, peer)))
    }

    fn has_connection(&self) -> Option<bool> {
        let (local, peer) = self.ends;
        let has = || self.network.has_connection(local, peer).unwrap_or(false);
        (link_of(local, peer) != 0).then(has)
    }
}

fn agreed(snapshot: &Snapshot<Received>) -> Agreed {
    Agreed {
        peer_mss: snapshot.peer_mss,
        window_scales: snapshot.window_scales.map(|scales| WindowShifts {
            send: scales.snd,
            receive: scales.rcv,
        }),
        has_sack: snapshot.has_sack,
        has_ecn: snapshot.has_ecn,
        timestamps: snapshot.timestamps.map(|timestamps| Clocks {
            ours: timestamps.value,
            peers: timestamps.recent,
        }),
    }
}

/// All that the peer has said, once more.
fn packets(snapshot: &Snapshot<Received>, local: SocketAddr, peer: SocketAddr) -> Vec<Vec<u8>> {
    let pieces = snapshot.unread.iter().map(AsRef::as_ref);
    let unread: Vec<u8> = pieces.collect::<Vec<&[u8]>>().concat();
    let has_fin = snapshot.state.has_peer_fin();
    let before = unread.len() as u32 + u32::from(has_fin);
    let count = unread.len().div_ceil(PART_BYTES).max(1);
    (0..count)
        .filter_map(|index| {
            let start = index * PART_BYTES;
            let end = unread.len().min(start + PART_BYTES);
            let mut flags = Flags::ACK;
            if has_fin && index + 1 == count {
                flags |= Flags::FIN;
            }
            let seq = snapshot.rcv_nxt - before + start as u32;
            let header = peers_header(snapshot, seq, flags);
            packet(local, peer, &header, &unread[start..end])
        })
        .collect()
}
