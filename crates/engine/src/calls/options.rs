//! Options with which the library has more to do than to follow the kernel's socket.

use libc::c_int;
use links::groups::{changes_membership, group_offset, joins};

use crate::sockets::ring_choice::SO_VMA_RING_ALLOC_LOGIC;
use crate::tcp::takes_over_connection;

/// An option of `setsockopt(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOption {
    /// The library's own (`SO_VMA_RING_ALLOC_LOGIC`): the kernel knows of none.
    Rings,
    /// `SO_MAX_PACING_RATE`: a program may say it in VMA's words.
    Rate,
    /// `SO_KEEPALIVE`: a stream keeps its connection alive itself.
    KeepAlive,
    /// The kernel is to have a stream's connection before it sees the option.
    TakesOver,
    /// `IP_MULTICAST_IF`: the kernel does not tell all of it afterwards.
    GroupInterface,
    /// `IPV6_MTU`: the same.
    PacketLen,
    /// The socket joins a group, leaves it, or says whose datagrams it gets.
    Membership(Membership),
    /// None of these.
    Other,
}

/// An option of multicast groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Where its value has the group's address, in bytes.
    pub group_offset: usize,
    /// Of IPv6 or of IPv4.
    pub is_v6: bool,
    /// It makes the socket a member.
    pub joins: bool,
}

impl SetOption {
    #[inline]
    pub fn of(level: c_int, name: c_int) -> Self {
        match (level, name) {
            (libc::SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC) => Self::Rings,
            (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => Self::Rate,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Self::KeepAlive,
            (libc::IPPROTO_IP, libc::IP_MULTICAST_IF) => Self::GroupInterface,
            (libc::IPPROTO_IPV6, libc::IPV6_MTU) => Self::PacketLen,
            _ if takes_over_connection(level, name) => Self::TakesOver,
            _ if changes_membership(level, name) => Self::Membership(Membership {
                group_offset: group_offset(level, name),
                is_v6: level != libc::IPPROTO_IP,
                joins: joins(level, name),
            }),
            _ => Self::Other,
        }
    }
}

/// An option of `getsockopt(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetOption {
    /// `TCP_SAVED_SYN`, which is told once.
    SavedSyn,
    /// `SO_ERROR`: there may be one that the kernel does not know.
    Error,
    /// `SO_MAX_PACING_RATE`: in VMA's words, perhaps.
    Rate,
    /// `SO_MEMINFO`: datagrams that wait in user space count, too.
    Memory,
    /// None of these.
    Other,
}

// include/uapi/asm-generic/socket.h, include/uapi/linux/sock_diag.h
const SO_MEMINFO: c_int = 55;
const SK_MEMINFO_RMEM_ALLOC: usize = 0;
const SK_MEMINFO_DROPS: usize = 8;

impl GetOption {
    #[inline]
    pub fn of(level: c_int, name: c_int) -> Self {
        match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_SAVED_SYN) => Self::SavedSyn,
            (libc::SOL_SOCKET, libc::SO_ERROR) => Self::Error,
            (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => Self::Rate,
            (libc::SOL_SOCKET, SO_MEMINFO) => Self::Memory,
            _ => Self::Other,
        }
    }
}

/// What is added to words of the kernel's answer to `SO_MEMINFO`, by their numbers, if the answer
/// has so many: `charged` bytes that wait in user space, and `lost` datagrams.
pub fn meminfo_additions(
    answer_bytes: usize,
    charged: u32,
    lost: u32,
) -> impl Iterator<Item = (usize, u32)> {
    let all = [(SK_MEMINFO_RMEM_ALLOC, charged), (SK_MEMINFO_DROPS, lost)];
    all.into_iter()
        .filter(move |(index, _)| (index + 1) * size_of::<u32>() <= answer_bytes)
}

#[cfg(test)]
mod tests {
    use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};

    use super::*;

    fn group(group_offset: usize, is_v6: bool, joins: bool) -> SetOption {
        SetOption::Membership(Membership {
            group_offset,
            is_v6,
            joins,
        })
    }

    #[test]
    fn options_to_set_have_a_meaning() {
        for (level, name, expected) in [
            (SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, SetOption::Rings),
            (SOL_SOCKET, libc::SO_KEEPALIVE, SetOption::KeepAlive),
            (SOL_SOCKET, libc::SO_MAX_PACING_RATE, SetOption::Rate),
            (SOL_SOCKET, libc::SO_RCVBUF, SetOption::Other),
            (IPPROTO_TCP, libc::TCP_ULP, SetOption::TakesOver),
            (IPPROTO_TCP, libc::TCP_REPAIR, SetOption::TakesOver),
            (IPPROTO_TCP, libc::TCP_NODELAY, SetOption::Other),
            (IPPROTO_IP, libc::IP_MULTICAST_IF, SetOption::GroupInterface),
            (IPPROTO_IP, libc::IP_TTL, SetOption::Other),
            (IPPROTO_IPV6, libc::IPV6_MTU, SetOption::PacketLen),
            (IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, SetOption::Other),
            (IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, group(0, false, true)),
            (IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, group(0, false, false)),
            (
                IPPROTO_IPV6,
                libc::IPV6_ADD_MEMBERSHIP,
                group(0, true, true),
            ),
            (
                IPPROTO_IPV6,
                libc::IPV6_DROP_MEMBERSHIP,
                group(0, true, false),
            ),
            // `struct group_req`: an interface, padding, and an address behind its family and port.
            (IPPROTO_IP, 42, group(12, false, true)),
            (IPPROTO_IPV6, 42, group(16, true, true)),
            (IPPROTO_IP, 45, group(12, false, false)),
        ] {
            assert_eq!(SetOption::of(level, name), expected, "{level} {name}");
        }
    }

    #[test]
    fn options_to_get_have_a_meaning() {
        for (level, name, expected) in [
            (IPPROTO_TCP, libc::TCP_SAVED_SYN, GetOption::SavedSyn),
            (SOL_SOCKET, libc::SO_ERROR, GetOption::Error),
            (SOL_SOCKET, libc::SO_MAX_PACING_RATE, GetOption::Rate),
            (SOL_SOCKET, 55, GetOption::Memory),
            (IPPROTO_IP, libc::SO_ERROR, GetOption::Other),
            (SOL_SOCKET, libc::SO_TYPE, GetOption::Other),
        ] {
            assert_eq!(GetOption::of(level, name), expected, "{level} {name}");
        }
    }

    #[test]
    fn an_answer_has_as_many_words_as_there_is_room_for() {
        let additions = |bytes| meminfo_additions(bytes, 7, 8).collect::<Vec<_>>();
        assert_eq!(additions(36), [(0, 7), (8, 8)]);
        assert_eq!(additions(35), [(0, 7)]);
        assert_eq!(additions(4), [(0, 7)]);
        assert_eq!(additions(3), []);
    }
}
