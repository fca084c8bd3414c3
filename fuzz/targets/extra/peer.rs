//! The other end of the wire: sockets of the kernel's in a namespace of their own. The library
//! never hears of them: they are made and used by instructions of the program's own.

use std::arch::asm;
use std::process::Command;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use libc::c_int;

/// A system call that no hook sees: its result, or minus an errno.
pub fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let mut result = number as isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the callers vouch for the arguments; what the kernel overwrites is named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

pub fn address(ip: [u8; 4], port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(ip),
        },
        sin_zero: [0; 8],
    }
}

/// Has a thread in the peer's namespace make sockets.
pub struct Peer {
    wanted: SyncSender<(c_int, u16)>,
    made: Receiver<c_int>,
}

fn ip(line: &str) {
    let status = Command::new("ip")
        .args(line.split_whitespace())
        .env_remove("LD_PRELOAD")
        .status();
    assert!(status.is_ok_and(|it| it.success()), "ip {line}");
}

impl Peer {
    /// Enters a namespace, and makes a wire that ends in another one. Before the first socket.
    pub fn new() -> Self {
        // SAFETY: unshare takes an integer.
        let own = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(own, 0, "unshare: run it as root");
        let (tell, told) = sync_channel(1);
        let (begin, begun) = sync_channel::<()>(1);
        let (wanted, asked) = sync_channel(1);
        let (answer, made) = sync_channel(1);
        thread::spawn(move || {
            // SAFETY: as above; of this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            // SAFETY: takes nothing.
            tell.send(unsafe { libc::syscall(libc::SYS_gettid) })
                .unwrap();
            begun.recv().unwrap();
            ip("link set lo up");
            ip("address add 10.77.0.1/24 dev va");
            ip("link set va up");
            ip("neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev va");
            while let Ok((kind, port)) = asked.recv() {
                answer.send(connected(kind, port)).unwrap();
            }
        });
        let thread = told.recv().unwrap();
        ip("link set lo up");
        ip(
            "link add va address 02:00:00:00:00:01 type veth peer name vb address 02:00:00:00:00:02",
        );
        ip(&format!("link set va netns {thread}"));
        ip("address add 10.77.0.2/24 dev vb");
        ip("link set vb up");
        ip("neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev vb");
        begin.send(()).unwrap();
        Self { wanted, made }
    }

    /// A socket that has been, or is being, connected to a port of ours.
    pub fn socket(&self, kind: c_int, port: u16) -> c_int {
        self.wanted.send((kind, port)).unwrap();
        self.made.recv().unwrap()
    }
}

fn connected(kind: c_int, port: u16) -> c_int {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let fd = system_call(
        libc::SYS_socket,
        [libc::AF_INET as usize, kind as usize, 0, 0, 0, 0],
    );
    assert!(fd >= 0, "socket: {fd}");
    let to = address([10, 77, 0, 2], port);
    let place = (&raw const to).addr();
    system_call(
        libc::SYS_connect,
        [fd as usize, place, size_of_val(&to), 0, 0, 0],
    );
    fd as c_int
}

/// Sends so many octets, as far as there is room for them.
pub fn send(fd: c_int, octets: &[u8]) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let place = octets.as_ptr().addr();
    system_call(
        libc::SYS_sendto,
        [fd as usize, place, octets.len(), flags as usize, 0, 0],
    );
}

/// Takes what has come.
pub fn drain(fd: c_int) {
    let mut room = [0_u8; 4096];
    let (place, flags) = (room.as_mut_ptr().addr(), libc::MSG_DONTWAIT as usize);
    let take = || {
        system_call(
            libc::SYS_recvfrom,
            [fd as usize, place, room.len(), flags, 0, 0],
        )
    };
    while take() > 0 {}
}

/// Ends it at once (`RST`).
pub fn close(fd: c_int) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_LINGER as usize);
    let place = (&raw const linger).addr();
    system_call(
        libc::SYS_setsockopt,
        [fd as usize, level, name, place, size_of_val(&linger), 0],
    );
    system_call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
}
