//! ICMP messages upon which the kernel changes a route and notifies nobody: "fragmentation needed" (RFC 1191) and redirects
//! (RFC 792); and errors about TCP segments, which it ignores if its own socket has not sent them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::{c_int, sock_filter, sock_fprog};

use super::{Errno, check, owned};

/// A raw ICMP socket that receives these only.
#[derive(Debug)]
pub(crate) struct PathNotices {
    fd: OwnDescriptor,
}

const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const REDIRECT: u8 = 5;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

const PROTOCOL_TCP: u8 = 6;

/// Bytes of a message that are looked at: an IPv4 header with all options, the ICMP header, another IPv4 header, the first of TCP's.
const MESSAGE_BYTES: usize = 60 + 8 + 60 + 8;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathNotice {
    /// Of the packet that it quotes.
    pub(crate) destination: Ipv4Addr,
    /// The kernel goes another way to that destination, or sends smaller packets.
    pub(crate) changes_route: bool,
    pub(crate) error: Option<SegmentError>,
}

/// An error about a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentError {
    pub(crate) local: SocketAddrV4,
    pub(crate) peer: SocketAddrV4,
    /// Of the segment.
    pub(crate) seq: u32,
    /// Type and code of the message.
    pub(crate) kind: (u8, u8),
    /// With "fragmentation needed".
    pub(crate) mtu: u16,
}

impl PathNotices {
    /// Opens it with a high number. Needs `CAP_NET_RAW`.
    pub(crate) fn open() -> Result<Self, Errno> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket(2) takes integers.
        let fd = check(unsafe {
            libc::syscall(libc::SYS_socket, libc::AF_INET, kind, libc::IPPROTO_ICMP)
        })?;
        // SAFETY: the kernel has just made it.
        let fd = OwnDescriptor::new(unsafe { owned(fd) });
        filter(&fd)?;
        Ok(Self { fd })
    }

    pub(crate) fn fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    /// What the next message says.
    pub(crate) fn next(&self) -> Option<PathNotice> {
        let mut message = [0; MESSAGE_BYTES];
        loop {
            let (address, len) = (message.as_mut_ptr(), message.len());
            // SAFETY: the kernel writes at most `len` bytes to `message`.
            let received =
                unsafe { libc::syscall(libc::SYS_read, self.fd.as_raw_fd(), address, len) };
            let received = usize::try_from(received).ok()?;
            if let Some(notice) = parse(&message[..received.min(len)]) {
                return Some(notice);
            }
        }
    }
}

/// What an ICMP message in an IPv4 packet says.
fn parse(packet: &[u8]) -> Option<PathNotice> {
    let header_len = usize::from(packet.first()? & 0x0f) * 4;
    let message = packet.get(header_len..)?;
    let &[kind, code, _, _, _, _, mtu_high, mtu_low] = message.first_chunk()?;
    let quoted = message.get(8..)?;
    let destination = address_at(quoted, 16)?;
    if quoted.first()? >> 4 != 4 {
        return None;
    }
    let is_too_big = (kind, code) == (DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED);
    let segment = || {
        let quoted_len = usize::from(quoted.first()? & 0x0f) * 4;
        let &[a, b, c, d, seq @ ..] = quoted.get(quoted_len..)?.first_chunk::<8>()?;
        let is_whole_header = quoted.get(6..8)? == [0, 0] || quoted.get(6..8)? == [0x40, 0];
        (is_whole_header && *quoted.get(9)? == PROTOCOL_TCP && kind != REDIRECT).then_some(
            SegmentError {
                local: SocketAddrV4::new(address_at(quoted, 12)?, u16::from_be_bytes([a, b])),
                peer: SocketAddrV4::new(destination, u16::from_be_bytes([c, d])),
                seq: u32::from_be_bytes(seq),
                kind: (kind, code),
                mtu: u16::from_be_bytes([mtu_high, mtu_low]),
            },
        )
    };
    Some(PathNotice {
        destination,
        changes_route: kind == REDIRECT || is_too_big,
        error: segment(),
    })
}

fn address_at(header: &[u8], offset: usize) -> Option<Ipv4Addr> {
    let address: [u8; 4] = header.get(offset..offset + 4)?.try_into().ok()?;
    Some(address.into())
}

fn filter(fd: &OwnDescriptor) -> Result<(), Errno> {
    const LOAD_X_HEADER_LEN: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
    const LOAD_BYTE_AT_X: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k: u32| sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD_X_HEADER_LEN, 0, 0, 0),
        step(LOAD_BYTE_AT_X, 0, 0, 0),
        step(JUMP_IF_EQUAL, 7, 0, REDIRECT.into()),
        step(JUMP_IF_EQUAL, 0, 2, DESTINATION_UNREACHABLE.into()),
        step(LOAD_BYTE_AT_X, 0, 0, 1),
        step(JUMP_IF_EQUAL, 4, 2, FRAGMENTATION_NEEDED.into()),
        step(JUMP_IF_EQUAL, 1, 0, TIME_EXCEEDED.into()),
        step(JUMP_IF_EQUAL, 0, 3, PARAMETER_PROBLEM.into()),
        // What the quoted packet carries.
        step(LOAD_BYTE_AT_X, 0, 0, 8 + 9),
        step(JUMP_IF_EQUAL, 0, 1, PROTOCOL_TCP.into()),
        step(RETURN, 0, 0, MESSAGE_BYTES as u32),
        step(RETURN, 0, 0, 0),
    ];
    let program = sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program and the steps that it points at.
    check(unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &raw const program,
            size_of::<sock_fprog>(),
        )
    })
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quoted_destination_is_found_behind_any_header() {
        for header_len in [20, 24, 60] {
            let mut packet = vec![0; header_len];
            packet[0] = 0x40 | (header_len / 4) as u8;
            packet.extend([
                DESTINATION_UNREACHABLE,
                FRAGMENTATION_NEEDED,
                0,
                0,
                0,
                0,
                2,
                88,
            ]);
            packet.push(0x45);
            packet.extend([0; 15]);
            packet.extend([192, 0, 2, 7]);
            let expected = PathNotice {
                destination: [192, 0, 2, 7].into(),
                changes_route: true,
                error: None,
            };
            assert_eq!(parse(&packet), Some(expected));
            for len in 0..packet.len() {
                assert_eq!(parse(&packet[..len]), None);
            }
            packet[header_len + 8 + 9] = PROTOCOL_TCP;
            packet[header_len + 8 + 12..][..4].copy_from_slice(&[192, 0, 2, 1]);
            packet.extend([0x10, 0x00, 0x00, 80, 1, 2, 3, 4]);
            let error = SegmentError {
                local: "192.0.2.1:4096".parse().unwrap(),
                peer: "192.0.2.7:80".parse().unwrap(),
                seq: 0x0102_0304,
                kind: (DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED),
                mtu: 600,
            };
            assert_eq!(parse(&packet).unwrap().error, Some(error));
            // A fragment that is not the first has no header of TCP's.
            packet[header_len + 8 + 7] = 1;
            assert_eq!(parse(&packet), Some(expected));
            packet[header_len + 8] = 0x65;
            assert_eq!(parse(&packet), None, "it quotes IPv6");
        }
    }
}
