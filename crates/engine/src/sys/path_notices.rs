//! ICMP messages upon which the kernel changes a route and notifies nobody: "fragmentation needed" (RFC 1191) and redirects
//! (RFC 792).

use std::net::Ipv4Addr;
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

/// Bytes of a message that are looked at: an IPv4 header with all options, the ICMP header, an IPv4 header.
const MESSAGE_BYTES: usize = 60 + 8 + 20;

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

    /// The destination that the next message is about.
    pub(crate) fn next(&self) -> Option<Ipv4Addr> {
        let mut message = [0; MESSAGE_BYTES];
        loop {
            let (address, len) = (message.as_mut_ptr(), message.len());
            // SAFETY: the kernel writes at most `len` bytes to `message`.
            let received =
                unsafe { libc::syscall(libc::SYS_read, self.fd.as_raw_fd(), address, len) };
            let received = usize::try_from(received).ok()?;
            if let Some(destination) = destination(&message[..received.min(len)]) {
                return Some(destination);
            }
        }
    }
}

/// Destination of the packet that an ICMP message in an IPv4 packet quotes.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let header_len = usize::from(packet.first()? & 0x0f) * 4;
    let quoted = packet.get(header_len + 8..)?;
    let address: [u8; 4] = quoted.get(16..20)?.try_into().ok()?;
    (quoted.first()? >> 4 == 4).then(|| address.into())
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
        step(JUMP_IF_EQUAL, 3, 0, REDIRECT.into()),
        step(JUMP_IF_EQUAL, 0, 3, DESTINATION_UNREACHABLE.into()),
        step(LOAD_BYTE_AT_X, 0, 0, 1),
        step(JUMP_IF_EQUAL, 0, 1, FRAGMENTATION_NEEDED.into()),
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
            assert_eq!(destination(&packet), Some([192, 0, 2, 7].into()));
            for len in 0..packet.len() {
                assert_eq!(destination(&packet[..len]), None);
            }
            packet[header_len + 8] = 0x65;
            assert_eq!(destination(&packet), None, "it quotes IPv6");
        }
    }
}
