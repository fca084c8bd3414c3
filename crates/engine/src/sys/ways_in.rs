//! What a listening socket of the kernel's refuses: segments that come past the kernel, too.

use std::net::Ipv4Addr;

use libc::{c_int, sock_filter};

use super::Errno;
use super::streams::set_option;

const LOAD_ABSOLUTE: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// `SKF_AD_OFF + SKF_AD_IFINDEX`
const INTERFACE_INDEX: u32 = (-0x1000_i32 + 8).cast_unsigned();
/// `SKF_AD_OFF + SKF_AD_PROTOCOL`
const PROTOCOL: u32 = (-0x1000_i32).cast_unsigned();
/// `SKF_NET_OFF`, and the destination's place in an IPv4 header.
const DESTINATION: u32 = (-0x10_0000_i32 + 16).cast_unsigned();
const VERSION_AND_IHL: u32 = (-0x10_0000_i32).cast_unsigned();
/// Of a header without options.
const NO_OPTIONS: u32 = 0x45;
const LOAD_BYTE_ABSOLUTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;

/// Has a socket take no segments that come in by these interfaces to these addresses. With none, all again. Another interface may get
/// those for an address, too: one in the same subnet answers for it (`arp_ignore`). Neither those that begin a connection nor those of
/// connections that wait to be accepted, which the kernel would reset: it does not know them. Segments with options in their IP headers
/// come here only if they begin a connection, which the kernel answers.
///
/// The kernel's connections have the filter that their listener had when they were made: whoever accepts them takes it away.
pub(crate) fn refuse_ways_in(fd: c_int, ways: &[(u32, Ipv4Addr)]) -> Result<(), Errno> {
    if ways.is_empty() {
        let detached = set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0);
        return detached.or_else(|errno| match errno {
            // There was none.
            Errno(libc::ENOENT) => Ok(()),
            errno => Err(errno),
        });
    }
    let mut program = program(ways);
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno(libc::EINVAL))?,
        filter: program.as_mut_ptr(),
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

fn program(ways: &[(u32, Ipv4Addr)]) -> Vec<sock_filter> {
    let accept = instruction(RETURN, u32::MAX);
    let mut program = vec![
        instruction(LOAD_ABSOLUTE, PROTOCOL),
        skip_if(libc::ETH_P_IP as u32),
        accept,
    ];
    for (index, address) in ways {
        program.extend([
            instruction(LOAD_ABSOLUTE, INTERFACE_INDEX),
            skip_unless(*index, 5),
            instruction(LOAD_ABSOLUTE, DESTINATION),
            skip_unless(u32::from(*address), 3),
            instruction(LOAD_BYTE_ABSOLUTE, VERSION_AND_IHL),
            skip_unless(NO_OPTIONS, 1),
            instruction(RETURN, 0),
        ]);
    }
    program.push(accept);
    program
}

const fn instruction(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Skips the next instruction if the value is `k`.
const fn skip_if(k: u32) -> sock_filter {
    sock_filter {
        jt: 1,
        ..instruction(JUMP_IF_EQUAL, k)
    }
}

/// Skips `count` instructions unless the value is `k`.
const fn skip_unless(k: u32, count: u8) -> sock_filter {
    sock_filter {
        jf: count,
        ..instruction(JUMP_IF_EQUAL, k)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use testkit::eventually;

    use super::*;
    use crate::sys::poll_one;

    const LIMIT: Duration = Duration::from_secs(10);
    /// The loopback's interface.
    const LO: u32 = 1;

    fn is_refused(address: &SocketAddr) -> bool {
        // The SYN is sent again only after a second.
        TcpStream::connect_timeout(address, Duration::from_millis(300)).is_err()
    }

    #[test]
    fn a_connection_with_the_filter_receives_when_it_is_taken_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(LIMIT)).unwrap();
        let fd = server.as_raw_fd();
        refuse_ways_in(fd, &[(LO, Ipv4Addr::LOCALHOST)]).unwrap();
        client.write_all(b"x").unwrap();
        let is_there = || poll_one(fd, libc::POLLIN) == Ok(libc::POLLIN);
        assert!(!eventually(Duration::from_millis(50), is_there));
        refuse_ways_in(fd, &[]).unwrap();
        // It is sent again.
        assert_eq!(server.read(&mut [0]).unwrap(), 1);
    }

    #[test]
    fn new_connections_are_refused_by_these_ways_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (fd, address) = (listener.as_raw_fd(), listener.local_addr().unwrap());
        refuse_ways_in(fd, &[(LO, Ipv4Addr::LOCALHOST)]).unwrap();
        assert!(is_refused(&address));
        refuse_ways_in(
            fd,
            &[(LO + 1, Ipv4Addr::LOCALHOST), (LO, Ipv4Addr::BROADCAST)],
        )
        .unwrap();
        assert!(!is_refused(&address));
        refuse_ways_in(fd, &[]).unwrap();
        refuse_ways_in(fd, &[]).unwrap();
        assert!(!is_refused(&address));
    }
}
