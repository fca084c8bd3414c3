//! Threads that open, bind, connect, use, copy and close sockets and sets on one engine, also each
//! other's, also at the same moment. Afterwards everything is back where it was.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dev_core::ThreadMode;
use engine::{Message, Object, RecvOutcome};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT};

use crate::support::calls::{Receiving, header, part};
use crate::support::device::Device;
use crate::support::host::{Host, Socket, settings, sockaddr};
use crate::support::isolation::isolated;
use crate::support::multiplex::{Epoll, IN, OUT, poll, polled};
use crate::support::{FIRST_LINK, OUR_IP, PEER, Random, SECOND_IP, SECOND_LINK, frame};

const THREADS: u64 = 8;
const SLOTS: usize = 24;
/// For each of the four thread modes.
const DURATION: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1500 } else { 2500 });

/// Sockets and sets that every thread may use and close.
struct Shared {
    sockets: Vec<Mutex<Option<Socket<Device>>>>,
    sets: Vec<Mutex<Option<Epoll<Device>>>>,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Shared {
    /// The number of a socket, which may be closed at any moment from here on, as in a program with
    /// a race.
    fn any_fd(&self, random: &mut Random) -> Option<RawFd> {
        let slot = &self.sockets[random.below(SLOTS as u64) as usize];
        slot.lock().unwrap().as_ref().map(Socket::fd)
    }
}

#[test]
fn a_broken_promise_of_one_thread() {
    churn(ThreadMode::Single);
}

#[test]
fn spinning_locks() {
    churn(ThreadMode::SpinLock);
}

#[test]
fn sleeping_locks() {
    churn(ThreadMode::MutexLock);
}

#[test]
fn yielding_locks() {
    churn(ThreadMode::MoreThreadsThanCores);
}

fn churn(thread_mode: ThreadMode) {
    isolated(move || {
        let settings = engine::Settings {
            thread_mode,
            ..settings()
        };
        let host = Host::with_backend(settings, Device::default(), 16);
        let shared = Shared {
            sockets: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
            sets: (0..3).map(|_| Mutex::new(None)).collect(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        };
        let until = Instant::now() + DURATION;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (host, shared) = (&host, &shared);
                scope.spawn(move || {
                    let mut random = Random(thread * 7919 + thread_mode as u64);
                    while Instant::now() < until {
                        for _ in 0..20 {
                            step(host, shared, &mut random);
                        }
                    }
                });
            }
        });
        let (received, sent) = (&shared.received, &shared.sent);
        assert!(received.load(Ordering::Relaxed) > 100, "{received:?}");
        assert!(sent.load(Ordering::Relaxed) > 100, "{sent:?}");
        drop(shared);
        for link in [FIRST_LINK, SECOND_LINK] {
            assert_eq!(host.device.wire(link).flows(), [], "{thread_mode:?}");
        }
        assert!((0..100_000).all(|fd| host.engine.look_up(fd).is_none()));
        assert_eq!(host.statistics().sockets().unwrap(), []);
        assert_eq!(host.free_frames(), 256, "{thread_mode:?}");
    });
}

fn step(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    let slot = &shared.sockets[random.below(SLOTS as u64) as usize];
    match random.below(100) {
        0..12 => {
            let socket = host.unbound();
            if random.below(8) > 0
                && let Err(error) = socket.try_bind("0.0.0.0:0")
            {
                // A thread that sends to the socket that had the number before has bound this one.
                assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
            }
            // The previous one is closed outside of the test's own lock.
            let previous = slot.lock().unwrap().replace(socket);
            drop(previous);
        }
        12..18 => drop(slot.lock().unwrap().take()),
        18..22 => copy(host, shared, random),
        22..26 => connect(host, shared, random),
        26..29 => options(host, shared, random),
        29..31 => network(host, random),
        31..50 => inject(host, shared, random),
        50..65 => send_one(host, shared, random),
        65..85 => receive_one(host, shared, random),
        85..90 => sets(host, shared, random),
        90..97 => wait(host, shared, random),
        _ => {
            host.engine.refresh_gauges();
            while host.device.wire(FIRST_LINK).sent().is_some() {}
        }
    }
}

fn copy(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    let Some(fd) = shared.any_fd(random) else {
        return;
    };
    // SAFETY: dup takes an integer; the number may stand for nothing by now.
    let copy = unsafe { libc::dup(fd) };
    if copy < 0 {
        return;
    }
    host.engine.descriptor_duplicated(fd, copy);
    receive_on(host, shared, copy);
    host.engine.descriptor_closes(copy);
    // SAFETY: the copy is this function's own.
    unsafe { libc::close(copy) };
}

fn connect(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    let Some(fd) = shared.any_fd(random) else {
        return;
    };
    let family = if random.below(2) == 0 {
        libc::AF_INET
    } else {
        libc::AF_UNSPEC
    };
    let address = sockaddr(family, PEER);
    // SAFETY: the address is readable; the number may stand for anything by now.
    unsafe { libc::connect(fd, (&raw const address).cast(), 16) };
    if let Some(socket) = host.engine.udp(fd) {
        host.engine.addresses_changed(socket);
    }
}

fn options(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    let Some(fd) = shared.any_fd(random) else {
        return;
    };
    let Some(socket) = host.engine.udp(fd) else {
        return;
    };
    let (level, name) = match random.below(8) {
        0 => (libc::SOL_SOCKET, libc::SO_PEEK_OFF),
        1 => (libc::SOL_SOCKET, libc::SO_REUSEPORT),
        2 => (libc::SOL_SOCKET, libc::SO_RCVBUF),
        3 => (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
        _ => (libc::IPPROTO_IP, libc::IP_TTL),
    };
    host.engine.option_was_set(socket, level, name);
}

fn network(host: &Host<Device>, random: &mut Random) {
    let gone = random.below(2) == 0;
    host.network.change_interfaces(|interfaces| {
        interfaces[1].addresses = if gone {
            Vec::new()
        } else {
            vec![SECOND_IP.into()]
        };
    });
    host.engine.network_changed(random.below(2) == 0);
}

fn inject(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    let slot = &shared.sockets[random.below(SLOTS as u64) as usize];
    let port = match &*slot.lock().unwrap() {
        Some(socket) => socket.port(),
        None => return,
    };
    let (link, address) = if random.below(4) == 0 {
        (SECOND_LINK, SECOND_IP)
    } else {
        (FIRST_LINK, OUR_IP)
    };
    let wire = host.device.wire(link);
    if wire.waiting() < 200 {
        let mark = random.below(256) as u8;
        let payload = vec![mark; random.below(1400) as usize];
        wire.inject(frame(PEER, SocketAddrV4::new(address, port), &payload));
    }
}

fn send_one(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    let Some(fd) = shared.any_fd(random) else {
        return;
    };
    let Some(socket) = host.engine.udp(fd) else {
        return;
    };
    let last = random.below(250) as u8;
    let mut name = sockaddr(
        libc::AF_INET,
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), 9),
    );
    let mut payload = vec![last; random.below(1600) as usize];
    let mut parts = [part(&mut payload)];
    let mut header = header(&mut parts);
    (header.msg_name, header.msg_namelen) = ((&raw mut name).cast(), 16);
    // SAFETY: the header describes live buffers.
    let message = unsafe { Message::new(&mut header) };
    if let engine::SendOutcome::Done(_) =
        socket.send(host.engine, fd, &message, 0, engine::Follows::Unknown)
    {
        shared.sent.fetch_add(1, Ordering::Relaxed);
    }
}

fn receive_one(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    if let Some(fd) = shared.any_fd(random) {
        receive_on(host, shared, fd);
    }
}

fn receive_on(host: &Host<Device>, shared: &Shared, fd: RawFd) {
    let Some(socket) = host.engine.udp(fd) else {
        return;
    };
    let mut buffer = [0; 2048];
    // A blocking call that gives up instead of sleeping: registers, looks again, takes its
    // registration back.
    let flags = if fd % 2 == 0 { libc::MSG_DONTWAIT } else { 0 };
    let mut call = Receiving::of(host.engine, fd, socket, flags);
    match call.attempt(&mut buffer) {
        RecvOutcome::Done(len) => {
            let bytes = &buffer[..len];
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn frame");
            shared.received.fetch_add(1, Ordering::Relaxed);
        }
        RecvOutcome::Sleep(sleep) => {
            let _ = sleep.end();
        }
        RecvOutcome::Fail(_) | RecvOutcome::Kernel | RecvOutcome::Again => {}
    }
}

fn sets(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    let mut slot = shared.sets[random.below(3) as usize].lock().unwrap();
    let set = match &*slot {
        Some(set) if random.below(20) > 0 => set,
        _ => {
            *slot = Some(Epoll::new(host.engine));
            return;
        }
    };
    let Some(fd) = shared.any_fd(random) else {
        return;
    };
    let kind = [0, EPOLLET, EPOLLONESHOT][random.below(3) as usize];
    let operation = [
        libc::EPOLL_CTL_ADD,
        libc::EPOLL_CTL_MOD,
        libc::EPOLL_CTL_DEL,
    ][random.below(3) as usize];
    let mut event = libc::epoll_event {
        events: (EPOLLIN | kind) as u32,
        u64: fd as u64,
    };
    // SAFETY: the event is readable; the number may stand for nothing by now.
    let done = unsafe { libc::epoll_ctl(set.fd(), operation, fd, &raw mut event) };
    if done == 0 {
        let engine = host.engine;
        engine.epoll_changed(set.fd(), operation, fd, Some(event));
    }
}

fn wait(host: &Host<Device>, shared: &Shared, random: &mut Random) {
    if random.below(2) == 0 {
        let mut fds: Vec<_> = (0..3)
            .filter_map(|_| shared.any_fd(random))
            .map(|fd| polled(fd, IN | OUT))
            .collect();
        poll(host.engine, &mut fds, 0).unwrap();
        return;
    }
    let fd = match &*shared.sets[random.below(3) as usize].lock().unwrap() {
        Some(set) => set.fd(),
        None => return,
    };
    // The set may be closed by now, or be another one.
    if let Some(Object::Epoll(set)) = host.engine.look_up(fd) {
        let mut call = engine::MuxCall::begin(host.engine.settings(), Some(0), true);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        let _ = host.engine.epoll_wait(set, &mut call, &mut events);
    }
}
