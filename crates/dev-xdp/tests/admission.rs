//! Connections whose handshake the kernel has not seen come into the queue of its listening socket,
//! whole.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use dev_core::{Admission, Agreed, Backend, Clocks, ReceivingHost, WindowShifts};
use dev_xdp::{XdpBackend, XdpMode};
use testkit::{Namespaces, Pair, Skip, or_skip};
use wire::EthernetAddresses;
use wire::tcp::{Flags, Header, Options, Template, Timestamps};

const PORT: u16 = 7800;
/// In the subnet, and nobody's: what is sent there finds no neighbour, which could reset the
/// connection.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 99));
const NOBODY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 99));
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Pair::ADDRESS_A), PORT);
const LOCAL_V6: SocketAddr = SocketAddr::new(IpAddr::V6(Pair::IPV6_ADDRESS_A), PORT);
const AGREED: Agreed = Agreed {
    peer_mss: 1400,
    window_scales: Some(WindowShifts {
        send: 5,
        receive: 7,
    }),
    has_sack: true,
    has_ecn: false,
    timestamps: Some(Clocks {
        ours: 0x8000_1234,
        peers: 77,
    }),
};
const LEN: usize = 60_000;

fn packet(peer: SocketAddr, seq: u32, flags: Flags, data: &[u8]) -> Vec<u8> {
    let nowhere = EthernetAddresses {
        source: [0; 6],
        destination: [0; 6],
    };
    let local = if peer.is_ipv6() { LOCAL_V6 } else { LOCAL };
    let header = Header {
        seq,
        ack: 9001,
        flags,
        window: 1000,
        urgent: 0,
        options: Options {
            timestamps: AGREED.timestamps.map(|clocks| Timestamps {
                value: clocks.peers,
                echo: clocks.ours,
            }),
            ..Options::default()
        },
    };
    let template = Template::new(nowhere, peer, local, 64, 0, true);
    let mut frame = vec![0; Template::MAX_HEADERS_LEN + data.len()];
    let len = template.emit(&mut frame, 0, 0, &header, [data]).unwrap();
    frame.truncate(len);
    frame.split_off(14)
}

fn raw_socket(domain: i32, protocol: i32) -> OwnedFd {
    // SAFETY: integers.
    let fd = unsafe { libc::socket(domain, libc::SOCK_RAW, protocol) };
    assert!(fd >= 0);
    // SAFETY: the kernel has just made the descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// To the address of that family that is listened at.
fn send(raw: &OwnedFd, packet: &[u8]) -> bool {
    let mut to = [0_u8; 28];
    let len = if packet[0] >> 4 == 6 {
        to[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        to[8..24].copy_from_slice(&Pair::IPV6_ADDRESS_A.octets());
        28
    } else {
        to[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        to[4..8].copy_from_slice(&Pair::ADDRESS_A.octets());
        16
    };
    let (fd, data) = (raw.as_raw_fd(), packet.as_ptr().cast());
    // SAFETY: packet and address are readable.
    let sent = unsafe { libc::sendto(fd, data, packet.len(), 0, to.as_ptr().cast(), len) };
    sent >= 0
}

struct ThisHost<'a>(&'a OwnedFd);

impl ReceivingHost for ThisHost<'_> {
    fn receive(&self, packet: &[u8]) -> bool {
        send(self.0, packet)
    }

    fn has_connection(&self) -> Option<bool> {
        None
    }
}

fn admission() -> Result<Box<dyn Admission>, Skip> {
    let backend = XdpBackend::new(XdpMode::Generic, 256);
    backend
        .admission()
        .map_err(|error| Skip::new(format!("no admission: {error}")))
}

#[test]
fn connections_come_in_order_with_all_that_was_received() {
    let pair = or_skip!(Namespaces::pair());
    connections_come_in_order(&pair, libc::AF_INET, LOCAL, NOBODY);
}

#[test]
fn connections_over_ipv6_do_too() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    connections_come_in_order(&pair, libc::AF_INET6, LOCAL_V6, NOBODY_V6);
    // The same program is for both.
    connections_come_in_order(&pair, libc::AF_INET, LOCAL, NOBODY);
}

fn connections_come_in_order(pair: &Pair, domain: i32, local: SocketAddr, nobody: IpAddr) {
    let admission = or_skip!(pair.a.enter(admission));
    let listener = pair.a.enter(|| TcpListener::bind(local)).unwrap();
    let data: Vec<u8> = (0..LEN).map(|index| (index % 251) as u8).collect();
    pair.a.enter(|| {
        let raw = raw_socket(domain, libc::IPPROTO_RAW);
        for number in 0..3 {
            let peer = SocketAddr::new(nobody, 40_000 + number);
            let mut packets = vec![packet(peer, 1001, Flags::ACK, &data[..100])];
            for (index, part) in data[100..].chunks(15_000).enumerate() {
                let seq = 1101 + 15_000 * index as u32;
                packets.push(packet(peer, seq, Flags::ACK | Flags::PSH, part));
            }
            let end = 1001 + LEN as u32;
            packets.push(packet(peer, end, Flags::ACK | Flags::FIN, &[]));
            admission
                .admit(local, peer, &AGREED, &packets, &ThisHost(&raw))
                .unwrap();
        }
    });
    listener.set_nonblocking(true).unwrap();
    for number in 0..3 {
        let (mut stream, peer) = listener.accept().unwrap();
        assert_eq!(peer, SocketAddr::from((nobody, 40_000 + number)));
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut seen = Vec::new();
        stream.read_to_end(&mut seen).unwrap();
        assert!(seen == data, "{} octets", seen.len());
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn the_options_are_those_of_the_handshake() {
    let pair = or_skip!(Namespaces::pair());
    let admission = or_skip!(pair.a.enter(admission));
    let listener = pair
        .a
        .enter(|| TcpListener::bind((Pair::ADDRESS_A, PORT)))
        .unwrap();
    let peer = SocketAddr::new(NOBODY, 40_000);
    pair.a.enter(|| {
        let raw = raw_socket(libc::AF_INET, libc::IPPROTO_RAW);
        let packets = [packet(peer, 1001, Flags::ACK, &[])];
        admission
            .admit(LOCAL, peer, &AGREED, &packets, &ThisHost(&raw))
            .unwrap();
    });
    let (stream, _) = listener.accept().unwrap();
    // SAFETY: integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as u32;
    let (fd, at) = (stream.as_raw_fd(), (&raw mut info).cast());
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most the length that it is told.
    let read = unsafe { libc::getsockopt(fd, level, name, at, &raw mut len) };
    assert_eq!(read, 0);
    assert_eq!(info.tcpi_snd_rcv_wscale, 7 << 4 | 5);
    // TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK and TCPI_OPT_WSCALE
    assert_eq!(info.tcpi_options & 7, 7);
    // Less the timestamps in each segment.
    assert_eq!(info.tcpi_snd_mss, 1400 - 12);
}

#[test]
fn where_nobody_listens_the_peer_is_reset() {
    let pair = or_skip!(Namespaces::pair());
    let admission = or_skip!(pair.a.enter(admission));
    let peer = SocketAddr::new(IpAddr::V4(Pair::ADDRESS_B), 40_000);
    let received = pair
        .b
        .enter(|| raw_socket(libc::AF_INET, libc::IPPROTO_TCP));
    let received = UdpSocket::from(received);
    let timeout = Some(Duration::from_secs(10));
    received.set_read_timeout(timeout).unwrap();
    let admitted = pair.a.enter(|| {
        let raw = raw_socket(libc::AF_INET, libc::IPPROTO_RAW);
        let packets = [packet(peer, 1001, Flags::ACK, &[])];
        admission.admit(LOCAL, peer, &AGREED, &packets, &ThisHost(&raw))
    });
    assert_eq!(admitted.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let mut bytes = [0; 100];
    let len = received.recv(&mut bytes).unwrap();
    let segment = &bytes[20..len];
    assert_eq!(segment[..2], PORT.to_be_bytes());
    assert_eq!(segment[2..4], peer.port().to_be_bytes());
    assert_eq!(
        segment[4..8],
        9001_u32.to_be_bytes(),
        "what the peer expects"
    );
    assert_eq!(segment[13] & 4, 4, "RST");
}
