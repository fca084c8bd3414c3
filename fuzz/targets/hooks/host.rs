//! An engine on the null device, an accelerated socket and its twin: a socket of the kernel's alone
//! to which the same happens.

use std::net::{SocketAddrV4, UdpSocket as KernelSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use dev_core::null::NullBackend;
use engine::{Engine, Reason, Settings, UdpSocket};

use crate::memory::Memory;
pub use support::PEER;

#[path = "../../../crates/engine/benches/support/mod.rs"]
mod support;

pub type Device = NullBackend;

const ARRIVALS_MAX: usize = 48;

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
            engine: support::engine(settings(), &device),
            device,
            memory: Memory::new(),
            peer_port: support::address_of(&peer).port(),
            peer,
        }
    }
}

/// A namespace without any interface but loopback, where that is allowed: nothing gets onto a
/// network.
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

/// No polling: a call that finds nothing sleeps at once.
fn settings() -> Settings {
    Settings {
        rx_poll: 0,
        select_poll_usec: 0,
        // The kernel's part of every result, as in its own calls.
        select_skip_os: 1,
        ..support::settings()
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
        host.engine
            .socket_opened(ours.as_raw_fd(), engine::Family::Inet, false);
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
        let source = SocketAddrV4::new(*PEER.ip(), host.peer_port);
        let frame = support::frame_from(source, &self.ours, &payload);
        host.device.inject(&frame);
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
