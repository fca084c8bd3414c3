//! An engine on the null device, an accelerated socket and its twin: a socket of the kernel's alone to which the same happens.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as KernelSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use dev_core::LinkSpec;
use dev_core::null::NullBackend;
use engine::{Engine, FixedNetwork, InterfaceFacts, NextHop, Reason, Settings, UdpSocket};
use stats::{Capacity, Identity, Segment};
use wire::{EthernetAddresses, UdpTemplate};

use crate::memory::Memory;

pub type Device = NullBackend;

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ARRIVALS_MAX: usize = 48;
const FRAME_BYTES: usize = 2048;

pub struct Host {
    pub engine: &'static Engine<Device>,
    device: Device,
    pub memory: Memory,
    /// Sends to twins, and gets what they send.
    pub peer: KernelSocket,
    pub peer_port: u16,
}

impl Host {
    pub fn new() -> Self {
        enter_own_namespace();
        let device = NullBackend::default();
        let peer = KernelSocket::bind("127.0.0.1:0").expect("loopback");
        Self {
            engine: engine(&device),
            device,
            memory: Memory::new(),
            peer_port: port_of(&peer),
            peer,
        }
    }
}

/// A namespace without any interface but loopback, where that is allowed: nothing gets onto a network.
fn enter_own_namespace() {
    // SAFETY: unshare takes an integer; it changes the network of this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return;
    }
    // SAFETY: all-zero is a value of this struct of integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    let any = KernelSocket::bind("0.0.0.0:0").expect("a socket");
    // SAFETY: the request is readable.
    let up = unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    assert_eq!(up, 0, "lo up: {}", std::io::Error::last_os_error());
}

fn engine(device: &Device) -> &'static Engine<Device> {
    let spec = LinkSpec {
        index: 1,
        name: "null0".into(),
        mac: OUR_MAC,
        mtu: 1500,
    };
    let network = FixedNetwork {
        interfaces: vec![InterfaceFacts {
            spec,
            addresses: vec![OUR_IP],
            up: true,
            loopback: false,
            eligible: true,
        }],
        next_hop: NextHop::Link {
            link_index: 1,
            mac: PEER_MAC,
            source: OUR_IP,
            mtu: 1500,
            mtu_locked: false,
        },
    };
    let capacity = Capacity {
        sockets: 4,
        rings: 1,
        pools: 1,
        reasons: 32,
        settings: 0,
        rules: 0,
    };
    let segment = Segment::private(&Identity::of_this_process("fuzz"), capacity);
    let engine = Engine::new(settings(), device.clone(), Box::new(network), segment);
    Box::leak(Box::new(engine.expect("address space")))
}

/// No polling: a call that finds nothing sleeps at once.
fn settings() -> Settings {
    Settings {
        exceptions: vma_config::ExceptionHandling::LogDebug,
        memory: vma_config::MemoryKind::Ordinary,
        memory_is_asked_for: false,
        offloaded_sockets: true,
        thread_mode: dev_core::ThreadMode::SpinLock,
        rx_poll: 0,
        rx_poll_yield: 0,
        poll_shared_cpu: true,
        rx_udp_poll_os_ratio: 100,
        select_poll_usec: 0,
        select_poll_os_ratio: 10,
        // The kernel's part of every result, as in its own calls.
        select_skip_os: 1,
        poll_batch_max: 16,
        pool_frames: 1024,
    }
}

/// The accelerated socket, its twin, and an epoll set.
pub struct Pair {
    pub ours: KernelSocket,
    pub twin: KernelSocket,
    pub epoll: OwnedFd,
    pub pipe: (std::io::PipeReader, std::io::PipeWriter),
    /// What is asked of both must have the same answer.
    pub is_alike: bool,
    arrivals: usize,
}

impl Pair {
    pub fn new(host: &Host) -> Self {
        let ours = KernelSocket::bind("0.0.0.0:0").expect("a port");
        let twin = KernelSocket::bind("127.0.0.1:0").expect("a port");
        // SAFETY: epoll_create1 takes an integer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0, "{}", std::io::Error::last_os_error());
        host.engine.socket_opened(ours.as_raw_fd(), false);
        let pair = Self {
            ours,
            twin,
            // SAFETY: the descriptor is new and ours alone.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            pipe: std::io::pipe().expect("a pipe"),
            is_alike: true,
            arrivals: 0,
        };
        host.engine.addresses_changed(pair.socket(host));
        assert!(pair.is_accelerated(host));
        // What came for those before it is no longer on the wire afterwards.
        for _ in 0..ARRIVALS_MAX {
            assert_eq!(pair.socket(host).next_len_after_poll(), None);
        }
        pair
    }

    pub fn fd(&self) -> RawFd {
        self.ours.as_raw_fd()
    }

    pub fn socket(&self, host: &Host) -> &'static UdpSocket<Device> {
        host.engine.udp(self.fd()).expect("a socket of ours")
    }

    pub fn is_accelerated(&self, host: &Host) -> bool {
        let socket = host.engine.udp(self.fd());
        socket.is_some_and(|socket| socket.reason() == Reason::Offloaded)
    }

    /// The same datagram comes to both.
    pub fn arrive(&mut self, host: &Host, len: usize) {
        if self.arrivals == ARRIVALS_MAX {
            return;
        }
        self.arrivals += 1;
        let payload = vec![self.arrivals as u8; len % 1473];
        let eth = EthernetAddresses {
            source: PEER_MAC,
            destination: OUR_MAC,
        };
        let source = SocketAddrV4::new(PEER_IP, host.peer_port);
        let destination = SocketAddrV4::new(OUR_IP, port_of(&self.ours));
        let template = UdpTemplate::new(eth, source, destination, 64, 0, true);
        let mut frame = vec![0; FRAME_BYTES];
        let frame_len = template.emit_one(&mut frame, 1, &payload);
        host.device.inject(&frame[..frame_len.expect("it fits")]);
        let to = self.twin.local_addr().expect("bound");
        let sent = host.peer.send_to(&payload, to).expect("loopback");
        assert_eq!(sent, payload.len());
    }

    /// Closes all, in the order of the hook of `close(2)`.
    pub fn close(self, host: &Host) {
        host.engine.descriptor_closes(self.fd());
        host.engine.descriptor_closes(self.epoll.as_raw_fd());
    }
}

pub fn port_of(socket: &KernelSocket) -> u16 {
    socket.local_addr().as_ref().map_or(0, SocketAddr::port)
}
