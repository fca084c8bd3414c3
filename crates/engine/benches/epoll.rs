//! What an epoll set costs that has many members: `cargo bench -p engine --bench epoll`.
//!
//! Prints one line of JSON a case: the median over batches of the time for one call with ten
//! members and with ten thousand, in turn. The library's part only, but for `kernel`, where the
//! kernel's own `epoll_wait(2)` is in it. Needs that many descriptors.

#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket as KernelSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

use dev_core::null::NullBackend;
use engine::{Engine, MuxCall, MuxOutcome, Object, Settings};
use libc::{c_int, epoll_event};

use support::{accelerate, address_of, engine, frame_to, settings};

const FEW: usize = 10;
const MANY: usize = 10_000;
const BATCH: u32 = 1000;
const BATCHES: usize = 40;
const BATCHES_QUICK: usize = 2;
/// From this case on a member has something that came past the kernel, and the kernel is not asked.
const FIRST_OF_OURS: &str = "wait";

/// What is measured.
type Call = fn(&Set);

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let batches = if quick { BATCHES_QUICK } else { BATCHES };
    if !allow_descriptors(MANY + 1000) {
        println!("skipped: the limit of descriptors (RLIMIT_NOFILE) cannot be raised");
        return;
    }
    let (few, many) = (Set::with(FEW), Set::with(MANY));
    let cases: [(&str, Call); 5] = [
        ("kernel", Set::wait),
        (FIRST_OF_OURS, Set::wait),
        ("add and delete", Set::add_and_delete),
        ("modify", Set::modify),
        ("add and close", Set::add_and_close),
    ];
    for (name, call) in cases {
        if name == FIRST_OF_OURS {
            few.receive_past_kernel();
            many.receive_past_kernel();
        }
        let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
        for set in [&few, &many] {
            batch(set, call);
        }
        // In turn, so that a change of the machine's mood meets both.
        for _ in 0..batches {
            of_few.push(batch(&few, call));
            of_many.push(batch(&many, call));
        }
        for (count, times) in [(FEW, of_few), (MANY, of_many)] {
            let nsec = median(times);
            println!("{{\"name\":\"{name}: {count}\",\"nsec\":{nsec:.1}}}");
        }
    }
}

/// The time of one call, in nanoseconds.
fn batch(set: &Set, call: Call) -> f64 {
    let begun = Instant::now();
    (0..BATCH).for_each(|_| call(set));
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn allow_descriptors(count: usize) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes the limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    limit.rlim_cur = limit.rlim_cur.max(count as libc::rlim_t);
    limit.rlim_max = limit.rlim_max.max(limit.rlim_cur);
    // SAFETY: the kernel reads the limit.
    known && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0
}

/// An engine, and an epoll set with accelerated sockets in it. In the socket of one, the kernel's,
/// something waits to be read.
struct Set {
    engine: &'static Engine<NullBackend>,
    epoll: OwnedFd,
    device: NullBackend,
    members: Vec<KernelSocket>,
    ready: RawFd,
    /// Is not in the set.
    guest: KernelSocket,
}

impl Set {
    fn with(count: usize) -> Self {
        let device = NullBackend::default();
        let settings = Settings {
            select_skip_os: 0,
            ..settings()
        };
        let engine = engine(settings, &device);
        // SAFETY: epoll_create1 takes an integer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0);
        // SAFETY: the descriptor is new and ours alone.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        engine.epoll_created(epoll.as_raw_fd());
        let members: Vec<_> = (0..count).map(|_| bound(engine)).collect();
        // In the middle of any order.
        let ready = &members[count / 2];
        let mut set = Self {
            engine,
            epoll,
            device,
            ready: ready.as_raw_fd(),
            guest: bound(engine),
            members: Vec::new(),
        };
        for member in &members {
            set.control(libc::EPOLL_CTL_ADD, member.as_raw_fd());
        }
        let mut address = address_of(ready);
        address.set_ip(Ipv4Addr::LOCALHOST);
        set.guest
            .send_to(b"waits", address)
            .expect("a loopback interface");
        set.members = members;
        set
    }

    /// `epoll_ctl(2)`, the kernel's part included.
    fn control(&self, operation: c_int, fd: RawFd) {
        let mut event = event_of(fd);
        // SAFETY: the event is readable.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) };
        assert_eq!(result, 0);
        self.follow(operation, fd);
    }

    /// The library's part of `epoll_ctl(2)`.
    fn follow(&self, operation: c_int, fd: RawFd) {
        let event = (operation != libc::EPOLL_CTL_DEL).then(|| event_of(fd));
        self.engine
            .epoll_changed(self.epoll.as_raw_fd(), operation, fd, event);
    }

    /// One is ready.
    fn wait(&self) {
        let Some(Object::Epoll(set)) = self.engine.look_up(self.epoll.as_raw_fd()) else {
            panic!("a set with accelerated sockets is the engine's")
        };
        let mut call = MuxCall::begin(self.engine.settings(), Some(0), true);
        let mut events = [epoll_event { events: 0, u64: 0 }; 8];
        match self.engine.epoll_wait(set, &mut call, &mut events) {
            MuxOutcome::Done(1) => {
                let data = black_box(events)[0].u64;
                let expected = event_of(self.ready).u64;
                assert_eq!(data, expected);
            }
            other => panic!("{other:?}"),
        }
    }

    /// A datagram comes past the kernel.
    fn receive_past_kernel(&self) {
        let ready = self
            .members
            .iter()
            .find(|member| member.as_raw_fd() == self.ready);
        self.device
            .inject(&frame_to(ready.expect("it is a member"), b"waits"));
        let ours = self.engine.udp(self.ready).expect("it is open");
        assert_eq!(ours.next_len_after_poll(), Some(5));
    }

    fn add_and_delete(&self) {
        self.follow(libc::EPOLL_CTL_ADD, self.guest.as_raw_fd());
        self.wait();
        self.follow(libc::EPOLL_CTL_DEL, self.guest.as_raw_fd());
        self.wait();
    }

    fn modify(&self) {
        self.follow(libc::EPOLL_CTL_MOD, self.ready);
    }

    fn add_and_close(&self) {
        let fd = self.guest.as_raw_fd();
        self.follow(libc::EPOLL_CTL_ADD, fd);
        self.engine.descriptor_closes(fd);
        accelerate(self.engine, &self.guest);
        self.wait();
    }
}

fn event_of(fd: RawFd) -> epoll_event {
    epoll_event {
        events: libc::EPOLLIN as u32,
        u64: fd.cast_unsigned().into(),
    }
}

fn bound(engine: &Engine<NullBackend>) -> KernelSocket {
    let socket = KernelSocket::bind("0.0.0.0:0").expect("a UDP socket");
    accelerate(engine, &socket);
    socket
}
