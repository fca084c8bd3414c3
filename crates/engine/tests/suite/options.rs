//! Socket options, one of each effect.

use engine::{Reason, RecvOutcome, Settings};
use vma_config::DeviceTimes;

use crate::support::calls::{Receiving, receive, send_parts};
use crate::support::host::{Host, settings};
use crate::support::isolation::{isolated, with_addresses};
use crate::support::{FIRST_LINK, OUR_IP, PEER};

const SO_RCVMARK: libc::c_int = 75;
const IP_CHECKSUM: libc::c_int = 23;

#[test]
fn options_of_the_kernels_part_change_nothing() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_SNDBUF),
            (libc::SOL_SOCKET, libc::SO_BROADCAST),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::SOL_SOCKET, libc::SO_PRIORITY),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL),
            (libc::IPPROTO_IP, libc::IP_PKTINFO),
            (libc::IPPROTO_IP, libc::IP_RECVERR),
            (libc::IPPROTO_IP, libc::IP_RECVTTL),
            (libc::IPPROTO_UDP, libc::UDP_GRO),
            (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL),
            (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP),
        ] {
            socket.set_option(level, name, 1);
            assert_eq!(socket.reason(), Reason::Offloaded, "{level} {name}");
        }
    });
}

#[test]
fn options_that_need_the_kernel_give_the_socket_back_for_good() {
    isolated(|| {
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_PEEK_OFF),
            (libc::SOL_SOCKET, SO_RCVMARK),
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
            (libc::IPPROTO_IP, IP_CHECKSUM),
            (libc::IPPROTO_UDP, libc::UDP_CORK),
        ] {
            let host = Host::new();
            let socket = host.any();
            socket.set_option(level, name, 1);
            assert_eq!(socket.reason(), Reason::Option, "{level} {name}");
            assert_eq!(host.device.wire(FIRST_LINK).flows(), []);
            let outcome = Receiving::begin(&socket, 0).attempt(&mut [0; 8]);
            assert!(matches!(outcome, RecvOutcome::Kernel));
            socket.set_option(level, name, 0);
            host.engine.network_changed(true);
            assert_eq!(socket.reason(), Reason::Option);
            assert_eq!(host.count_of(Reason::Option), 1);
        }
    });
}

/// Only the kernel has the time that a device has noted; who wants it is not the kernel's where
/// there is none, nor if the operator says so.
#[test]
fn who_is_to_be_told_of_hardware_time_is_the_kernels_where_there_is_any() {
    isolated(|| {
        let flags = libc::SOF_TIMESTAMPING_RAW_HARDWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        for (has_clock, device_times, reason) in [
            (false, DeviceTimes::System, Reason::Offloaded),
            (true, DeviceTimes::Off, Reason::Offloaded),
            (true, DeviceTimes::System, Reason::Option),
        ] {
            let host = Host::with(Settings {
                device_times,
                ..settings()
            });
            if has_clock {
                host.device.set_has_clock();
            }
            let socket = host.any();
            socket.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags.cast_signed());
            assert_eq!(socket.reason(), reason, "{has_clock} {device_times:?}");
        }
    });
}

#[test]
fn the_receive_buffer_limits_the_queue() {
    isolated(|| {
        let host = Host::with(Settings {
            pool_frames: 1024,
            ..settings()
        });
        let socket = host.any();
        socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, 100_000);
        let fill = || {
            let before = socket.snapshot(&host).unwrap().rx_dropped_packets;
            for _ in 0..300 {
                host.arrives(PEER, socket.at(OUR_IP), &[1; 1000]);
            }
            while host.device.wire(FIRST_LINK).waiting() > 0 {
                socket.ours().next_len_after_poll();
            }
            let counted = socket.snapshot(&host).unwrap();
            let kept = std::iter::from_fn(|| receive(&socket, libc::MSG_DONTWAIT).ok()).count();
            assert_eq!(counted.rx_queue_packets, kept as u64);
            assert_eq!(counted.rx_queue_bytes, kept as u64 * 1000);
            assert_eq!(counted.rx_dropped_packets - before, 300 - kept as u64);
            kept
        };
        // The kernel doubles what is asked for, and charges 2304 for each.
        assert_eq!(fill(), 200_000 / 2304);
        socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, 60_000);
        assert_eq!(fill(), 120_000 / 2304);
        assert_eq!(socket.snapshot(&host).unwrap().rx_queue_packets, 0);
    });
}

#[test]
fn a_queue_holds_what_it_is_told_to_hold_at_least() {
    isolated(|| {
        for (least, expected) in [(1 << 30, 1 << 30), (0, 2 * 8192)] {
            let host = Host::with(Settings {
                receive_bytes_min: least,
                ..settings()
            });
            let socket = host.any();
            socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, 8192);
            let limit = host.statistics().sockets().unwrap()[0].rx_queue_bytes_limit;
            assert_eq!(limit, expected);
        }
    });
}

#[test]
fn signal_driven_sockets_are_the_kernels() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        // SAFETY: fcntl with integers.
        let set = unsafe { libc::fcntl(socket.fd(), libc::F_SETFL, libc::O_ASYNC) };
        assert_eq!(set, 0);
        host.engine.status_flags_changed(socket.ours());
        assert_eq!(socket.reason(), Reason::Option);
    });
}

#[test]
fn what_was_queued_before_the_hand_back_is_read_after_it() {
    with_addresses(|| {
        let host = Host::new();
        let socket = host.any();
        let texts: Vec<_> = (0..20u8).map(|number| vec![number; 100]).collect();
        for text in &texts {
            host.arrives(PEER, socket.at(OUR_IP), text);
        }
        assert_eq!(socket.ours().next_len_after_poll(), Some(100));
        socket.set_option(libc::IPPROTO_UDP, libc::UDP_CORK, 1);
        assert_eq!(socket.reason(), Reason::Option);
        for text in &texts {
            let received = receive(&socket, libc::MSG_DONTWAIT);
            assert_eq!(received.as_ref(), Ok(text));
        }
        assert!(receive(&socket, libc::MSG_DONTWAIT).is_err());
        assert_eq!(host.free_frames(), 256);
        let outcome = Receiving::begin(&socket, 0).attempt(&mut [0; 8]);
        assert!(matches!(outcome, RecvOutcome::Kernel));
    });
}

#[test]
fn what_is_handed_back_keeps_its_source() {
    with_addresses(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"from afar");
        socket.ours().next_len_after_poll();
        host.engine.leave_to_kernel(socket.ours(), Reason::Poisoned);
        assert_eq!(socket.reason(), Reason::Poisoned);
        socket.kernel.set_nonblocking(true).unwrap();
        let mut buffer = [0; 16];
        let (len, source) = socket.kernel.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], source), (&b"from afar"[..], PEER.into()));
    });
}

#[test]
fn corked_sends_go_to_the_kernel_for_good() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let to_kernel = engine::SendOutcome::Kernel(Reason::Message);
        let more = send_parts(&socket, Some(PEER), &[b"first half"], libc::MSG_MORE);
        assert_eq!(more, to_kernel);
        let rest = send_parts(&socket, Some(PEER), &[b"second half"], 0);
        assert_eq!(rest, to_kernel);
        assert_eq!(host.device.wire(FIRST_LINK).sent(), None);
    });
}

#[test]
fn the_librarys_own_descriptors_are_known() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let RecvOutcome::Sleep(mut sleep) = Receiving::begin(&socket, 0).attempt(&mut [0; 8])
        else {
            panic!("nothing is there")
        };
        let watched: Vec<u32> = sleep.fds().iter().map(|it| it.fd as u32).collect();
        sleep.end();
        let program = socket.fd() as u32;
        assert!(watched.contains(&program) && watched.len() >= 3);
        let left: Vec<_> = descriptors::own::ranges_without(0, u32::MAX).collect();
        for fd in watched {
            let would_close = left
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&fd));
            assert_eq!(would_close, fd == program, "{fd}");
        }
    });
}
