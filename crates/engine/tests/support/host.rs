//! An engine, its device and network, and sockets on it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as KernelSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use dev_core::{Backend, ThreadMode};
use engine::{Engine, Reason, Settings, UdpSocket};
use stats::{Capacity, Identity, Reader, RingSnapshot, Segment, SocketSnapshot};

use super::device::{Device, QUEUES};
use super::network::TestNetwork;
use super::{FIRST_LINK, frame};

/// Frames of the pool of a test's engine.
pub const POOL_FRAMES: u32 = 256;

/// What most tests want: no polling, so that a call that finds nothing sleeps at once.
pub fn settings() -> Settings {
    Settings {
        exceptions: vma_config::ExceptionHandling::LogDebug,
        memory: vma_config::MemoryKind::Ordinary,
        memory_is_asked_for: false,
        program_memory: None,
        offloaded_sockets: true,
        socketxtreme: false,
        thread_mode: ThreadMode::SpinLock,
        rx_poll: 0,
        receive_bytes_min: 65_536,
        full_ring_fails: false,
        rx_poll_yield: 0,
        // Others may need the CPU on which tests run.
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
        select_poll_usec: 0,
        select_poll_os_ratio: 10,
        select_skip_os: 4,
        poll_batch_max: 16,
        rings_tx: engine::RingPolicy::ONE_RING,
        rings_rx: engine::RingPolicy::ONE_RING,
        pool_frames: POOL_FRAMES,
    }
}

/// An engine and what is around it.
pub struct Host<B: Backend> {
    pub engine: &'static Engine<B>,
    pub device: B,
    pub network: TestNetwork,
    stats_dir: PathBuf,
}

impl Host<Device> {
    pub fn new() -> Self {
        Self::with(settings())
    }

    pub fn with(settings: Settings) -> Self {
        Self::with_backend(settings, Device::default(), 64)
    }

    /// A datagram arrives on the first interface.
    pub fn arrives(&self, source: SocketAddrV4, destination: SocketAddrV4, payload: &[u8]) {
        let frame = frame(source, destination, payload);
        self.device.wire(FIRST_LINK).inject(frame);
    }
}

impl<B: Backend + Clone> Host<B> {
    /// `sockets`: how many the statistics have room for.
    pub fn with_backend(settings: Settings, device: B, sockets: u32) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let stats_dir = std::env::temp_dir().join(format!("engine-{}-{number}", process::id()));
        fs::create_dir(&stats_dir).unwrap();
        let capacity = Capacity {
            sockets,
            connections: sockets,
            // Of two interfaces, and one more.
            rings: 3 * QUEUES,
            pools: 1,
            reasons: Reason::ALL.len() as u32,
            settings: 0,
            rules: 8,
        };
        let identity = Identity::of_this_process("test");
        let segment = Segment::create(&stats_dir, &identity, capacity).unwrap();
        let network = TestNetwork::new();
        let engine =
            Engine::new(settings, device.clone(), Box::new(network.clone()), segment).unwrap();
        Self {
            engine: Box::leak(engine),
            device,
            network,
            stats_dir,
        }
    }
}

impl<B: Backend> Host<B> {
    /// What a monitoring program sees.
    pub fn statistics(&self) -> Reader {
        self.engine.refresh_gauges();
        Reader::open(&self.stats_dir, process::id()).unwrap()
    }

    /// Frames of the pool that nobody holds.
    pub fn free_frames(&self) -> u64 {
        self.statistics().pools().unwrap()[0].free
    }

    /// How often a reason was counted.
    pub fn count_of(&self, reason: Reason) -> u64 {
        let reasons = self.statistics().reasons().unwrap();
        let found = reasons.iter().find(|entry| entry.code == reason as u32);
        found.map_or(0, |entry| entry.count)
    }

    /// A socket bound to `local`, as the hooks of `socket(2)` and `bind(2)` introduce it.
    pub fn bound(&self, local: &str) -> Socket<B> {
        let socket = self.unbound();
        socket.bind(local);
        socket
    }

    /// A socket bound to a port of every address.
    pub fn any(&self) -> Socket<B> {
        self.bound("0.0.0.0:0")
    }

    /// A socket that the engine knows of, not bound.
    pub fn unbound(&self) -> Socket<B> {
        // SAFETY: socket takes integers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is new and ours alone.
        self.introduce(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// The same with this number, which nothing else in the test process may use.
    pub fn unbound_at(&self, number: RawFd) -> Socket<B> {
        let socket = std::mem::ManuallyDrop::new(self.unbound());
        self.engine.descriptor_closes(socket.fd());
        // SAFETY: dup2 takes integers.
        assert_eq!(unsafe { libc::dup2(socket.fd(), number) }, number);
        // SAFETY: the first descriptor is owned by a value that is never dropped.
        unsafe { libc::close(socket.fd()) };
        // SAFETY: the descriptor is new and ours alone.
        self.introduce(unsafe { OwnedFd::from_raw_fd(number) })
    }

    fn introduce(&self, fd: OwnedFd) -> Socket<B> {
        self.engine
            .socket_opened(fd.as_raw_fd(), engine::Family::Inet, false);
        Socket {
            engine: self.engine,
            kernel: KernelSocket::from(fd),
        }
    }
}

impl<B: Backend> Drop for Host<B> {
    fn drop(&mut self) {
        self.engine.process_ends();
        let _ = fs::remove_dir_all(&self.stats_dir);
    }
}

/// A socket of the kernel's that the engine knows. Dropping it closes it in the order of the hook
/// of `close(2)`.
pub struct Socket<B: Backend> {
    pub engine: &'static Engine<B>,
    pub kernel: KernelSocket,
}

impl<B: Backend> Socket<B> {
    pub fn fd(&self) -> RawFd {
        self.kernel.as_raw_fd()
    }

    pub fn ours(&self) -> &'static UdpSocket<B> {
        self.engine.udp(self.fd()).unwrap()
    }

    pub fn reason(&self) -> Reason {
        self.ours().reason()
    }

    pub fn port(&self) -> u16 {
        self.kernel.local_addr().unwrap().port()
    }

    /// This address with the socket's port.
    pub fn at(&self, address: Ipv4Addr) -> SocketAddrV4 {
        SocketAddrV4::new(address, self.port())
    }

    pub fn bind(&self, local: &str) {
        self.try_bind(local)
            .unwrap_or_else(|error| panic!("bind {local}: {error}"));
    }

    pub fn try_bind(&self, local: &str) -> std::io::Result<()> {
        let address = sockaddr(libc::AF_INET, local.parse().unwrap());
        // SAFETY: the address is a readable sockaddr_in.
        let result = unsafe { libc::bind(self.fd(), (&raw const address).cast(), 16) };
        if result != 0 {
            return Err(std::io::Error::last_os_error());
        }
        self.engine.addresses_changed(self.ours());
        Ok(())
    }

    pub fn connect(&self, peer: SocketAddrV4) {
        self.connect_to_family(libc::AF_INET, peer);
    }

    /// `connect(AF_UNSPEC)`
    pub fn disconnect(&self) {
        self.connect_to_family(libc::AF_UNSPEC, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    }

    fn connect_to_family(&self, family: libc::c_int, peer: SocketAddrV4) {
        let address = sockaddr(family, peer);
        // SAFETY: the address is a readable sockaddr_in.
        let result = unsafe { libc::connect(self.fd(), (&raw const address).cast(), 16) };
        assert_eq!(
            result,
            0,
            "connect {peer}: {}",
            std::io::Error::last_os_error()
        );
        self.engine.addresses_changed(self.ours());
    }

    /// An option, with the hook's part.
    pub fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) {
        self.set_kernel_option(level, name, &value);
        self.engine.option_was_set(self.ours(), level, name);
    }

    /// An option that the engine is not told of.
    pub fn set_kernel_option<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) {
        let value = std::ptr::from_ref(value).cast();
        let len = size_of::<T>() as libc::socklen_t;
        // SAFETY: the value is readable for its size.
        let result = unsafe { libc::setsockopt(self.fd(), level, name, value, len) };
        assert_eq!(
            result,
            0,
            "{level}/{name}: {}",
            std::io::Error::last_os_error()
        );
    }

    pub fn set_nonblocking(&self, value: bool) {
        self.kernel.set_nonblocking(value).unwrap();
        self.engine.status_flags_changed(self.ours());
    }

    /// `dup(2)`
    pub fn dup(&self) -> OwnedFd {
        let copy = OwnedFd::from(self.kernel.try_clone().unwrap());
        self.engine
            .descriptor_duplicated(self.fd(), copy.as_raw_fd());
        copy
    }

    /// The socket's entry in the statistics.
    pub fn snapshot(&self, host: &Host<B>) -> Option<SocketSnapshot> {
        let sockets = host.statistics().sockets().unwrap();
        sockets.into_iter().find(|entry| entry.fd == self.fd())
    }
}

impl<B: Backend> Drop for Socket<B> {
    fn drop(&mut self) {
        self.engine.descriptor_closes(self.fd());
    }
}

/// `close(2)` of a descriptor that the engine may know.
pub fn close<B: Backend>(engine: &Engine<B>, fd: OwnedFd) {
    engine.descriptor_closes(fd.as_raw_fd());
    drop(fd);
}

/// A kernel's socket that plays a peer or a neighbour on this host.
pub fn kernel_socket(local: &str) -> (KernelSocket, SocketAddrV4) {
    let socket = KernelSocket::bind(local).unwrap();
    let SocketAddr::V4(address) = socket.local_addr().unwrap() else {
        unreachable!("bound to IPv4")
    };
    (socket, address)
}

pub fn sockaddr(family: libc::c_int, address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: family as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*address.ip()).to_be(),
        },
        sin_zero: [0; 8],
    }
}

/// What readers see of the rings of the first interface.
pub fn rings(host: &Host<Device>) -> Vec<RingSnapshot> {
    let mut rings = host.statistics().rings().unwrap();
    rings.retain(|ring| ring.ifindex == FIRST_LINK);
    rings
}
