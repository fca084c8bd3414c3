//! What the core knows of what is built on it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use dev_core::Frame;
use links::Receiver;
use links::delivery::{Arrival, Parsed};

use crate::sockets::direct::DirectReceive;
use crate::sockets::host::Host;
use crate::sockets::readiness::Watcher;
use crate::sockets::socket::SocketCore;

/// The kinds of sockets that there are: a value is a socket of any kind, by reference. `AnySocket`
/// is the only implementation.
///
/// A new kind of socket is a variant there and its arms.
pub trait Stack: Receiver {
    /// What a descriptor stands for.
    type Object: Described<Self>;
    /// A socket's place in an epoll set.
    type Place: SocketWatcher;

    /// What it has in common with other kinds.
    fn core(self) -> &'static SocketCore<Self>;

    /// What the socket is ready for, under the lock under which that changes: for who has
    /// registered with its readiness, and would sleep or report nothing if it saw nothing.
    fn look(self) -> u32;

    /// Puts a packet that came past the kernel into the buffers of a call that waits for it, unless
    /// something else is to be read before it: then the call has no result, and the packet is
    /// delivered.
    fn receive_at_once(
        self,
        call: &mut DirectReceive<'_, '_, Self>,
        packet: &Parsed,
        frame: &Frame,
        arrival: Arrival,
    );

    /// Brings flows in line with what the kernel's socket says of itself. Under the control lock.
    /// Returns the interfaces that are to be opened first, without the lock; then nothing was done.
    fn follow_kernel(self, host: &Host<Self>, may_open: MayOpen) -> Vec<u32>;

    /// The same for one multicast group, of which the socket has become a member or is one no
    /// longer. Under the control lock. `false`: more may have changed than that; then nothing was
    /// done.
    fn follow_group(self, host: &Host<Self>, group: IpAddr) -> bool;

    /// The socket is about to lose its flows, and the kernel to get what it has. Under the control
    /// lock.
    fn prepare_hand_over(self, host: &Host<Self>);

    /// Gives what waits in user space to the kernel's socket. What it cannot take stays to be read.
    /// Under the control lock.
    fn hand_over_queue(self, host: &Host<Self>);

    /// A process that memory is shared with has news for the socket in this life. No lock may be
    /// held.
    fn peer_has_news(self, host: &Host<Self>, generation: u32);

    /// The kernel's socket has another `SO_RCVBUF`.
    fn receive_limit_changed(self);

    /// The kernel's socket has other options that the headers of sent packets show.
    fn headers_changed(self);

    /// The kernel's socket has other options that concern every message, on its way in or out.
    fn message_options_changed(self);

    /// The socket has chosen by which rings it sends and receives. No lock is held.
    fn follow_ring_choice(self, host: &Host<Self>);
}

/// Whether interfaces may be opened for a socket that follows the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayOpen {
    /// They may: the caller has to ask again.
    Yes,
    /// They have been, as far as that is possible.
    No,
}

/// What a descriptor stands for.
pub trait Described<S>: Send + Sync + 'static {
    /// The socket, if it is one.
    fn socket(&'static self) -> Option<S>;
}

/// Who watches a socket that may be closed or move to other interfaces.
pub trait SocketWatcher: Watcher + fmt::Debug + Send + Sync + 'static {
    /// The socket receives from other interfaces, perhaps.
    fn interfaces_changed(self: &Arc<Self>);

    /// What the kernel's socket reports is not true from here on, or is again.
    fn silenced(self: &Arc<Self>, is_silent: bool);

    /// Whether sending is possible is not what the kernel's socket reports from here on, or is
    /// again.
    fn room_changed(self: &Arc<Self>);

    /// The kernel's socket is to leave the kernel's set, although it stays open.
    fn leaves_kernel(self: &Arc<Self>);

    /// At which tick the kernel last told what all sockets of the set have to read, if it does so
    /// for this one; else 0.
    fn kernel_told_nsec(&self) -> u64;

    /// The socket has an error since it was last read, of which nobody is woken.
    fn error_is_postponed(self: &Arc<Self>);

    /// The socket is closed.
    fn socket_closed(self: &Arc<Self>);
}
