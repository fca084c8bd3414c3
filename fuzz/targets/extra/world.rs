//! The program around the calls: its sockets, and what it has of the library's packets.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_int, c_long, timespec};

use crate::calls::{self, Table};
use crate::memory::Memory;
use crate::peer::{self, Peer, address};

/// A wait without end ends with the next signal.
const SIGNAL_NSEC: c_long = 3_000_000;
const SELF: [u8; 4] = [10, 77, 0, 2];
const PORT: u16 = 7700;
/// The datagrams' first octet, which says how the others go on.
pub const PAYLOAD: [u8; 1400] = {
    let mut octets = [0; 1400];
    let mut at = 0;
    while at < octets.len() {
        octets[at] = at as u8;
        at += 1;
    }
    octets
};

pub struct Host {
    pub table: &'static Table,
    pub memory: Memory,
    peer: Peer,
    listener: c_int,
    datagrams: c_int,
}

/// A packet that the program has.
#[derive(Clone, Copy)]
pub struct Held {
    pub id: usize,
    pub data: *const u8,
    pub len: usize,
    /// Of whom.
    pub fd: c_int,
    /// What there was when it came.
    pub sum: u32,
}

/// Of one input.
pub struct World<'a> {
    pub host: &'a Host,
    pub udp: Cell<c_int>,
    /// -1: there is none.
    pub stream: Cell<c_int>,
    pub peers_stream: Cell<c_int>,
    pub kernels: c_int,
    pub epoll: c_int,
    pub held: RefCell<Vec<Held>>,
    /// Buffers of completions.
    pub buffers: RefCell<Vec<usize>>,
    /// What the function that sees packets first does next.
    pub deeds: RefCell<Vec<u8>>,
    pub depth: Cell<u32>,
}

pub fn must(result: c_int, what: &str) -> c_int {
    assert!(result >= 0, "{what}: {}", std::io::Error::last_os_error());
    result
}

fn bound(kind: c_int, ip: [u8; 4], port: u16) -> c_int {
    // SAFETY: integers.
    let fd = must(unsafe { libc::socket(libc::AF_INET, kind, 0) }, "socket");
    let on: c_int = 1;
    let (own, on) = (address(ip, port), &raw const on);
    // SAFETY: the option is readable for its length.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, on.cast(), 4) };
    // SAFETY: the address is readable for its length.
    let result = unsafe { libc::bind(fd, (&raw const own).cast(), size_of_val(&own) as u32) };
    must(result, "bind");
    fd
}

impl Host {
    pub fn new() -> Self {
        let peer = Peer::new();
        end_waits();
        let mut table: *const Table = ptr::null();
        let mut len = size_of_val(&table) as u32;
        let place = (&raw mut table).cast();
        // SAFETY: the library writes a pointer there.
        unsafe { libc::getsockopt(-1, libc::SOL_SOCKET, 2800, place, &raw mut len) };
        // SAFETY: null, or the library's table.
        let table = unsafe { table.as_ref() }.expect("is libvma.so preloaded?");
        let listener = bound(libc::SOCK_STREAM, SELF, PORT);
        // SAFETY: integers.
        must(unsafe { libc::listen(listener, 16) }, "listen");
        let datagrams = peer.socket(libc::SOCK_DGRAM, PORT);
        let host = Self {
            table,
            memory: Memory::new(),
            peer,
            listener,
            datagrams,
        };
        let world = World::new(&host);
        let until = Instant::now() + Duration::from_secs(10);
        while !calls::receives_in_place(&world) {
            assert!(Instant::now() < until, "nothing comes past the kernel");
            std::thread::sleep(Duration::from_millis(10));
        }
        world.close();
        host
    }

    /// A datagram comes over the wire.
    pub fn arrive(&self, len: usize) {
        peer::send(self.datagrams, &PAYLOAD[..len.min(PAYLOAD.len())]);
    }

    pub fn listener(&self) -> c_int {
        self.listener
    }
}

impl<'a> World<'a> {
    pub fn new(host: &'a Host) -> Self {
        Self {
            host,
            udp: Cell::new(bound(libc::SOCK_DGRAM, SELF, PORT)),
            stream: Cell::new(-1),
            peers_stream: Cell::new(-1),
            kernels: bound(libc::SOCK_DGRAM, [127, 0, 0, 1], 0),
            // SAFETY: an integer.
            epoll: must(unsafe { libc::epoll_create1(0) }, "epoll_create1"),
            held: RefCell::default(),
            buffers: RefCell::default(),
            deeds: RefCell::default(),
            depth: Cell::new(0),
        }
    }

    /// A new connection, if there is none.
    pub fn connect(&self) {
        if self.stream.get() >= 0 {
            return;
        }
        let peers = self.host.peer.socket(libc::SOCK_STREAM, PORT);
        let until = Instant::now() + Duration::from_millis(500);
        let mut event = libc::pollfd {
            fd: self.host.listener,
            events: libc::POLLIN,
            revents: 0,
        };
        while Instant::now() < until {
            // SAFETY: one entry.
            if unsafe { libc::poll(&raw mut event, 1, 50) } <= 0 {
                continue;
            }
            let (none, flags) = (ptr::null_mut(), libc::SOCK_NONBLOCK);
            // SAFETY: no room for an address.
            let fd = unsafe { libc::accept4(self.host.listener, none, none.cast(), flags) };
            self.stream.set(fd);
            self.peers_stream.set(peers);
            return;
        }
        peer::close(peers);
    }

    /// The socket is closed, and there is another one.
    pub fn reopen(&self) {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(self.udp.get()) };
        self.udp.set(bound(libc::SOCK_DGRAM, SELF, PORT));
    }

    pub fn end_stream(&self) {
        let (ours, peers) = (self.stream.replace(-1), self.peers_stream.replace(-1));
        if ours >= 0 {
            // SAFETY: the descriptor is ours.
            unsafe { libc::close(ours) };
            peer::close(peers);
        }
    }

    /// Nobody writes to what the program holds.
    pub fn check_held(&self) {
        for held in &*self.held.borrow() {
            assert_eq!(
                calls::sum(held.data, held.len),
                held.sum,
                "a held packet changed"
            );
        }
    }

    pub fn close(self) {
        self.check_held();
        calls::give_all_back(&self);
        self.end_stream();
        for fd in [self.udp.get(), self.kernels, self.epoll] {
            // SAFETY: the descriptors are ours.
            unsafe { libc::close(fd) };
        }
    }

    pub fn as_context(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}

extern "C" fn nothing(_signal: c_int) {}

/// Has every wait end before long.
fn end_waits() {
    let signal = libc::SIGRTMIN() + 1;
    // SAFETY: all-zero is a value of this struct: an empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    // SAFETY: the handler does nothing.
    let set = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    must(set, "sigaction");
    // SAFETY: all-zero is a value of this struct.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    // SAFETY: takes nothing.
    event.sigev_notify_thread_id = unsafe { libc::syscall(libc::SYS_gettid) } as c_int;
    let mut timer = ptr::null_mut();
    let place = &raw mut timer;
    // SAFETY: both are the caller's.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, place) };
    must(made, "timer");
    let every = timespec {
        tv_sec: 0,
        tv_nsec: SIGNAL_NSEC,
    };
    let times = libc::itimerspec {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the timer is the one above.
    let set = unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) };
    must(set, "timer");
}
