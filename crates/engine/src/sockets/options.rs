//! What a socket option, a status flag or an ioctl means for an accelerated socket. The kernel's socket has it already.

use libc::c_int;

use crate::sockets::groups;

/// What an option changes on the accelerated path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing, or something that the kernel's socket does for both.
    None,
    /// How much may wait in the receive queue.
    ReceiveLimit,
    /// How long a receive call waits.
    ReceiveTimeout,
    /// Who gets the packets.
    Flows,
    /// What the headers of sent packets say.
    Headers,
    /// How datagrams to groups are sent, which readers of the statistics see, too.
    Multicast,
    /// Which groups' datagrams the socket gets.
    Groups,
    /// Something that only the kernel does.
    Kernel,
}

/// What an option changes.
pub(super) fn effect(level: c_int, name: c_int) -> Effect {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => Effect::ReceiveLimit,
        (libc::SOL_SOCKET, SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW) => Effect::ReceiveTimeout,
        (libc::SOL_SOCKET, libc::SO_REUSEPORT | libc::SO_REUSEADDR) => Effect::Flows,
        (
            libc::SOL_SOCKET,
            libc::SO_DEBUG
            | libc::SO_DONTROUTE
            | libc::SO_BROADCAST
            | libc::SO_SNDBUF
            | libc::SO_SNDBUFFORCE
            | libc::SO_SNDTIMEO
            | libc::SO_KEEPALIVE
            | libc::SO_LINGER
            | libc::SO_RCVLOWAT
            | libc::SO_BUSY_POLL
            | libc::SO_PREFER_BUSY_POLL
            | libc::SO_BUSY_POLL_BUDGET
            | libc::SO_INCOMING_CPU,
        ) => Effect::None,
        (libc::IPPROTO_IP, libc::IP_TTL | libc::IP_TOS | libc::IP_MTU_DISCOVER) => Effect::Headers,
        (
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF | libc::IP_MULTICAST_LOOP | libc::IP_MULTICAST_TTL,
        ) => Effect::Multicast,
        (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL) => Effect::Groups,
        // Memberships are followed by themselves.
        (libc::IPPROTO_IP, name) if groups::changes_membership(name) => Effect::None,
        // The rest brings control data, filters, marks or devices into play.
        _ => Effect::Kernel,
    }
}

/// Whether an option has an effect that only the kernel brings about.
pub(crate) fn needs_kernel(level: c_int, name: c_int) -> bool {
    effect(level, name) == Effect::Kernel
}

const SO_RCVTIMEO_OLD: c_int = 20;
const SO_RCVTIMEO_NEW: c_int = 66;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_a_meaning_here_need_the_kernel() {
        assert_eq!(effect(libc::SOL_SOCKET, libc::SO_TIMESTAMP), Effect::Kernel);
        assert_eq!(
            effect(libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
            Effect::Kernel
        );
        assert_eq!(
            effect(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
            Effect::Kernel
        );
        assert_eq!(effect(libc::IPPROTO_IP, libc::IP_PKTINFO), Effect::Kernel);
        assert_eq!(effect(libc::IPPROTO_UDP, 103), Effect::Kernel);
        assert_eq!(effect(libc::SOL_SOCKET, libc::SO_SNDBUF), Effect::None);
        assert_eq!(
            effect(libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            Effect::ReceiveTimeout
        );
        assert_eq!(effect(libc::IPPROTO_IP, libc::IP_TTL), Effect::Headers);
    }
}
