//! TIME-WAIT is the kernel's: it is cheap there, bounded, outlives the process, and the kernel knows when addresses may be used again.
//!
//! The kernel's socket is brought to FIN-WAIT-1 in silence. The peer's FIN, which ended the connection here and was not acknowledged
//! yet, is then given to it: the kernel acknowledges that, and waits.

use std::os::fd::AsRawFd;

use ::tcp::{Flags, Header, Instant, State};
use libc::c_int;
use wire::tcp::{Options, Timestamps};

use crate::sockets::family::Family;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::sys::Errno;
use crate::sys::streams::{self, RepairQueue};
use crate::tcp::common::now;
use crate::tcp::hand_over::{bind, packet};
use crate::tcp::socket::Role;
use crate::tcp::stream::Stream;
use crate::tcp::{TcpSocket, TcpStack};

/// What becomes of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing was decided. Until then the peer's FIN is not acknowledged.
    #[default]
    Open,
    /// The kernel waits.
    Kernels,
    /// The kernel cannot: the connection does, for as long as somebody has it.
    Here,
}

impl<S: TcpStack> TcpSocket<S> {
    /// In the internal thread: gives a connection in TIME-WAIT to the kernel. Nobody may hold the control lock or the socket's.
    pub(super) fn leave_time_wait(&self, host: &Host<S>) {
        let _control = host.control();
        let reuses = self.attachment().reuses_address();
        // In TIME-WAIT it reports that it has ended.
        self.core.leave_sets();
        let begun = {
            let role = self.role.lock();
            let Role::Stream(stream) = &*role else {
                return;
            };
            if !stream.owes_time_wait() {
                return;
            }
            let copy = stream.orphan.as_ref().and_then(Option::as_ref);
            let fd = copy.map_or_else(|| self.fd(), AsRawFd::as_raw_fd);
            begin(fd, self.family(), stream, reuses, now())
                .map(|fin| (stream.local, stream.peer, fin))
        };
        let is_begun = match begun {
            Ok((local, peer, fin)) => {
                // What comes from here on is for the kernel.
                self.drop_flows();
                let raw = host.return_socket().zip(packet(local, peer, &fin, &[]));
                raw.is_some_and(|(raw, packet)| raw.send(&packet))
            }
            Err(errno) => {
                log::debug!(
                    "fd {}: no TIME-WAIT of the kernel's: errno {}",
                    self.fd(),
                    errno.0
                );
                false
            }
        };
        if let Role::Stream(stream) = &mut *self.role.lock() {
            stream.wait = if is_begun { Wait::Kernels } else { Wait::Here };
        }
    }
}

impl<S: Stack> Stream<S> {
    /// The connection is in TIME-WAIT and was not given to the kernel yet.
    #[inline]
    pub(super) fn owes_time_wait(&self) -> bool {
        self.connection.state() == State::TimeWait && self.wait == Wait::Open
    }
}

/// Brings the kernel's socket to FIN-WAIT-1. Returns the FIN that it lacks.
fn begin<S: TcpStack>(
    fd: c_int,
    family: Family,
    stream: &Stream<S>,
    reuses: bool,
    now: Instant,
) -> Result<Header, Errno> {
    let residue = stream.connection.residue().ok_or(Errno(libc::EINVAL))?;
    let timestamp = residue.timestamp(now);
    streams::disconnect(fd)?;
    streams::set_queue_number(fd, RepairQueue::Receive, (residue.rcv_nxt - 1).0)?;
    streams::set_queue_number(fd, RepairQueue::Send, (residue.snd_nxt - 1).0)?;
    bind(fd, family.form(stream.local))?;
    streams::connect(fd, family.form(stream.peer))?;
    if let Some((value, _)) = timestamp {
        streams::set_tcp_option(fd, libc::TCP_REPAIR_OPTIONS, &TIMESTAMPS_ON)?;
        streams::set_tcp_option(fd, libc::TCP_TIMESTAMP, &value)?;
    }
    // Under repair what goes into this queue counts as sent.
    streams::choose_queue(fd, RepairQueue::Send)?;
    streams::shutdown(fd, libc::SHUT_WR)?;
    streams::repair_ends(fd, false)?;
    if reuses {
        // The repair has changed that.
        let _ = streams::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1);
    }
    Ok(Header {
        seq: (residue.rcv_nxt - 1).0,
        ack: residue.snd_nxt.0,
        flags: Flags::ACK | Flags::FIN,
        window: u16::MAX,
        urgent: 0,
        options: Options {
            timestamps: timestamp.map(|(value, recent)| Timestamps {
                value: recent,
                echo: value,
            }),
            ..Options::default()
        },
    })
}

/// `TCPOPT_TIMESTAMP`, for `TCP_REPAIR_OPTIONS`.
const TIMESTAMPS_ON: [u32; 2] = [8, 0];
