//! The engine between the C ABI and the devices: which sockets are ours, what happens in a call on
//! one of them, and when the kernel does it instead.
//!
//! A call never blocks in here. Where the application's call would, the engine answers with a
//! [`Sleep`], and the hook sleeps in a system call of the application's own, with no lock held and
//! nothing to clean up: the thread may be cancelled there.
//!
//! Locks, in this order: control → ring.rx → socket → ring.tx → pool. Sets of epoll, wait queues
//! and tables of rings are leaves.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel's interfaces mix widths; what is cast is bounded by a ring, a message or a system call's result"
)]

pub mod calls;
mod cpu_sharing;
mod engine;
pub mod io_uring;
mod mux;
mod process;
mod sockets;
mod sync;
mod tcp;
mod udp;

pub use crate::tcp::may_accelerate as may_accelerate_streams;
pub use crate::tcp::{
    Accepting, Amount, ConnectOutcome, Direction, FileRange, FileToSend, Pipe, PipeEnd, StreamCall,
    StreamOutcome,
};
pub use dev_core::Allocate;
pub use engine::completions::{Completion, LentPacket, News, ProgramRing};
pub use engine::control::LogControls;
pub use engine::fork::Inherited;
pub use engine::moved_descriptor::OldNumberUsers;
pub use engine::rights::{Whose, goes_with};
pub use engine::{
    AnySocket, Engine, EpollSet, Host, Object, PolledSockets, Shown, TcpSocket, UdpSocket, monitor,
};
pub use links::doorbell::Follows;
pub use links::family::Family;
pub use links::netconf_network::NetconfNetwork;
pub use links::network::{
    FixedNetwork, FlowPorts, InterfaceFacts, KernelConnection, KernelConnections, Network,
    NetworkChange, NextHop, NextHopKey, PortUser, Resolution, RouteMetrics,
};
pub use links::notice::warn_in_a_box;
pub use links::reason::Reason;
pub use links::rings::RingPolicy;
pub use links::settings::{Moderation, Settings};
pub use mux::{MuxCall, MuxOutcome, SelectSets, epoll_has_called_back, epoll_may_be_shared};
pub use process::credentials::{Change as RightsChange, Credentials, UNCHANGED as UNCHANGED_USER};
pub use process::door::ask_for_started_with;
pub use sockets::blocking_call::BlockingCall;
pub use sockets::changes::silence_changes;
pub use sockets::exception::{ExceptionAction, Request};
pub use sockets::message::{DUMMY_SEND, Message};
pub use sockets::options::is_asked_for_later;
pub use sockets::pacing::limit::{RATE_LIMIT_BYTES, RateLimit};
pub use sockets::ring_choice::{PACKET_RING_PROFILE, RING_ASK_BYTES, RingAsk};
pub use sockets::sleep::{Sleep, Woken};
pub use sockets::unseen::{Callback, Verdict};
pub use sockets::zero_copy::{HeldPacket, PacketSink};
pub use sockets::{interrupt, user_memory};
pub use sys::{Errno, ProgramEnd, Sockaddr, do_without, poll_now, tick_nsec, timespec_of_nsec};
pub use udp::{RecvCall, RecvOutcome, RoomOutcome, SendCall, SendOutcome};

/// Reads a socket address; `None` if it is too short or of another family than IPv4 and IPv6.
///
/// # Safety
/// `address` must be readable for `len` bytes, or for those of a `struct sockaddr_in6` if they are
/// fewer.
pub unsafe fn socket_address(
    address: *const libc::c_void,
    len: libc::socklen_t,
) -> Option<std::net::SocketAddr> {
    // SAFETY: the caller's promise.
    unsafe { sys::read_sockaddr(address, len) }
}

/// What the names above are made of: the parts are generic over the kinds of sockets that there are
/// ([`Stack`](parts::Stack)).
pub mod parts {
    pub use crate::mux::epoll::EpollSet;
    pub use crate::mux::poll::PolledSockets;
    pub use crate::mux::{MuxStack, Registration};
    pub use crate::sockets::direct::DirectReceive;
    pub use crate::sockets::host::Host;
    pub use crate::sockets::readiness::Watcher;
    pub use crate::sockets::socket::SocketCore;
    pub use crate::sockets::stack::MayOpen;
    pub use crate::sockets::stack::{Described, SocketWatcher, Stack};
    pub use crate::sockets::unseen::Shown;
    pub use crate::tcp::{TcpSocket, TcpStack};
    pub use crate::udp::{UdpSocket, UdpStack};
    pub use links::delivery::{Arrival, Parsed};
}
