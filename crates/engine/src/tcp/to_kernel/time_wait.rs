//! TIME-WAIT is the kernel's: it is cheap there, bounded, outlives the process, and the kernel
//! knows when addresses may be used again.
//!
//! The peer's FIN, which ended the connection here, is acknowledged at once: until then the peer's
//! addresses are taken there. The kernel's socket is brought to FIN-WAIT-1 in silence, and that FIN
//! given to it. What the kernel answers must not leave, for to a peer that has forgotten the
//! connection it would be worth a reset, which ends TIME-WAIT ([`streams::lose_packets`]).
//!
//! That costs as much as the rest of a short connection. So it is
//! [bounded](crate::tcp::state::time_wait::Allowance), as the kernel bounds it
//! (`net.ipv4.tcp_max_tw_buckets`): connections beyond that end as soon as both sides have closed.
//! Initial sequence numbers grow with time (RFC 6528), so that a later connection of the same
//! addresses takes nothing old for its own.

use links::family::{Family, link_of};

use ::tcp::{Flags, Header, Instant, SeqNumber, State};
use libc::c_int;
use sys::{Errno, streams};
use wire::tcp::{Options, Timestamps};

use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::sockets::stack::Stack;
use crate::tcp::clock::now;
use crate::tcp::globals::Globals;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::time_wait::Wait;
use crate::tcp::stream::Stream;
use crate::tcp::to_kernel::hand_over::{connect_with, tell};

impl<S: TcpStack> TcpSocket<S> {
    /// In the internal thread: gives a connection in TIME-WAIT to the kernel. Under the control
    /// lock.
    pub(in crate::tcp) fn leave_time_wait(&self, host: &Host<S>) {
        let reuses = self.attachment().reuses_address();
        // In TIME-WAIT it reports that it has ended.
        self.core.leave_sets();
        let begun = {
            let mut role = self.role.lock();
            let Role::Stream(stream) = &mut *role else {
                return;
            };
            if !stream.owes_time_wait() {
                return;
            }
            if !stream.may_wait_in_kernel(self.globals, now()) {
                return;
            }
            let fd = stream.kernels_fd().unwrap_or_else(|| self.fd());
            put(host, fd, self.family(), stream, &[], reuses)
        };
        match begun {
            // What comes from here on is for the kernel.
            Ok(()) => self.drop_flows(),
            Err(errno) => log::debug!(
                "fd {}: no TIME-WAIT of the kernel's: errno {}",
                self.fd(),
                errno.0
            ),
        }
        let is_begun = begun.is_ok();
        if let Role::Stream(stream) = &mut *self.role.lock() {
            stream.wait = if is_begun { Wait::Kernels } else { Wait::Here };
        }
    }
}

impl<S: Stack> Stream<S> {
    /// The connection is in TIME-WAIT and was not given to the kernel yet.
    #[inline]
    pub(in crate::tcp) fn owes_time_wait(&self) -> bool {
        self.connection.state() == State::TimeWait
            && matches!(self.wait, Wait::Open | Wait::Granted)
    }

    /// Decides for one that owes it whether its TIME-WAIT goes to the kernel. Once: what was
    /// granted is not asked for by those that end until the internal thread makes use of it.
    pub(in crate::tcp) fn may_wait_in_kernel(
        &mut self,
        globals: &Globals<S>,
        now: Instant,
    ) -> bool {
        if self.wait == Wait::Open {
            self.wait = if globals.may_wait(now) {
                Wait::Granted
            } else {
                Wait::Here
            };
        }
        self.wait == Wait::Granted
    }
}

/// Brings the kernel's socket to TIME-WAIT, with what nobody has read. The socket is under repair.
/// `reuses`: it has `SO_REUSEADDR`.
pub(in crate::tcp) fn put<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    family: Family,
    stream: &Stream<S>,
    unread: &[Received],
    reuses: bool,
) -> Result<(), Errno> {
    let now = now();
    let residue = stream.connection.residue().ok_or(Errno(libc::EINVAL))?;
    let timestamp = residue.timestamp(now);
    let ends = (family.form(stream.local), family.form(stream.peer));
    streams::disconnect(fd)?;
    let device = Some(stream.device).filter(|it| *it != link_of(stream.local, stream.peer));
    if device.is_some() {
        // What goes by that does not stay on this host.
        streams::bind_to_device(fd, 0);
    }
    streams::lose_packets(fd, stream.peer.is_ipv6(), true)?;
    connect_with(fd, ends, (residue.snd_nxt - 1, residue.rcv_nxt - 1), unread)?;
    if let Some((value, _)) = timestamp {
        streams::set_tcp_option(fd, libc::TCP_REPAIR_OPTIONS, &TIMESTAMPS_ON)?;
        streams::set_tcp_option(fd, libc::TCP_TIMESTAMP, &value)?;
    }
    streams::shutdown(fd, libc::SHUT_WR)?;
    streams::repair_ends(fd, false)?;
    // TIME-WAIT keeps it as it finds it.
    streams::share_port(fd, reuses);
    let header = |seq: SeqNumber, ack: SeqNumber, flags: Flags| Header {
        seq: seq.0,
        ack: ack.0,
        flags: Flags::ACK | flags,
        window: u16::MAX,
        urgent: 0,
        options: Options {
            timestamps: timestamp.map(|(value, recent)| Timestamps {
                value: recent,
                echo: value,
            }),
            ..Options::default()
        },
    };
    let between = (stream.local, stream.peer);
    // Both sides have closed at once, as the kernel sees it (CLOSING): to what ends that nothing is
    // to be said.
    let (first, last) = (residue.rcv_nxt - 1, residue.rcv_nxt);
    let told = tell(
        host,
        between,
        &header(first, residue.snd_nxt - 1, Flags::FIN),
    );
    streams::lose_packets(fd, stream.peer.is_ipv6(), false)?;
    if let Some(device) = device {
        streams::bind_to_device(fd, device);
    }
    let told = told && tell(host, between, &header(last, residue.snd_nxt, Flags::ACK));
    told.then_some(()).ok_or(Errno(libc::EHOSTUNREACH))
}

/// `TCPOPT_TIMESTAMP`, for `TCP_REPAIR_OPTIONS`.
const TIMESTAMPS_ON: [u32; 2] = [8, 0];
