//! Sockets that are not read: what each may hold, and that it is nobody else's loss.

use std::net::UdpSocket as KernelSocket;
use std::os::fd::AsRawFd;

use crate::support::calls::receive;
use crate::support::device::Device;
use crate::support::host::{Host, POOL_FRAMES, Socket, kernel_socket};
use crate::support::isolation::isolated;
use crate::support::{FIRST_LINK, OUR_IP, PEER};

/// More than a socket with the default buffer holds, whatever their size.
const FLOOD: usize = 600;

/// Polls until the ring is empty, and fails if that does not happen: then no frame was left for the
/// ring.
fn take_all(host: &Host<Device>, socket: &Socket<Device>) {
    let wire = host.device.wire(FIRST_LINK);
    for _ in 0..wire.waiting() + 1 {
        socket.ours().next_len_after_poll();
    }
    assert_eq!(wire.waiting(), 0, "the ring has run dry");
}

fn flood(host: &Host<Device>, socket: &Socket<Device>, len: usize) {
    for _ in 0..FLOOD {
        host.arrives(PEER, socket.at(OUR_IP), &vec![7; len]);
    }
    take_all(host, socket);
}

/// Reads until nothing is left; returns how many datagrams there were, each of this length.
fn drain(socket: &Socket<Device>, len: usize) -> usize {
    std::iter::from_fn(|| receive(socket, libc::MSG_DONTWAIT).ok())
        .inspect(|data| assert_eq!(*data, vec![7; len]))
        .count()
}

/// How many datagrams the kernel's socket holds that is not read.
fn kernel_holds(len: usize, limit: Option<libc::c_int>) -> usize {
    let (socket, address) = kernel_socket("127.0.0.1:0");
    if let Some(limit) = limit {
        let value = (&raw const limit).cast();
        let fd = socket.as_raw_fd();
        // SAFETY: the value is readable for its four bytes.
        let set = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, value, 4) };
        assert_eq!(set, 0);
    }
    let sender = KernelSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..FLOOD {
        sender.send_to(&vec![7; len], address).unwrap();
    }
    socket.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| socket.recv(&mut [0; 2048]).ok()).count()
}

#[test]
fn a_socket_that_is_not_read_holds_what_the_kernels_holds() {
    isolated(|| {
        let host = Host::new();
        for len in [0, 1, 64, 160, 300, 600, 900, 1472] {
            for limit in [None, Some(100_000)] {
                let socket = host.any();
                if let Some(limit) = limit {
                    socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, limit);
                }
                flood(&host, &socket, len);
                let counted = socket.snapshot(&host).unwrap();
                let held = drain(&socket, len);
                let kernels = kernel_holds(len, limit);
                println!("{len} bytes, limit {limit:?}: {held} held, {kernels} by the kernel");
                // Kernels differ a little in what a buffer costs.
                assert!(held.abs_diff(kernels) * 5 <= kernels, "{held} {kernels}");
                assert_eq!(counted.rx_dropped_packets as usize, FLOOD - held);
                assert_eq!(counted.rx_dropped_bytes as usize, (FLOOD - held) * len);
                assert_eq!(counted.rx_queue_packets as usize, held);
                assert_eq!(counted.rx_queue_bytes as usize, held * len);
            }
        }
        assert_eq!(host.free_frames(), u64::from(POOL_FRAMES));
    });
}

#[test]
fn sockets_that_are_not_read_cost_another_nothing() {
    isolated(|| {
        let host = Host::new();
        let unread = [host.any(), host.any(), host.any()];
        let read = host.any();
        for round in 0..FLOOD {
            for socket in &unread {
                host.arrives(PEER, socket.at(OUR_IP), b"\x07");
                host.arrives(PEER, socket.at(OUR_IP), &[7; 1400]);
            }
            let number = round.to_be_bytes();
            host.arrives(PEER, read.at(OUR_IP), &number);
            if round % 10 == 9 {
                take_all(&host, &read);
                for expected in round - 9..=round {
                    let data = receive(&read, libc::MSG_DONTWAIT);
                    assert_eq!(data, Ok(expected.to_be_bytes().to_vec()));
                }
            }
        }
        assert_eq!(read.snapshot(&host).unwrap().rx_dropped_packets, 0);
        // The rings have frames in reserve.
        let free = host.free_frames();
        assert!(free >= u64::from(POOL_FRAMES) / 8, "{free} frames are free");
        for socket in unread {
            let held = socket.snapshot(&host).unwrap().rx_queue_packets;
            // Both kinds in turn, so about half of each.
            assert!(held > 100, "{held}");
        }
        assert_eq!(host.free_frames(), u64::from(POOL_FRAMES));
    });
}

#[test]
fn what_waited_outside_of_the_pool_is_read_like_all_else() {
    isolated(|| {
        let host = Host::new();
        let sockets = [host.any(), host.any()];
        for number in 0..200u8 {
            let mut source = PEER;
            source.set_port(1000 + u16::from(number));
            for socket in &sockets {
                host.arrives(
                    source,
                    socket.at(OUR_IP),
                    &vec![number; usize::from(number)],
                );
                take_all(&host, socket);
            }
        }
        assert!(host.free_frames() > 0);
        for socket in &sockets {
            for number in 0..200u8 {
                assert_eq!(
                    socket.ours().next_len_after_poll(),
                    Some(usize::from(number))
                );
                let mut buffer = [0; 256];
                let mut call = crate::support::calls::Receiving::begin(socket, 0);
                let (outcome, written) = call.attempt_into(&mut [&mut buffer]);
                let len = usize::from(number);
                assert!(
                    matches!(outcome, engine::RecvOutcome::Done(done) if done == len),
                    "{outcome:?}"
                );
                assert_eq!(buffer[..len], vec![number; len]);
                assert_eq!(written.source.unwrap().port(), 1000 + u16::from(number));
            }
        }
        assert_eq!(host.free_frames(), u64::from(POOL_FRAMES));
    });
}
