//! What receive calls return, from whichever side the datagrams come.

use std::net::Ipv4Addr;

use engine::{Errno, RecvOutcome, Settings};

use crate::support::calls::{Receiving, header, last_errno, part, receive};
use crate::support::host::{Host, kernel_socket, settings};
use crate::support::isolation::isolated;
use crate::support::{OUR_IP, PEER};

const AGAIN: Errno = Errno(libc::EAGAIN);

#[test]
fn datagrams_come_in_order_with_their_sources() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        for number in 0..40u8 {
            let mut peer = PEER;
            peer.set_port(1000 + u16::from(number));
            host.arrives(peer, socket.at(OUR_IP), &[number; 3]);
        }
        for number in 0..40u8 {
            let mut buffer = [0; 8];
            let mut call = Receiving::begin(&socket, libc::MSG_DONTWAIT);
            let (outcome, written) = call.attempt_into(&mut [&mut buffer]);
            assert!(matches!(outcome, RecvOutcome::Done(3)), "{outcome:?}");
            assert_eq!(buffer[..4], [number, number, number, 0]);
            assert_eq!(written.source.unwrap().port(), 1000 + u16::from(number));
            assert_eq!((written.name_len, written.flags), (16, 0));
        }
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
    });
}

#[test]
fn a_receive_that_finds_data_looks_at_the_ring_as_often_as_asked() {
    isolated(|| {
        let minute = 60_000_000_000;
        for (rx_drain_nsec, left) in [(0, [1, 2, 3]), (1, [0, 0, 0]), (minute, [0, 1, 2])] {
            let host = Host::with(Settings {
                rx_drain_nsec,
                ..settings()
            });
            let socket = host.any();
            let wire = host.device.wire(crate::support::FIRST_LINK);
            let arrives = || host.arrives(PEER, socket.at(OUR_IP), b"x");
            (0..3).for_each(|_| arrives());
            assert_eq!(socket.ours().next_len_after_poll(), Some(1));
            let seen = [(); 3].map(|()| {
                arrives();
                assert_eq!(receive(&socket, 0), Ok(b"x".to_vec()));
                wire.waiting()
            });
            assert_eq!(seen, left, "{rx_drain_nsec}");
        }
    });
}

#[test]
fn an_empty_datagram_is_a_datagram() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"");
        assert_eq!(socket.ours().next_len_after_poll(), Some(0));
        assert_eq!(receive(&socket, 0), Ok(Vec::new()));
        assert_eq!(socket.ours().next_len_after_poll(), None);
    });
}

#[test]
fn peek_leaves_and_trunc_tells_the_length() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"0123456789");
        let attempt = |flags, room| {
            let mut buffer = vec![0; room];
            let mut call = Receiving::begin(&socket, flags);
            let (outcome, written) = call.attempt_into(&mut [&mut buffer]);
            let RecvOutcome::Done(len) = outcome else {
                panic!("{outcome:?}")
            };
            (len, written.flags, buffer)
        };
        let cut = b"0123".to_vec();
        let peek = libc::MSG_PEEK;
        assert_eq!(attempt(peek, 4), (4, libc::MSG_TRUNC, cut.clone()));
        assert_eq!(
            attempt(peek | libc::MSG_TRUNC, 4),
            (10, libc::MSG_TRUNC, cut.clone())
        );
        assert_eq!(attempt(peek, 10).1, 0);
        assert_eq!(socket.snapshot(&host).unwrap().rx_packets, 0);
        assert_eq!(
            attempt(libc::MSG_TRUNC, 4),
            (10, libc::MSG_TRUNC, cut.clone())
        );
        // What was cut off is gone.
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
        host.arrives(PEER, socket.at(OUR_IP), b"0123456789");
        assert_eq!(attempt(0, 4), (4, libc::MSG_TRUNC, cut));
        let counted = socket.snapshot(&host).unwrap();
        assert_eq!((counted.rx_packets, counted.rx_bytes), (2, 20));
    });
}

#[test]
fn a_datagram_is_scattered_over_buffers() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"abcdefgh");
        let (mut first, mut none, mut second, mut third) = ([0; 3], [0; 0], [0; 1], [0; 9]);
        let mut call = Receiving::begin(&socket, 0);
        let buffers = &mut [&mut first[..], &mut none, &mut second, &mut third];
        let (outcome, written) = call.attempt_into(buffers);
        assert!(matches!(outcome, RecvOutcome::Done(8)), "{outcome:?}");
        assert_eq!(written.flags, 0);
        assert_eq!((&first, &second), (b"abc", b"d"));
        assert_eq!(&third[..5], b"efgh\0");
    });
}

#[test]
fn the_name_is_optional_and_cut_to_its_room() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        for _ in 0..2 {
            host.arrives(PEER, socket.at(OUR_IP), b"x");
        }
        let (mut buffer, mut name) = ([0; 8], [0xee_u8; 16]);
        let mut parts = [part(&mut buffer)];
        let mut without = header(&mut parts);
        without.msg_namelen = 77;
        let mut call = Receiving::begin(&socket, 0);
        assert!(matches!(
            call.attempt_with(&mut without),
            RecvOutcome::Done(1)
        ));
        // As in the kernel: no name, no word about it.
        assert_eq!(without.msg_namelen, 77);
        let mut short = header(&mut parts);
        short.msg_name = name.as_mut_ptr().cast();
        short.msg_namelen = 4;
        let mut call = Receiving::begin(&socket, 0);
        assert!(matches!(
            call.attempt_with(&mut short),
            RecvOutcome::Done(1)
        ));
        assert_eq!(short.msg_namelen, 16, "the length that there was");
        assert_eq!(name[2..4], PEER.port().to_be_bytes());
        assert_eq!(name[4..], [0xee; 12]);
    });
}

#[test]
fn a_small_buffer_is_one_of_64_kib() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, 1);
        for _ in 0..70 {
            host.arrives(PEER, socket.at(OUR_IP), &[7; 1000]);
        }
        assert_eq!(socket.ours().next_len_after_poll(), Some(1000));
        let counted = socket.snapshot(&host).unwrap();
        // A datagram of 1000 bytes is charged 2304.
        let held = 65_536 / 2304;
        assert_eq!(counted.rx_dropped_packets, 70 - held);
        assert_eq!(counted.rx_dropped_bytes, (70 - held) * 1000);
        assert_eq!(counted.rx_queue_packets_max, held);
        let drain = || std::iter::from_fn(|| receive(&socket, libc::MSG_DONTWAIT).ok()).count();
        assert_eq!(drain() as u64, held);
        assert_eq!(host.free_frames(), 256);
    });
}

#[test]
fn frames_that_are_not_for_a_socket_go_back_to_the_pool() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(crate::support::FIRST_LINK);
        let good = crate::support::frame(PEER, socket.at(OUR_IP), b"good");
        let mut wrong_sum = good.clone();
        *wrong_sum.last_mut().unwrap() ^= 1;
        let mut fragment = good.clone();
        fragment[20] |= 0x20;
        let mut elsewhere = socket.at(OUR_IP);
        elsewhere.set_port(socket.port() ^ 1);
        wire.inject(wrong_sum);
        wire.inject(fragment);
        wire.inject(good[..30].to_vec());
        wire.inject(Vec::new());
        host.arrives(PEER, elsewhere, b"stray");
        wire.inject(good);
        assert_eq!(receive(&socket, 0), Ok(b"good".to_vec()));
        let ring = &host.statistics().rings().unwrap()[0];
        assert_eq!(ring.rx_packets, 6);
        assert_eq!(ring.rx_dropped_checksum, 1);
        assert_eq!(ring.rx_dropped_malformed, 3);
        assert_eq!(ring.rx_dropped_no_socket, 1);
        assert_eq!(host.free_frames(), 256);
    });
}

#[test]
fn a_bad_iovec_fails_as_in_the_kernel_and_costs_no_datagram() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"stays");
        assert_eq!(socket.ours().next_len_after_poll(), Some(5));
        let mut buffer = [0; 8];
        let mut parts = vec![part(&mut buffer); 1025];
        let fails = |header: &mut libc::msghdr| {
            let mut call = Receiving::begin(&socket, libc::MSG_DONTWAIT);
            match call.attempt_with(header) {
                RecvOutcome::Fail(Errno(errno)) => errno,
                // The kernel's own recvmsg then says what it thinks of the header.
                RecvOutcome::Kernel => {
                    // SAFETY: what the header points at is live, or refused by the kernel.
                    let len = unsafe { libc::recvmsg(socket.fd(), header, libc::MSG_DONTWAIT) };
                    assert_eq!(len, -1);
                    last_errno().0
                }
                other => panic!("{other:?}"),
            }
        };
        let mut many = header(&mut parts);
        assert_eq!(fails(&mut many), libc::EMSGSIZE);
        let mut null = header(&mut parts[..1]);
        null.msg_iov = std::ptr::null_mut();
        assert_eq!(fails(&mut null), libc::EFAULT);
        // None of these can be the program's. The kernel sees that before it looks for a datagram,
        // even if it needs no such buffer.
        for (start, len) in [
            (usize::MAX - 100, 10),
            (1 << 63, 0),
            (8, usize::MAX / 2),
            (8, usize::MAX),
        ] {
            let mut parts = [part(&mut buffer); 2];
            parts[1].iov_base = std::ptr::without_provenance_mut(start);
            parts[1].iov_len = len;
            let errno = fails(&mut header(&mut parts));
            let is_negative = len > usize::MAX / 2;
            let refused = if is_negative {
                libc::EINVAL
            } else {
                libc::EFAULT
            };
            assert_eq!(errno, refused, "{len} bytes at {start:#x}");
        }
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Ok(b"stays".to_vec()));
    });
}

#[test]
fn a_list_of_buffers_may_be_anywhere() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"datagram");
        let (mut buffer, mut list) = ([0; 8], [part(&mut []); 3]);
        let place = (&raw mut list).cast::<u8>().wrapping_add(1);
        let place = place.cast::<libc::iovec>();
        for (index, half) in buffer.chunks_mut(4).enumerate() {
            // SAFETY: two entries and a byte fit into the list.
            unsafe { place.wrapping_add(index).write_unaligned(part(half)) };
        }
        let mut header = header(&mut []);
        (header.msg_iov, header.msg_iovlen) = (place, 2);
        let mut call = Receiving::begin(&socket, 0);
        let outcome = call.attempt_with(&mut header);
        assert!(matches!(outcome, RecvOutcome::Done(8)), "{outcome:?}");
        assert_eq!(&buffer, b"datagram");
    });
}

#[test]
fn a_null_buffer_costs_the_datagram_as_in_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"lost");
        let mut part = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 4,
        }];
        let mut call = Receiving::begin(&socket, 0);
        let outcome = call.attempt_with(&mut header(&mut part));
        assert!(
            matches!(outcome, RecvOutcome::Fail(Errno(libc::EFAULT))),
            "{outcome:?}"
        );
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
        assert_eq!(socket.snapshot(&host).unwrap().rx_errors, 1);
        assert_eq!(host.free_frames(), 256);
    });
}

#[test]
fn calls_that_only_the_kernel_can_serve_are_left_to_it() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        let outcome = |flags| Receiving::begin(&socket, flags).attempt(&mut [0; 8]);
        assert!(matches!(outcome(libc::MSG_ERRQUEUE), RecvOutcome::Kernel));
        // The kernel's UDP does not look at them.
        let harmless = libc::MSG_NOSIGNAL
            | libc::MSG_WAITALL
            | libc::MSG_CMSG_CLOEXEC
            | libc::MSG_OOB
            | libc::MSG_MORE;
        assert!(matches!(outcome(harmless), RecvOutcome::Done(1)));
        // A kernel's datagram in several buffers, for comparison with the scattered one above.
        let (peer, _) = kernel_socket("127.0.0.1:0");
        peer.send_to(b"abcdefgh", socket.at(Ipv4Addr::LOCALHOST))
            .unwrap();
        let (mut first, mut second) = ([0; 3], [0; 8]);
        let mut call = Receiving::begin(&socket, 0);
        let buffers = &mut [&mut first[..], &mut second];
        let (result, written) = loop {
            match call.attempt_into(buffers) {
                (RecvOutcome::Sleep(sleep), _) => {
                    crate::support::calls::sleep_until_woken(sleep);
                }
                other => break other,
            }
        };
        assert!(matches!(result, RecvOutcome::Done(8)), "{result:?}");
        assert_eq!((&first, &second[..5]), (b"abc", &b"defgh"[..]));
        assert_eq!(written.source.unwrap().ip(), &Ipv4Addr::LOCALHOST);
    });
}
