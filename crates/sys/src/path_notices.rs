//! ICMP messages upon which the kernel changes a route and notifies nobody: "fragmentation needed"
//! (RFC 1191) or "packet too big" (RFC 4443) and redirects (RFC 792, RFC 4861); and errors about
//! TCP segments, which it ignores if its own socket has not sent them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::{c_int, sock_filter, sock_fprog};

use super::{Errno, check, owned};

/// Raw sockets for ICMP and ICMPv6 that receive these only.
#[derive(Debug)]
pub struct PathNotices {
    v4: OwnDescriptor,
    /// `None`: the kernel has no IPv6.
    v6: Option<OwnDescriptor>,
}

const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const REDIRECT: u8 = 5;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

const V6_DESTINATION_UNREACHABLE: u8 = 1;
const V6_PACKET_TOO_BIG: u8 = 2;
const V6_TIME_EXCEEDED: u8 = 3;
const V6_PARAMETER_PROBLEM: u8 = 4;
const V6_REDIRECT: u8 = 137;

const PROTOCOL_TCP: u8 = 6;

/// Bytes of a message that are looked at: an IPv4 header with all options, the ICMP header, another
/// IPv4 header, the first of TCP's.
const MESSAGE_BYTES: usize = 60 + 8 + 60 + 8;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNotice {
    /// Of the packet that it quotes.
    pub destination: IpAddr,
    /// The kernel goes another way to that destination, or sends smaller packets.
    pub changes_route: bool,
    pub error: Option<SegmentError>,
}

/// An error about a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentError {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// The interface that these are on if they are link-local: of such only hosts of that link say
    /// anything, and this one itself. 0: the message does not tell.
    pub link_index: u32,
    /// Of the segment.
    pub seq: u32,
    /// Of its packet when the message was sent.
    pub hops_left: u8,
    /// Type and code of the message, as the version of the addresses numbers them.
    pub kind: (u8, u8),
    /// With "fragmentation needed" and "packet too big".
    pub mtu: u32,
}

impl PathNotice {
    /// The destination as a route.
    pub fn route(&self) -> (IpAddr, u8) {
        let prefix_len = if self.destination.is_ipv4() { 32 } else { 128 };
        (self.destination, prefix_len)
    }
}

impl PathNotices {
    /// Opens them with high numbers. Needs `CAP_NET_RAW`.
    pub fn open() -> Result<Self, Errno> {
        let v4 = raw(libc::AF_INET, libc::IPPROTO_ICMP, &mut filter_v4())?;
        let v6 = raw(libc::AF_INET6, libc::IPPROTO_ICMPV6, &mut filter_v6());
        Ok(Self { v4, v6: v6.ok() })
    }

    pub fn fds(&self) -> impl Iterator<Item = c_int> {
        std::iter::once(&self.v4)
            .chain(&self.v6)
            .map(AsRawFd::as_raw_fd)
    }

    /// What the next message says.
    pub fn next(&self) -> Option<PathNotice> {
        let v6 = self.v6.as_ref();
        next_of(&self.v4, |packet, _| parse(packet)).or_else(|| next_of(v6?, parse_v6))
    }
}

/// `parse` is given a message, and the interface that its sender is on if that has a link-local
/// address, else 0.
fn next_of(
    fd: &OwnDescriptor,
    parse: impl Fn(&[u8], u32) -> Option<PathNotice>,
) -> Option<PathNotice> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let (buffer, len) = (message.as_mut_ptr(), message.len());
        // SAFETY: all-zero is a value of this struct of integers.
        let mut sender: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        let mut sender_len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `message` and `sender_len` to `sender`.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                fd.as_raw_fd(),
                buffer,
                len,
                0,
                &raw mut sender,
                &raw mut sender_len,
            )
        };
        let received = usize::try_from(received).ok()?;
        if let Some(notice) = parse(&message[..received.min(len)], sender.sin6_scope_id) {
            return Some(notice);
        }
    }
}

/// What an ICMPv6 message says, which comes without the header of its packet.
fn parse_v6(message: &[u8], link_index: u32) -> Option<PathNotice> {
    let address = |at: usize| Some(IpAddr::from(*message.get(at..)?.first_chunk::<16>()?));
    let &[kind, code, _, _, mtu @ ..] = message.first_chunk::<8>()?;
    if kind == V6_REDIRECT {
        // Of the message itself, behind the target.
        return Some(PathNotice {
            destination: address(24)?,
            changes_route: true,
            error: None,
        });
    }
    let quoted = message.get(8..)?;
    let destination = address(8 + 24)?;
    if quoted.first()? >> 4 != 6 {
        return None;
    }
    let segment = || {
        let &[a, b, c, d, seq @ ..] = quoted.get(40..)?.first_chunk::<8>()?;
        (*quoted.get(6)? == PROTOCOL_TCP).then_some(SegmentError {
            local: SocketAddr::new(address(8 + 8)?, u16::from_be_bytes([a, b])),
            peer: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
            link_index,
            seq: u32::from_be_bytes(seq),
            hops_left: *quoted.get(7)?,
            kind: (kind, code),
            mtu: u32::from_be_bytes(mtu),
        })
    };
    Some(PathNotice {
        destination,
        changes_route: kind == V6_PACKET_TOO_BIG,
        error: segment(),
    })
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
                local: SocketAddr::new(address_at(quoted, 12)?, u16::from_be_bytes([a, b])),
                peer: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
                link_index: 0,
                seq: u32::from_be_bytes(seq),
                hops_left: *quoted.get(8)?,
                kind: (kind, code),
                mtu: u16::from_be_bytes([mtu_high, mtu_low]).into(),
            },
        )
    };
    Some(PathNotice {
        destination,
        changes_route: kind == REDIRECT || is_too_big,
        error: segment(),
    })
}

fn address_at(header: &[u8], offset: usize) -> Option<IpAddr> {
    let address: [u8; 4] = header.get(offset..offset + 4)?.try_into().ok()?;
    Some(address.into())
}

const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn filter_v6() -> [sock_filter; 10] {
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    [
        step(LOAD_BYTE, 0, 0, 0),
        step(JUMP_IF_EQUAL, 6, 0, V6_REDIRECT as u32),
        step(JUMP_IF_EQUAL, 5, 0, V6_PACKET_TOO_BIG as u32),
        step(JUMP_IF_EQUAL, 2, 0, V6_DESTINATION_UNREACHABLE as u32),
        step(JUMP_IF_EQUAL, 1, 0, V6_TIME_EXCEEDED as u32),
        step(JUMP_IF_EQUAL, 0, 3, V6_PARAMETER_PROBLEM as u32),
        // What the quoted packet carries.
        step(LOAD_BYTE, 0, 0, 8 + 6),
        step(JUMP_IF_EQUAL, 0, 1, PROTOCOL_TCP as u32),
        step(RETURN, 0, 0, MESSAGE_BYTES as u32),
        step(RETURN, 0, 0, 0),
    ]
}

fn filter_v4() -> [sock_filter; 12] {
    const LOAD_X_HEADER_LEN: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
    const LOAD_BYTE_AT_X: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
    [
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
    ]
}

/// A raw socket that receives what passes the filter.
fn raw(
    domain: c_int,
    protocol: c_int,
    program: &mut [sock_filter],
) -> Result<OwnDescriptor, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket(2) takes integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) })?;
    // SAFETY: the kernel has just made it.
    let fd = OwnDescriptor::new(unsafe { owned(fd) });
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
    })?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_icmpv6_quote_ipv6() {
        let ip = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut message = vec![V6_PACKET_TOO_BIG, 0, 0, 0, 0, 0, 5, 0];
        message.extend([0x60, 0, 0, 0, 0, 20, PROTOCOL_TCP, 64]);
        message.extend(ip("2001:db8::1"));
        message.extend(ip("2001:db8::7"));
        for len in 0..message.len() {
            assert_eq!(parse_v6(&message[..len], 3), None);
        }
        message.extend([0x10, 0x00, 0x00, 80, 1, 2, 3, 4]);
        let error = SegmentError {
            local: "[2001:db8::1]:4096".parse().unwrap(),
            peer: "[2001:db8::7]:80".parse().unwrap(),
            link_index: 3,
            seq: 0x0102_0304,
            hops_left: 64,
            kind: (V6_PACKET_TOO_BIG, 0),
            mtu: 1280,
        };
        let expected = PathNotice {
            destination: "2001:db8::7".parse().unwrap(),
            changes_route: true,
            error: Some(error),
        };
        assert_eq!(parse_v6(&message, 3), Some(expected));
        // An extension header.
        message[8 + 6] = 44;
        let parsed = parse_v6(&message, 3).unwrap();
        assert_eq!((parsed.changes_route, parsed.error), (true, None));
        message[8] = 0x45;
        assert_eq!(parse_v6(&message, 3), None, "it quotes IPv4");
        let mut redirect = vec![V6_REDIRECT, 0, 0, 0, 0, 0, 0, 0];
        redirect.extend(ip("fe80::9"));
        redirect.extend(ip("2001:db8::7"));
        let parsed = parse_v6(&redirect, 3).unwrap();
        assert_eq!(
            (parsed.destination, parsed.error),
            (expected.destination, None)
        );
        assert!(parsed.changes_route);
    }

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
                destination: "192.0.2.7".parse().unwrap(),
                changes_route: true,
                error: None,
            };
            assert_eq!(parse(&packet), Some(expected));
            for len in 0..packet.len() {
                assert_eq!(parse(&packet[..len]), None);
            }
            packet[header_len + 8 + 8] = 63;
            packet[header_len + 8 + 9] = PROTOCOL_TCP;
            packet[header_len + 8 + 12..][..4].copy_from_slice(&[192, 0, 2, 1]);
            packet.extend([0x10, 0x00, 0x00, 80, 1, 2, 3, 4]);
            let error = SegmentError {
                local: "192.0.2.1:4096".parse().unwrap(),
                peer: "192.0.2.7:80".parse().unwrap(),
                link_index: 0,
                seq: 0x0102_0304,
                hops_left: 63,
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
