//! The library's hooks themselves, with any arguments, on a socket that is accelerated: the program
//! runs with libvma.so preloaded (`cargo xtask fuzz` does that), in a network namespace of its own,
//! with a pair of veth interfaces that leads nowhere. What is asked: nothing crashes and nothing
//! hangs. Only the target is guided by coverage; what `hooks` covers is the engine below.

#![no_main]

use std::cell::OnceCell;
use std::ffi::c_void;
use std::process::Command;
use std::ptr;

use libc::{c_int, c_long, epoll_event, fd_set, iovec, mmsghdr, msghdr, pollfd, timespec, timeval};
use libfuzzer_sys::fuzz_target;

use input::Input;
use memory::{Memory, PARTS_MAX};

#[path = "hooks/input.rs"]
mod input;
#[path = "hooks/memory.rs"]
#[allow(dead_code, reason = "for those that compare")]
mod memory;

/// A wait without end ends with the next signal.
const SIGNAL_NSEC: c_long = 3_000_000;
const SELF: [u8; 4] = [10, 77, 0, 2];
const PORT: u16 = 7700;
/// Datagrams that may wait before an input begins.
const ARRIVALS_MAX: u8 = 4;

thread_local! {
    static HOST: OnceCell<Host> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| HOST.with(|host| host.get_or_init(Host::new).run(bytes)));

struct Host {
    memory: Memory,
    /// At the other end of the wire.
    wire: c_int,
    frame: Vec<u8>,
}

/// Sockets of one input.
struct Sockets {
    ours: c_int,
    kernels: c_int,
    epoll: c_int,
}

fn must(result: c_int, what: &str) -> c_int {
    assert!(result >= 0, "{what}: {}", std::io::Error::last_os_error());
    result
}

extern "C" fn nothing(_signal: c_int) {}

fn address(ip: [u8; 4], port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(ip),
        },
        sin_zero: [0; 8],
    }
}

/// `recvfrom(2)` without a buffer by an instruction of its own, which no hook sees: 0, or minus an
/// errno.
fn kernel_looks(fd: c_int, flags: c_int) -> isize {
    let mut result = libc::SYS_recvfrom as isize;
    // SAFETY: the kernel writes nothing, and what it overwrites is named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") fd as isize,
            in("rsi") 0,
            in("rdx") 0,
            in("r10") flags as isize,
            in("r8") 0,
            in("r9") 0,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

impl Host {
    fn new() -> Self {
        // SAFETY: unshare takes an integer.
        must(
            unsafe { libc::unshare(libc::CLONE_NEWNET) },
            "unshare: run it as root",
        );
        let lines = "link set lo up; link add va address 02:00:00:00:00:01 type veth peer name vb address 02:00:00:00:00:02; \
                     link set va up; address add 10.77.0.2/24 dev vb; link set vb up; \
                     neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev vb";
        for line in lines.split("; ") {
            let status = Command::new("ip")
                .args(line.split_whitespace())
                .env_remove("LD_PRELOAD")
                .status();
            assert!(status.is_ok_and(|it| it.success()), "ip {line}");
        }
        end_waits();
        let (domain, protocol) = (libc::AF_PACKET, c_int::from(0x0800_u16.to_be()));
        // SAFETY: socket takes integers.
        let wire = must(
            unsafe { libc::socket(domain, libc::SOCK_RAW, protocol) },
            "AF_PACKET",
        );
        // SAFETY: all-zero is a value of this struct of integers.
        let mut link: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        link.sll_family = domain as u16;
        link.sll_protocol = protocol as u16;
        // SAFETY: a name that ends with a null byte.
        link.sll_ifindex = unsafe { libc::if_nametoindex(c"va".as_ptr()) }.cast_signed();
        let len = size_of_val(&link) as u32;
        // SAFETY: the address is readable for its length.
        must(
            unsafe { libc::bind(wire, (&raw const link).cast(), len) },
            "bind to va",
        );
        let host = Self {
            memory: Memory::new(),
            wire,
            frame: frame(),
        };
        assert!(
            host.is_accelerated(),
            "nothing comes past the kernel: is libvma.so preloaded?"
        );
        host
    }

    /// The kernel's own call finds nothing of what the library's finds.
    fn is_accelerated(&self) -> bool {
        let sockets = Sockets::new();
        self.arrive();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
        let none = ptr::null_mut::<c_void>();
        let kernels = kernel_looks(sockets.ours, flags);
        // SAFETY: no buffer.
        let ours = unsafe { libc::recv(sockets.ours, none, 0, flags) };
        sockets.close();
        kernels < 0 && ours == 0
    }

    /// A datagram for the socket comes over the wire.
    fn arrive(&self) {
        // SAFETY: the frame is readable for its length.
        unsafe { libc::send(self.wire, self.frame.as_ptr().cast(), self.frame.len(), 0) };
    }

    fn run(&self, bytes: &[u8]) {
        let mut input = Input(bytes);
        let sockets = Sockets::new();
        for _ in 0..input.byte() % (ARRIVALS_MAX + 1) {
            self.arrive();
        }
        while !input.is_over() {
            // SAFETY: what the arguments lead to is the target's memory, or none.
            unsafe { self.call(&sockets, &mut input) };
        }
        sockets.close();
    }

    /// One call of the program's.
    ///
    /// # Safety
    /// None: what it leads to is the target's memory, or not there.
    unsafe fn call(&self, sockets: &Sockets, input: &mut Input<'_>) {
        let fd = match input.byte() % 8 {
            0 => sockets.kernels,
            1 => sockets.epoll,
            2 => -1,
            _ => sockets.ours,
        };
        let memory = self.memory;
        let pointer = |input: &mut Input<'_>| memory.pointer(input);
        let header = |input: &mut Input<'_>| {
            // SAFETY: all-zero is a value of this struct of integers and pointers.
            let mut header: msghdr = unsafe { std::mem::zeroed() };
            let (parts, count) = self.parts(input);
            (header.msg_iov, header.msg_iovlen) = (parts, count);
            if input.byte().is_multiple_of(2) {
                header.msg_name = memory.pointer(input).cast();
                header.msg_namelen = input.int().cast_unsigned();
            }
            if input.byte().is_multiple_of(4) {
                header.msg_control = memory.pointer(input).cast();
                header.msg_controllen = input.len();
            }
            header
        };
        // SAFETY: the caller's promise, for all calls below.
        unsafe {
            match input.byte() % 32 {
                0 => self.arrive(),
                1 => {
                    libc::recv(fd, pointer(input).cast(), input.len(), input.flags());
                }
                2 => {
                    let (buffer, len, flags) = (pointer(input), input.len(), input.flags());
                    libc::recvfrom(
                        fd,
                        buffer.cast(),
                        len,
                        flags,
                        pointer(input).cast(),
                        self.length(input),
                    );
                }
                3 => {
                    let header = memory.place(&[header(input)], input);
                    libc::recvmsg(fd, header, input.flags());
                }
                4 => {
                    let list = self.messages(input, header);
                    let (count, flags) = (input.int().cast_unsigned(), input.flags());
                    libc::recvmmsg(fd, list, count, flags, self.time(input));
                }
                5 => {
                    libc::read(fd, pointer(input).cast(), input.len());
                }
                6 => {
                    let (parts, count) = self.parts(input);
                    libc::readv(fd, parts, count as c_int);
                }
                7 => {
                    libc::send(fd, pointer(input).cast(), input.len(), input.flags());
                }
                8 => {
                    let (buffer, len, flags) = (pointer(input), input.len(), input.flags());
                    let (to, to_len) = self.destination(input);
                    libc::sendto(fd, buffer.cast(), len, flags, to, to_len);
                }
                9 => {
                    let header = memory.place(&[header(input)], input);
                    libc::sendmsg(fd, header, input.flags());
                }
                10 => {
                    let list = self.messages(input, header);
                    libc::sendmmsg(fd, list, input.int().cast_unsigned() % 64, input.flags());
                }
                11 => {
                    let (parts, count) = self.parts(input);
                    libc::writev(fd, parts, count as c_int);
                }
                12 => {
                    libc::write(fd, pointer(input).cast(), input.len());
                }
                13 | 14 => {
                    let (list, count) = self.polled(sockets, input);
                    libc::poll(list, count, input.int());
                }
                15 => {
                    let (list, count) = self.polled(sockets, input);
                    let mut time = self.any_time(input);
                    let time = or_null(&mut time, input);
                    libc::ppoll(list, count, time, pointer(input).cast());
                }
                16 => {
                    let sets = self.sets(sockets, input);
                    let (tv_sec, tv_usec) = (input.int().into(), input.int().into());
                    let mut time = timeval { tv_sec, tv_usec };
                    let time = or_null(&mut time, input);
                    libc::select(input.int(), sets[0], sets[1], sets[2], time);
                }
                17 => {
                    let sets = self.sets(sockets, input);
                    let (count, mut time) = (input.int(), self.any_time(input));
                    let time = or_null(&mut time, input);
                    libc::pselect(
                        count,
                        sets[0],
                        sets[1],
                        sets[2],
                        time,
                        pointer(input).cast(),
                    );
                }
                18 | 19 => {
                    let event = epoll_event {
                        events: input.long(),
                        u64: input.long().into(),
                    };
                    let event = memory.place(&[event], input);
                    libc::epoll_ctl(sockets.epoll, input.int() % 4, fd, event);
                }
                20 => {
                    libc::epoll_wait(
                        sockets.epoll,
                        pointer(input).cast(),
                        input.int(),
                        input.int(),
                    );
                }
                21 => {
                    let (events, max, time) = (pointer(input), input.int(), input.int());
                    libc::epoll_pwait(
                        sockets.epoll,
                        events.cast(),
                        max,
                        time,
                        pointer(input).cast(),
                    );
                }
                22 => {
                    let (level, name, value) = (input.int(), input.int(), pointer(input));
                    libc::getsockopt(fd, level, name, value.cast(), self.length(input));
                }
                23 => {
                    const LEVELS: [c_int; 4] =
                        [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::IPPROTO_UDP, -1];
                    let level = LEVELS[usize::from(input.byte()) % LEVELS.len()];
                    let (name, value) = (c_int::from(input.byte() % 80), pointer(input));
                    libc::setsockopt(fd, level, name, value.cast(), input.int().cast_unsigned());
                }
                24 => {
                    libc::getsockname(fd, pointer(input).cast(), self.length(input));
                    libc::getpeername(fd, pointer(input).cast(), self.length(input));
                }
                25 => {
                    const REQUESTS: [libc::c_ulong; 4] = [
                        libc::FIONREAD,
                        libc::FIONBIO,
                        libc::FIOASYNC,
                        libc::TIOCOUTQ,
                    ];
                    let request = REQUESTS[usize::from(input.byte()) % REQUESTS.len()];
                    libc::ioctl(fd, request, pointer(input));
                }
                26 => {
                    const COMMANDS: [c_int; 4] =
                        [libc::F_GETFL, libc::F_GETFD, libc::F_SETFD, libc::F_GETOWN];
                    let command = COMMANDS[usize::from(input.byte()) % COMMANDS.len()];
                    libc::fcntl(fd, command, input.int());
                    let flags = libc::O_NONBLOCK * c_int::from(input.byte() % 2);
                    libc::fcntl(fd, libc::F_SETFL, flags);
                }
                27 => {
                    let (to, len) = self.destination(input);
                    libc::connect(fd, to, len);
                }
                28 => {
                    let (to, len) = self.destination(input);
                    libc::bind(fd, to, len);
                }
                29 => {
                    let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, input.int());
                    if copy >= 0 {
                        libc::close(copy);
                    }
                    libc::shutdown(fd, input.int());
                }
                30 => {
                    libc::accept4(fd, pointer(input).cast(), self.length(input), input.int());
                    libc::listen(fd, input.int());
                }
                _ => {
                    libc::close(-1 - i32::from(input.byte()));
                    libc::socket(input.int(), libc::SOCK_DGRAM | input.int(), -1);
                }
            }
        }
    }

    fn parts(&self, input: &mut Input<'_>) -> (*mut iovec, usize) {
        let count = usize::from(input.byte()) % (PARTS_MAX + 1);
        let parts: Vec<_> = (0..count)
            .map(|_| iovec {
                iov_base: self.memory.pointer(input).cast(),
                iov_len: input.len(),
            })
            .collect();
        let place = self.memory.place(&parts, input);
        let said = if input.byte().is_multiple_of(8) {
            input.len()
        } else {
            count
        };
        (place, said)
    }

    fn messages(
        &self,
        input: &mut Input<'_>,
        header: impl Fn(&mut Input<'_>) -> msghdr,
    ) -> *mut mmsghdr {
        let messages: Vec<_> = (0..usize::from(input.byte()) % 5)
            .map(|_| mmsghdr {
                msg_hdr: header(input),
                msg_len: 0,
            })
            .collect();
        self.memory.place(&messages, input)
    }

    fn polled(&self, sockets: &Sockets, input: &mut Input<'_>) -> (*mut pollfd, libc::nfds_t) {
        let list: Vec<_> = (0..usize::from(input.byte()) % 6)
            .map(|_| pollfd {
                fd: sockets.any(input),
                events: input.short().cast_signed(),
                revents: -1,
            })
            .collect();
        let count = if input.byte().is_multiple_of(8) {
            input.len()
        } else {
            list.len()
        };
        (self.memory.place(&list, input), count as libc::nfds_t)
    }

    fn sets(&self, sockets: &Sockets, input: &mut Input<'_>) -> [*mut fd_set; 3] {
        // One after the other in one place.
        [(); 3].map(|()| {
            if input.byte().is_multiple_of(4) {
                return self.memory.pointer(input).cast();
            }
            // SAFETY: all-zero is a value of this struct of integers.
            let mut set: fd_set = unsafe { std::mem::zeroed() };
            let fd = sockets.any(input);
            if (0..1024).contains(&fd) {
                // SAFETY: the set has that bit.
                unsafe { libc::FD_SET(fd, &raw mut set) };
            }
            self.memory.place(&[set], input)
        })
    }

    fn any_time(&self, input: &mut Input<'_>) -> timespec {
        let mut part = || match input.byte() % 4 {
            0 => c_long::from(input.int()),
            1 => c_long::MAX,
            2 => c_long::MIN,
            _ => 0,
        };
        timespec {
            tv_sec: part(),
            tv_nsec: part(),
        }
    }

    fn time(&self, input: &mut Input<'_>) -> *mut timespec {
        let time = self.any_time(input);
        self.memory.place(&[time], input)
    }

    fn length(&self, input: &mut Input<'_>) -> *mut libc::socklen_t {
        let length = input.int().cast_unsigned();
        self.memory.place(&[length], input)
    }

    fn destination(&self, input: &mut Input<'_>) -> (*const libc::sockaddr, libc::socklen_t) {
        let ip = match input.byte() % 4 {
            0 => input.long().to_ne_bytes(),
            1 => [0; 4],
            _ => [10, 77, 0, 1],
        };
        let place = self.memory.place(&[address(ip, input.short())], input);
        let len = match input.byte() % 4 {
            0 => input.int().cast_unsigned(),
            _ => size_of::<libc::sockaddr_in>() as u32,
        };
        (place.cast(), len)
    }
}

impl Sockets {
    fn new() -> Self {
        // SAFETY: integers.
        let socket = || unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
        let sockets = Self {
            ours: must(socket(), "socket"),
            kernels: must(socket(), "socket"),
            // SAFETY: an integer.
            epoll: must(unsafe { libc::epoll_create1(0) }, "epoll_create1"),
        };
        for (fd, ip, port) in [
            (sockets.ours, SELF, PORT),
            (sockets.kernels, [127, 0, 0, 1], 0),
        ] {
            let own = address(ip, port);
            let len = size_of_val(&own) as u32;
            // SAFETY: the address is readable for its length.
            must(
                unsafe { libc::bind(fd, (&raw const own).cast(), len) },
                "bind",
            );
        }
        sockets
    }

    fn any(&self, input: &mut Input<'_>) -> c_int {
        match input.byte() % 8 {
            0 => self.kernels,
            1 => self.epoll,
            2 => input.int(),
            _ => self.ours,
        }
    }

    fn close(self) {
        for fd in [self.ours, self.kernels, self.epoll] {
            // SAFETY: the descriptors are ours.
            unsafe { libc::close(fd) };
        }
    }
}

/// What the C library itself reads: it must be there.
fn or_null<T>(value: &mut T, input: &mut Input<'_>) -> *mut T {
    if input.byte().is_multiple_of(4) {
        ptr::null_mut()
    } else {
        value
    }
}

/// Has every wait end before long.
fn end_waits() {
    let signal = libc::SIGRTMIN() + 1;
    // SAFETY: all-zero is a value of this struct: an empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    // SAFETY: the handler does nothing.
    must(
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) },
        "sigaction",
    );
    // SAFETY: all-zero is a value of this struct.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    // SAFETY: takes nothing.
    event.sigev_notify_thread_id = unsafe { libc::syscall(libc::SYS_gettid) } as c_int;
    let mut timer = ptr::null_mut();
    // SAFETY: both are the caller's.
    must(
        unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) },
        "timer",
    );
    let every = timespec {
        tv_sec: 0,
        tv_nsec: SIGNAL_NSEC,
    };
    let times = libc::itimerspec {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the timer is the one above.
    must(
        unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) },
        "timer",
    );
}

/// A datagram from the peer, without a UDP checksum.
fn frame() -> Vec<u8> {
    let payload = [7; 20];
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let udp_len = 8 + payload.len() as u16;
    let mut ip = [
        0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2,
    ];
    ip[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
    let sum: u32 = ip
        .chunks(2)
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    for word in [PORT, PORT, udp_len, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}
