//! What the benchmarks and the fuzz target of the hooks share: an engine on the null device, and
//! the frames of its peer.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each of them uses a part of this"
)]

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as KernelSocket};
use std::os::fd::AsRawFd;

use dev_core::LinkSpec;
use dev_core::null::NullBackend;
use engine::{Engine, FixedNetwork, InterfaceFacts, NextHop, Settings, UdpSocket};
use stats::{Capacity, Identity, Segment};
use wire::{EthernetAddresses, UdpTemplate};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FRAME_BYTES: usize = 2048;
pub const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7);

/// An engine whose one interface is the null device.
pub fn engine(settings: Settings, device: &NullBackend) -> &'static Engine<NullBackend> {
    let spec = LinkSpec {
        index: 1,
        name: "null0".into(),
        mac: OUR_MAC,
        mtu: 1500,
        upper: None,
    };
    let interface = InterfaceFacts {
        spec,
        addresses: vec![OUR_IP.into()],
        up: true,
        loopback: false,
        obstacle: String::new(),
    };
    let network = FixedNetwork {
        interfaces: vec![interface],
        next_hop: NextHop::Link {
            link_index: 1,
            mac: PEER_MAC,
            source: OUR_IP.into(),
            hop_limit: 0,
            mtu: 1500,
            mtu_locked: false,
        },
    };
    let identity = Identity::of_this_process("null");
    let segment = Segment::private(
        &identity,
        Capacity {
            sockets: 4,
            connections: 4,
            rings: 1,
            pools: 1,
            reasons: 32,
            settings: 0,
            rules: 0,
        },
    );
    let engine = Engine::new(settings, device.clone(), Box::new(network), segment);
    Box::leak(engine.expect("address space"))
}

/// Polls without end.
pub fn settings() -> Settings {
    Settings {
        exceptions: vma_config::ExceptionHandling::LogDebug,
        memory: vma_config::MemoryKind::Ordinary,
        memory_is_asked_for: false,
        program_memory: None,
        offloaded_sockets: true,
        socketxtreme: false,
        thread_mode: dev_core::ThreadMode::SpinLock,
        rx_poll: -1,
        receive_bytes_min: 65_536,
        full_ring_fails: false,
        rx_poll_yield: 0,
        shares_memory: false,
        poll_shared_cpu: true,
        measures_polling: false,
        progress_interval: std::time::Duration::ZERO,
        progress_packets_max: 0,
        moderation: engine::Moderation::NONE,
        internal_thread_receives: false,
        open_wait: std::time::Duration::from_secs(10),
        wait_after_join: std::time::Duration::ZERO,
        device_times: vma_config::DeviceTimes::System,
        tx_mc_loopback: true,
        tcp_nodelay: false,
        tcp_mtu: 0,
        tcp_mss: 0,
        rx_drain_nsec: 0,
        getsockname_dummy_send: false,
        tcp_quickack: false,
        tcp_timestamps: None,
        tcp_sends_poll: false,
        tcp_max_syn_rate: 0,
        tcp_cc_algo: None,
        rx_udp_poll_os_ratio: 100,
        select_poll_usec: -1,
        select_poll_os_ratio: 10,
        select_skip_os: 4,
        poll_batch_max: 16,
        rings_tx: engine::RingPolicy::ONE_RING,
        rings_rx: engine::RingPolicy::ONE_RING,
        pool_frames: 1024,
    }
}

/// Introduces a bound socket of the kernel's to the engine.
pub fn accelerate(
    engine: &Engine<NullBackend>,
    socket: &KernelSocket,
) -> &'static UdpSocket<NullBackend> {
    let fd = socket.as_raw_fd();
    engine.socket_opened(fd, engine::Family::Inet, false);
    let ours = engine.udp(fd).expect("just opened");
    engine.addresses_changed(ours);
    assert_eq!(ours.reason(), engine::Reason::Offloaded);
    ours
}

/// A frame with this payload from the peer to the socket.
pub fn frame_to(socket: &KernelSocket, payload: &[u8]) -> Vec<u8> {
    frame_from(PEER, socket, payload)
}

/// The same from another address of the peer's.
pub fn frame_from(source: SocketAddrV4, socket: &KernelSocket, payload: &[u8]) -> Vec<u8> {
    let eth = EthernetAddresses {
        source: PEER_MAC,
        destination: OUR_MAC,
    };
    let destination = SocketAddrV4::new(OUR_IP, address_of(socket).port());
    let template = UdpTemplate::new(eth, source, destination, 64, 0, true);
    let mut frame = vec![0; FRAME_BYTES];
    let len = template.emit_one(&mut frame, 1, payload).expect("it fits");
    frame.truncate(len);
    frame
}

/// The address that the kernel has bound the socket to.
pub fn address_of(socket: &KernelSocket) -> SocketAddrV4 {
    match socket.local_addr() {
        Ok(SocketAddr::V4(address)) => address,
        other => panic!("{other:?} is no IPv4 address"),
    }
}

/// A message in one buffer, with the peer's name.
pub fn header_of(part: &mut libc::iovec, name: &mut [u8; 16]) -> libc::msghdr {
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = 16;
    header
}
