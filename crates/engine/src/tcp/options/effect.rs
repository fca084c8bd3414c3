//! What an option of a TCP socket means in user space.

use libc::c_int;

use crate::sockets::header_options::IPV6_AUTOFLOWLABEL;
use crate::sockets::options::{
    IP_LOCAL_PORT_RANGE, IPV6_ADDRFORM, IPV6_MINHOPCOUNT, SO_BINDTOIFINDEX, SO_BUF_LOCK,
    SO_TXREHASH, needs_nothing_of_ipv6,
};
use crate::sockets::stamps::{SO_TIMESTAMP_NEW, SO_TIMESTAMPING_NEW, SO_TIMESTAMPNS_NEW};

/// What an option means in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing, or something that the kernel's socket does for both.
    None,
    /// Something that the connection does.
    Connection,
    /// How long calls wait.
    Timeout,
    /// Something that a listener does.
    Listener,
    /// What is told of each receive.
    Messages,
    /// Whether it is told when octets came.
    Stamps,
    /// From how far segments may come.
    Hops,
    /// What is kept of the segment that opens a connection.
    SavedSyn,
    /// What the headers of packets say.
    Headers,
    /// Which family the socket is of.
    Family,
    /// Which of several listeners at one address gets a connection.
    Choice,
    /// By which interface packets come and go.
    Device,
    /// Something that only the kernel does.
    Kernel,
}

const SO_RCVTIMEO_OLD: c_int = 20;
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_OLD: c_int = 21;
const SO_SNDTIMEO_NEW: c_int = 67;

pub(super) fn effect(level: c_int, name: c_int) -> Effect {
    match (level, name) {
        (
            libc::SOL_SOCKET,
            SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW | SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW,
        ) => Effect::Timeout,
        (
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE
            | libc::SO_RCVBUF
            | libc::SO_RCVBUFFORCE
            | libc::SO_SNDBUF
            | libc::SO_SNDBUFFORCE
            | libc::SO_RCVLOWAT
            | libc::SO_OOBINLINE
            | SO_MAX_PACING_RATE,
        ) => Effect::Connection,
        (
            libc::SOL_SOCKET,
            libc::SO_DEBUG
            | libc::SO_REUSEADDR
            | libc::SO_BROADCAST
            | libc::SO_LINGER
            | libc::SO_BUSY_POLL
            | libc::SO_PREFER_BUSY_POLL
            | libc::SO_BUSY_POLL_BUDGET
            // Messages with MSG_ZEROCOPY are the kernel's by themselves, and there is no queue of
            // errors.
            | libc::SO_ZEROCOPY
            | libc::SO_SELECT_ERR_QUEUE
            // The size that a program sets counts here, whatever it says of that.
            | SO_BUF_LOCK
            // Of an IPv6 flow label, which stays.
            | SO_TXREHASH
            // Of datagrams.
            | libc::SO_NO_CHECK
            | libc::SO_RXQ_OVFL,
        ) => Effect::None,
        // The kernel's socket chooses the port, and checks the address.
        (
            libc::IPPROTO_IP,
            libc::IP_FREEBIND | libc::IP_BIND_ADDRESS_NO_PORT | IP_LOCAL_PORT_RANGE,
        )
        | (libc::IPPROTO_IPV6, IPV6_FREEBIND) => Effect::None,
        // What comes with datagrams.
        (
            libc::IPPROTO_IP,
            libc::IP_PKTINFO
            | libc::IP_RECVTTL
            | libc::IP_RECVTOS
            | libc::IP_RECVOPTS
            | libc::IP_RETOPTS
            | libc::IP_RECVORIGDSTADDR
            | libc::IP_MULTICAST_LOOP
            | libc::IP_MULTICAST_ALL,
        ) => Effect::None,
        (libc::SOL_SOCKET, libc::SO_REUSEPORT | libc::SO_INCOMING_CPU) => Effect::Choice,
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX) => Effect::Device,
        (libc::IPPROTO_IP, libc::IP_TTL | libc::IP_TOS | libc::IP_MTU_DISCOVER)
        | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS | libc::IPV6_TCLASS | IPV6_AUTOFLOWLABEL) => {
            Effect::Headers
        }
        (
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY
            | libc::TCP_CORK
            | libc::TCP_QUICKACK
            | libc::TCP_KEEPIDLE
            | libc::TCP_KEEPINTVL
            | libc::TCP_KEEPCNT
            | libc::TCP_USER_TIMEOUT
            | libc::TCP_MAXSEG
            | libc::TCP_WINDOW_CLAMP
            | libc::TCP_NOTSENT_LOWAT
            | libc::TCP_SYNCNT
            | libc::TCP_LINGER2
            | libc::TCP_CONGESTION,
        )
        | (libc::IPPROTO_IP, libc::IP_RECVERR)
        | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => Effect::Connection,
        (libc::IPPROTO_TCP, TCP_INQ) => Effect::Messages,
        (
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMP
            | libc::SO_TIMESTAMPNS
            | libc::SO_TIMESTAMPING
            | SO_TIMESTAMP_NEW
            | SO_TIMESTAMPNS_NEW
            | SO_TIMESTAMPING_NEW,
        ) => Effect::Stamps,
        (libc::IPPROTO_TCP, libc::TCP_SAVE_SYN) => Effect::SavedSyn,
        (libc::IPPROTO_IP, libc::IP_MINTTL) | (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT) => {
            Effect::Hops
        }
        // Of a listener's kernel socket.
        (libc::SOL_SOCKET, libc::SO_PRIORITY) => Effect::None,
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => Effect::Listener,
        (libc::IPPROTO_IPV6, IPV6_ADDRFORM) => Effect::Family,
        (
            libc::IPPROTO_IPV6,
            IPV6_2292PKTINFO
            | libc::IPV6_RECVPKTINFO
            | IPV6_2292HOPLIMIT
            | libc::IPV6_RECVHOPLIMIT
            | libc::IPV6_RECVTCLASS,
        ) => Effect::None,
        (libc::IPPROTO_IPV6, name) if needs_nothing_of_ipv6(name) => Effect::None,
        _ => Effect::Kernel,
    }
}

/// Whether an option puts something else in the place of what the kernel's socket does with its
/// connection, or shows it what that has: a protocol above it (kTLS), repair.
pub(crate) fn takes_over_connection(level: c_int, name: c_int) -> bool {
    level == libc::IPPROTO_TCP && matches!(name, libc::TCP_ULP | libc::TCP_REPAIR)
}

pub(super) const SO_MAX_PACING_RATE: c_int = 47;
/// What comes with datagrams.
const IPV6_2292PKTINFO: c_int = 2;
const IPV6_2292HOPLIMIT: c_int = 8;
const IPV6_FREEBIND: c_int = 78;
/// How much is left to read, and the kind of the item that says so (`TCP_CM_INQ`).
pub(crate) const TCP_INQ: c_int = 36;
