//! What send calls put on the wire, and what they leave to the kernel.

use std::net::{Ipv4Addr, SocketAddrV4};

use dev_core::null::NullBackend;
use engine::{NextHop, Reason, SendOutcome, Settings};
use wire::ip::Endpoints;
use wire::{ChecksumPolicy, parse_udp4};

use crate::support::calls::{header, send, send_followed, send_header, send_parts};
use crate::support::host::{Host, settings};
use crate::support::isolation::{isolated, with_addresses};
use crate::support::network::through;
use crate::support::{FIRST_LINK, OUR_IP, OUR_MAC, PEER, PEER_MAC};

pub(crate) fn null_host() -> Host<NullBackend> {
    let backend = NullBackend::default();
    backend.keep_sent();
    Host::with_backend(settings(), backend, 8)
}

/// A frame that the null device has sent, parsed: source, destination, payload, and the frame.
pub(crate) fn parsed(bytes: Option<Vec<u8>>) -> (SocketAddrV4, SocketAddrV4, Vec<u8>, Vec<u8>) {
    let bytes = bytes.unwrap();
    let datagram = parse_udp4(&bytes, ChecksumPolicy::Verify).unwrap();
    let start = usize::from(datagram.payload_offset);
    let payload = bytes[start..start + usize::from(datagram.payload_len)].to_vec();
    let Endpoints::V4 {
        source,
        destination,
    } = datagram.endpoints
    else {
        panic!("{datagram:?}");
    };
    (source, destination, payload, bytes)
}

#[test]
fn a_datagram_on_the_wire_is_what_was_sent() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        for len in [0, 1, 2, 3, 63, 64, 65, 1471, 1472] {
            let payload: Vec<u8> = (0..len).map(|index| (index * 7) as u8).collect();
            assert_eq!(
                send(&socket, Some(PEER), &payload),
                SendOutcome::Done(payload.len())
            );
            let (source, destination, sent, frame) = parsed(host.device.sent());
            assert_eq!((source, destination), (socket.at(OUR_IP), PEER));
            assert_eq!(sent, payload);
            assert_eq!(
                (frame[..6].to_vec(), frame[6..12].to_vec()),
                (PEER_MAC.to_vec(), OUR_MAC.to_vec())
            );
        }
        assert_eq!(host.device.kicks(), 9);
        let counted = socket.snapshot(&host).unwrap();
        assert_eq!(counted.tx_packets, 9);
        assert_eq!(counted.tx_bytes, 1 + 2 + 3 + 63 + 64 + 65 + 1471 + 1472);
    });
}

#[test]
fn a_dummy_send_leaves_all_as_it_was() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        assert!(!socket.ours().dummy_send_one(), "it has no peer");
        socket.connect(PEER);
        assert!(!socket.ours().dummy_send_one(), "it knows no way yet");
        assert_eq!(send(&socket, None, b"first"), SendOutcome::Done(5));
        let before = (host.free_frames(), host.device.kicks());
        for _ in 0..3 {
            assert!(socket.ours().dummy_send_one());
        }
        assert_eq!((host.free_frames(), host.device.kicks()), before);
        assert_eq!(send(&socket, None, b"next"), SendOutcome::Done(4));
        let sent = [host.device.sent(), host.device.sent()].map(|it| parsed(it).2);
        assert_eq!(sent, [b"first".to_vec(), b"next".to_vec()]);
        assert_eq!(host.device.sent(), None);
        let seen = socket.snapshot(&host).unwrap();
        assert_eq!((seen.tx_packets, seen.tx_dummy), (2, 3));
    });
}

#[test]
fn the_device_is_told_once_of_a_message_that_leaves_as_several_datagrams() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        socket.set_option(libc::IPPROTO_UDP, libc::UDP_SEGMENT, 100);
        let payload: Vec<u8> = (0..=255).collect();
        let outcome = send_parts(&socket, Some(PEER), &[&payload[..30], &payload[30..]], 0);
        assert_eq!(outcome, SendOutcome::Done(256));
        let frames: Vec<_> = (0..3).map(|_| parsed(host.device.sent())).collect();
        assert_eq!(host.device.sent(), None);
        assert_eq!(host.device.kicks(), 1);
        let sent: Vec<_> = frames
            .iter()
            .map(|(_, _, payload, _)| &payload[..])
            .collect();
        assert_eq!(sent, [&payload[..100], &payload[100..200], &payload[200..]]);
        let identification = |frame: &[u8]| u16::from_be_bytes([frame[18], frame[19]]);
        let first = identification(&frames[0].3);
        // The next message goes on behind them.
        send(&socket, Some(PEER), b"more");
        let (.., next) = parsed(host.device.sent());
        assert_eq!(identification(&frames[2].3), first + 2);
        assert_eq!(identification(&next), first + 3);
        assert_eq!(socket.snapshot(&host).unwrap().tx_packets, 4);
        // What the kernel has to judge.
        for len in [6500, 66_000] {
            let outcome = send(&socket, Some(PEER), &vec![0; len]);
            assert_eq!(outcome, SendOutcome::Kernel(Reason::TooLarge));
        }
    });
}

#[test]
fn some_options_have_the_kernel_send_and_not_receive() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        for (name, value, nothing) in [
            (libc::SO_DONTROUTE, 1, 0),
            (libc::SO_NO_CHECK, 1, 0),
            (libc::SO_MAX_PACING_RATE, 1_000_000, -1),
        ] {
            socket.set_option(libc::SOL_SOCKET, name, value);
            let outcome = send(&socket, Some(PEER), b"m");
            assert_eq!(outcome, SendOutcome::Kernel(Reason::Option), "{name}");
            assert_eq!(socket.reason(), Reason::Offloaded);
            socket.set_option(libc::SOL_SOCKET, name, nothing);
            assert_eq!(send(&socket, Some(PEER), b"m"), SendOutcome::Done(1));
        }
    });
}

#[test]
fn the_device_is_told_once_of_the_messages_of_one_call() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        for _ in 0..9 {
            assert_eq!(send_followed(&socket, PEER, b"m"), SendOutcome::Done(1));
        }
        assert_eq!(host.device.kicks(), 0);
        assert_eq!(send(&socket, Some(PEER), b"m"), SendOutcome::Done(1));
        assert_eq!(host.device.kicks(), 1);
        // What the kernel sends comes after what was sent before.
        send_followed(&socket, PEER, b"m");
        let large = [0; 4000];
        let outcome = send(&socket, Some(PEER), &large);
        assert_eq!(outcome, SendOutcome::Kernel(Reason::TooLarge));
        assert_eq!(host.device.kicks(), 2);
        // And a socket that ends leaves nothing behind.
        send_followed(&socket, PEER, b"m");
        drop(socket);
        assert_eq!(host.device.kicks(), 3);
    });
}

#[test]
fn a_datagram_is_gathered_from_its_parts() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let parts: &[&[u8]] = &[b"a", b"", b"bcd", b"efghi"];
        assert_eq!(
            send_parts(&socket, Some(PEER), parts, 0),
            SendOutcome::Done(9)
        );
        assert_eq!(parsed(host.device.sent()).2, b"abcdefghi");
        let many = vec![&b"x"[..]; 1024];
        assert_eq!(
            send_parts(&socket, Some(PEER), &many, 0),
            SendOutcome::Done(1024)
        );
        assert_eq!(parsed(host.device.sent()).2, [b'x'; 1024]);
        let too_many = vec![&b"x"[..]; 1025];
        assert_eq!(
            send_parts(&socket, Some(PEER), &too_many, 0),
            SendOutcome::Kernel(Reason::Answered)
        );
    });
}

#[test]
fn headers_follow_the_options() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let fields = |frame: &[u8]| (frame[15], frame[22], frame[20] & 0x40 != 0);
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        assert_eq!(fields(&parsed(host.device.sent()).3), (0, 64, true));
        socket.set_option(libc::IPPROTO_IP, libc::IP_TTL, 3);
        socket.set_option(libc::IPPROTO_IP, libc::IP_TOS, 0xb8);
        socket.set_option(
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_DONT,
        );
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        assert_eq!(fields(&parsed(host.device.sent()).3), (0xb8, 3, false));
    });
}

#[test]
fn identifications_of_datagrams_differ() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
            let frame = parsed(host.device.sent()).3;
            assert!(seen.insert([frame[18], frame[19]]));
        }
    });
}

#[test]
fn a_connected_socket_needs_no_address_and_may_name_another() {
    with_addresses(|| {
        let host = null_host();
        let socket = host.bound("10.0.0.1:5353");
        assert_eq!(
            send(&socket, None, b"x"),
            SendOutcome::Kernel(Reason::Answered),
            "EDESTADDRREQ is the kernel's to say"
        );
        socket.connect(PEER);
        assert_eq!(send(&socket, None, b"one"), SendOutcome::Done(3));
        let (source, destination, payload, _) = parsed(host.device.sent());
        assert_eq!((source, destination), (socket.at(OUR_IP), PEER));
        assert_eq!(payload, b"one");
        let other = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 9);
        assert_eq!(send(&socket, Some(other), b"two"), SendOutcome::Done(3));
        assert_eq!(parsed(host.device.sent()).1, other);
        assert_eq!(send(&socket, None, b"three"), SendOutcome::Done(5));
        assert_eq!(parsed(host.device.sent()).1, PEER);
        socket.disconnect();
        assert_eq!(
            send(&socket, None, b"x"),
            SendOutcome::Kernel(Reason::Answered)
        );
    });
}

#[test]
fn what_needs_fragments_goes_to_the_kernel() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let big = vec![1; 65_507];
        for (mtu, most) in [(1500, 1472), (576, 548), (9000, 2048 - 42)] {
            let mut next_hop = through(FIRST_LINK, PEER_MAC);
            if let NextHop::Link { mtu: it, .. } = &mut next_hop {
                *it = mtu;
            }
            host.network.set_next_hop(next_hop);
            host.engine.network_changed(false);
            assert_eq!(
                send(&socket, Some(PEER), &big[..most]),
                SendOutcome::Done(most)
            );
            assert_eq!(parsed(host.device.sent()).2.len(), most);
            for len in [most + 1, 65_507] {
                let outcome = send(&socket, Some(PEER), &big[..len]);
                let too_large = SendOutcome::Kernel(Reason::TooLarge);
                // What fits the link and not a frame.
                let no_frame = SendOutcome::Kernel(Reason::LargerThanFrame);
                assert!(
                    outcome == too_large || (mtu == 9000 && len < 8972 && outcome == no_frame),
                    "{mtu} {len}: {outcome:?}"
                );
            }
        }
        assert!(host.device.sent().is_none());
    });
}

#[test]
fn only_unicast_leaves_past_the_kernel() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        for (address, reason) in [
            ("255.255.255.255:9", Reason::NotUnicast),
            ("0.0.0.0:9", Reason::Route),
            ("127.0.0.1:9", Reason::Route),
            ("10.0.0.2:0", Reason::Route),
        ] {
            assert_eq!(
                send(&socket, Some(address.parse().unwrap()), b"x"),
                SendOutcome::Kernel(reason),
                "{address}"
            );
        }
        let kernels = [
            ("10.0.0.255", Reason::NotUnicast),
            ("10.0.0.66", Reason::Neighbour),
            ("192.0.2.1", Reason::Route),
        ];
        for (address, reason) in kernels {
            let address = address.parse().unwrap();
            let next_hop = NextHop::Kernel(reason);
            host.network.set_next_hop_of(address, next_hop);
            let to = SocketAddrV4::new(address, 9);
            assert_eq!(send(&socket, Some(to), b"x"), SendOutcome::Kernel(reason));
        }
        assert!(host.device.sent().is_none());
        assert_eq!(host.count_of(Reason::Neighbour), 1);
    });
}

#[test]
fn flags_control_data_and_odd_names_go_to_the_kernel() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let flagged = |flags| send_parts(&socket, Some(PEER), &[b"x"], flags);
        let to_kernel = SendOutcome::Kernel(Reason::Message);
        for flags in [libc::MSG_OOB, libc::MSG_DONTROUTE, libc::MSG_ZEROCOPY] {
            assert_eq!(flagged(flags), to_kernel, "{flags:#x}");
        }
        for flags in [libc::MSG_DONTWAIT, libc::MSG_NOSIGNAL, libc::MSG_CONFIRM] {
            assert_eq!(flagged(flags), SendOutcome::Done(1), "{flags:#x}");
            host.device.sent();
        }
        let mut byte = [libc::iovec {
            iov_base: (&raw const *b"x").cast_mut().cast(),
            iov_len: 1,
        }];
        let mut name = crate::support::host::sockaddr(libc::AF_INET, PEER);
        let with = |change: &dyn Fn(&mut libc::msghdr), name: *mut libc::sockaddr_in| {
            let mut parts = byte;
            let mut header = header(&mut parts);
            (header.msg_name, header.msg_namelen) = (name.cast(), 16);
            change(&mut header);
            send_header(&socket, &mut header, 0)
        };
        assert_eq!(with(&|_| {}, &raw mut name), SendOutcome::Done(1));
        let control = |header: &mut libc::msghdr| header.msg_controllen = 16;
        assert_eq!(with(&control, &raw mut name), to_kernel);
        let answered = SendOutcome::Kernel(Reason::Answered);
        let short = |header: &mut libc::msghdr| header.msg_namelen = 15;
        assert_eq!(with(&short, &raw mut name), answered);
        // The kernel refuses a negative length, and reads no less of a long name than the program
        // says.
        for len in [1 << 31, 129, u32::MAX] {
            let long = |header: &mut libc::msghdr| header.msg_namelen = len;
            assert_eq!(with(&long, &raw mut name), answered, "{len}");
        }
        let mut storage = [name; 8];
        let long = |header: &mut libc::msghdr| header.msg_namelen = 128;
        assert_eq!(with(&long, storage.as_mut_ptr()), SendOutcome::Done(1));
        host.device.sent();
        name.sin_family = libc::AF_INET6 as libc::sa_family_t;
        assert_eq!(with(&|_| {}, &raw mut name), answered);
        name.sin_family = libc::AF_INET as libc::sa_family_t;
        byte[0].iov_base = std::ptr::null_mut();
        let null = byte;
        let mut parts = null;
        let mut bad = header(&mut parts);
        (bad.msg_name, bad.msg_namelen) = ((&raw mut name).cast(), 16);
        assert_eq!(send_header(&socket, &mut bad, 0), answered);
        assert_eq!(socket.reason(), Reason::Offloaded);
        host.device.sent();
        assert_eq!(host.device.sent(), None);
    });
}

#[test]
fn a_socket_that_is_not_accelerated_names_its_reason() {
    isolated(|| {
        let host = null_host();
        let socket = host.unbound();
        assert_eq!(
            send(&socket, Some(PEER), b"x"),
            SendOutcome::Kernel(Reason::NotBound)
        );
        let off = Host::with_backend(
            Settings {
                offloaded_sockets: false,
                ..settings()
            },
            NullBackend::default(),
            8,
        );
        assert_eq!(
            send(&off.any(), Some(PEER), b"x"),
            SendOutcome::Kernel(Reason::Disabled)
        );
    });
}
