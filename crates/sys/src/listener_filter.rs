//! What a listening socket of the kernel's refuses: segments that come past the kernel, too.

use std::net::Ipv4Addr;

use libc::{c_int, sock_filter};

use super::streams::set_option;
use super::{Errno, privileged_options};

const LOAD_ABSOLUTE: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const JUMP_IF_NOT_BELOW: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
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

/// Has a socket take no segments that come in by these interfaces to these addresses. With none,
/// all again. Another interface may get those for an address, too: one in the same subnet answers
/// for it (`arp_ignore`). Neither those that begin a connection nor those of connections that wait
/// to be accepted, which the kernel would reset: it does not know them. Segments with options in
/// their IP headers come here only if they begin a connection, which the kernel answers.
///
/// The kernel's connections have the filter that their listener had when they were made: whoever
/// accepts them takes it away.
pub fn set_listener_filter(fd: c_int, ways: &[(u32, Vec<Ipv4Addr>)]) -> Result<(), Errno> {
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
    match set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter) {
        // Some kernels have only the privileged attach filters.
        Err(Errno(libc::EPERM)) => {
            let octets: Vec<u8> = program.iter().flat_map(octets).collect();
            privileged_options::ask(fd, libc::SO_ATTACH_FILTER, &octets)
        }
        set => set,
    }
}

/// An instruction as it lies in memory.
fn octets(instruction: &sock_filter) -> [u8; 8] {
    let sock_filter { code, jt, jf, k } = *instruction;
    let ([a, b], [e, f, g, h]) = (code.to_ne_bytes(), k.to_ne_bytes());
    [a, b, jt, jf, e, f, g, h]
}

fn program(ways: &[(u32, Vec<Ipv4Addr>)]) -> Vec<sock_filter> {
    let accept = instruction(RETURN, u32::MAX);
    let refuse = instruction(RETURN, 0);
    let mut program = vec![
        instruction(LOAD_ABSOLUTE, PROTOCOL),
        skip_if(JUMP_IF_EQUAL, libc::ETH_P_IP as u32),
        accept,
        instruction(LOAD_BYTE_ABSOLUTE, VERSION_AND_IHL),
        skip_if(JUMP_IF_EQUAL, NO_OPTIONS),
        accept,
    ];
    for (index, addresses) in ways {
        let mut block = vec![instruction(LOAD_ABSOLUTE, DESTINATION)];
        for (first, last) in ranges(addresses) {
            if first == last {
                block.extend([skip_unless(JUMP_IF_EQUAL, first), refuse]);
            } else {
                block.extend([
                    skip_if(JUMP_IF_NOT_BELOW, first),
                    // Those that follow are higher.
                    accept,
                    skip_if(JUMP_IF_ABOVE, last),
                    refuse,
                ]);
            }
        }
        block.push(accept);
        program.extend([
            instruction(LOAD_ABSOLUTE, INTERFACE_INDEX),
            skip_if(JUMP_IF_EQUAL, *index),
            instruction(JUMP, block.len() as u32),
        ]);
        program.extend(block);
    }
    program.push(accept);
    program
}

/// Addresses that follow each other, the first and the last of each run, in their order: a host
/// that has hundreds has them so.
fn ranges(addresses: &[Ipv4Addr]) -> Vec<(u32, u32)> {
    let mut numbers: Vec<_> = addresses.iter().map(|it| it.to_bits()).collect();
    numbers.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

const fn instruction(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Skips the next instruction if that is so of the value and `k`.
const fn skip_if(condition: u16, k: u32) -> sock_filter {
    sock_filter {
        jt: 1,
        ..instruction(condition, k)
    }
}

/// The same if it is not.
const fn skip_unless(condition: u16, k: u32) -> sock_filter {
    sock_filter {
        jf: 1,
        ..instruction(condition, k)
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
    use crate::poll_one;

    const LIMIT: Duration = Duration::from_secs(10);
    /// The loopback's interface.
    const LO: u32 = 1;
    /// 127.1.0.0/16
    const LOCALS: u32 = 0x7f01_0000;

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
        set_listener_filter(fd, &[(LO, vec![Ipv4Addr::LOCALHOST])]).unwrap();
        client.write_all(b"x").unwrap();
        let is_there = || poll_one(fd, libc::POLLIN) == Ok(libc::POLLIN);
        assert!(!eventually(Duration::from_millis(50), is_there));
        set_listener_filter(fd, &[]).unwrap();
        // It is sent again.
        assert_eq!(server.read(&mut [0]).unwrap(), 1);
    }

    #[test]
    fn new_connections_are_refused_by_these_ways_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (fd, address) = (listener.as_raw_fd(), listener.local_addr().unwrap());
        set_listener_filter(fd, &[(LO, vec![Ipv4Addr::LOCALHOST])]).unwrap();
        assert!(is_refused(&address));
        set_listener_filter(
            fd,
            &[
                (LO + 1, vec![Ipv4Addr::LOCALHOST]),
                (LO, vec![Ipv4Addr::BROADCAST]),
            ],
        )
        .unwrap();
        assert!(!is_refused(&address));
        set_listener_filter(fd, &[]).unwrap();
        set_listener_filter(fd, &[]).unwrap();
        assert!(!is_refused(&address));
    }

    #[test]
    fn of_many_addresses_these_only_are_refused() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let (fd, port) = (listener.as_raw_fd(), listener.local_addr().unwrap().port());
        // Runs and single ones, more than a jump of a byte goes across.
        let is_one = |host: u32| host % 256 < 100 || host.is_multiple_of(2);
        let hosts = (1..2000).filter(|host| is_one(*host));
        let mut addresses: Vec<_> = hosts
            .map(|host| LOCALS | host)
            .map(Ipv4Addr::from)
            .collect();
        addresses.reverse();
        let ways = [(LO + 1, addresses.clone()), (LO, addresses)];
        set_listener_filter(fd, &ways).unwrap();
        for (host, is_among) in [
            (1, true),
            (99, true),
            (100, true),
            (101, false),
            (255, false),
            (256, true),
            (1998, true),
            (1999, false),
            (2000, false),
        ] {
            let address = (Ipv4Addr::from(LOCALS | host), port).into();
            assert_eq!(is_refused(&address), is_among, "{host}");
        }
    }

    #[test]
    fn addresses_that_follow_each_other_are_one_range() {
        let of = |hosts: &[u32]| ranges(&hosts.iter().map(|it| (*it).into()).collect::<Vec<_>>());
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[5, 3, 4, 9, 4]), [(3, 5), (9, 9)]);
        assert_eq!(
            of(&[u32::MAX, 0, u32::MAX - 1]),
            [(0, 0), (u32::MAX - 1, u32::MAX)]
        );
    }
}
