//! Calls with any arguments on accelerated sockets, as the hooks make them. The library's hooks
//! cannot be linked in, so this begins where they call the engine. A kernel's socket gets the same
//! calls: what the engine answers itself must be what the kernel says.

#![no_main]

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libfuzzer_sys::fuzz_target;

use host::{Host, Pair};
use input::Input;

#[path = "hooks/calls.rs"]
mod calls;
#[path = "hooks/host.rs"]
mod host;
#[path = "hooks/input.rs"]
mod input;
#[path = "hooks/memory.rs"]
mod memory;
#[path = "hooks/waits.rs"]
mod waits;

thread_local! {
    static HOST: OnceCell<Host> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| HOST.with(|host| run(host.get_or_init(Host::new), bytes)));

fn run(host: &Host, bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut pair = Pair::new(host);
    while !input.is_over() {
        match input.byte() % 16 {
            0..=2 => pair.arrive(host, usize::from(input.byte()) * 6),
            3..=5 => calls::receive(host, &pair, &mut input),
            6 | 7 => calls::send(host, &pair, &mut input),
            8 | 9 => waits::poll(host, &pair, &mut input),
            10 => waits::epoll_control(host, &pair, &mut input),
            11 => waits::epoll_wait(host, &pair, &mut input),
            12 => calls::next_len(host, &pair),
            13 => set_option(host, &mut pair, &mut input),
            14 => copy(host, &pair, &mut input),
            _ => tell(host, &pair, &mut input),
        }
        if !pair.is_accelerated(host) {
            pair.close(host);
            pair = Pair::new(host);
        }
    }
    pair.close(host);
}

/// `setsockopt(2)`, with an option that gets nothing onto a network.
fn set_option(host: &Host, pair: &mut Pair, input: &mut Input<'_>) {
    const OPTIONS: [(i32, i32); 10] = [
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
        (libc::SOL_SOCKET, 66),
        (libc::SOL_SOCKET, libc::SO_RCVBUF),
        (libc::SOL_SOCKET, libc::SO_SNDBUF),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT),
        (libc::SOL_SOCKET, libc::SO_BROADCAST),
        (libc::IPPROTO_IP, libc::IP_TTL),
        (libc::IPPROTO_IP, libc::IP_TOS),
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    ];
    let (level, name) = OPTIONS[usize::from(input.byte()) % OPTIONS.len()];
    let values = [input.int(), input.int(), input.int(), input.int()];
    let place = host.memory.place(&values, input);
    let len = input.int().cast_unsigned();
    let [ours, twins] = [&pair.ours, &pair.twin].map(|socket| {
        // SAFETY: the kernel finds out whether it may read there.
        let result =
            unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, place.cast(), len) };
        calls::answer(result as isize)
    });
    assert_eq!(ours, twins);
    if ours.is_ok() {
        // Frames and the kernel's packets count differently.
        pair.is_alike &= name != libc::SO_RCVBUF;
        host.engine.option_was_set(pair.socket(host), level, name);
    }
}

/// `dup2(2)`, `close(2)` and `close_range(2)`
fn copy(host: &Host, pair: &Pair, input: &mut Input<'_>) {
    let lowest = input.int();
    // SAFETY: integers.
    let copy = unsafe { libc::fcntl(pair.fd(), libc::F_DUPFD_CLOEXEC, lowest) };
    if copy >= 0 {
        // SAFETY: the descriptor is new and ours alone.
        let copy = unsafe { OwnedFd::from_raw_fd(copy) };
        host.engine
            .descriptor_duplicated(pair.fd(), copy.as_raw_fd());
        let is_known = host.engine.look_up(copy.as_raw_fd()).is_some();
        assert!(is_known || !pair.is_accelerated(host), "an unknown copy");
        host.engine.descriptor_closes(copy.as_raw_fd());
    }
    match input.byte() % 8 {
        0 => host.engine.descriptor_closes(input.int()),
        1 => {
            let (first, last) = (input.int().cast_unsigned(), input.int().cast_unsigned());
            if first <= last {
                host.engine.descriptors_close(first, last);
            }
        }
        2 => host.engine.descriptor_handed_down(input.int()),
        3 => host.engine.descriptor_passed(input.int()),
        _ => {}
    }
}

fn group(input: &mut Input<'_>) -> IpAddr {
    let low = input.long();
    match input.byte() % 2 {
        0 => Ipv4Addr::from(low).into(),
        _ => Ipv6Addr::from(0xff05_u128 << 112 | u128::from(low)).into(),
    }
}

/// What the hooks tell the engine after calls of the kernel's.
fn tell(host: &Host, pair: &Pair, input: &mut Input<'_>) {
    let socket = pair.socket(host);
    match input.byte() % 8 {
        0 => host.engine.option_was_set(socket, input.int(), input.int()),
        1 | 2 => host.engine.membership_changed(socket, group(input)),
        3 => host.engine.status_flags_changed(socket),
        4 => {
            let (domain, kind, protocol) = (input.int(), input.int(), input.int());
            let fd = pair.pipe.0.as_raw_fd();
            host.engine.other_socket_opened(fd, domain, kind, protocol);
            let _ = host.engine.is_listed(input.int());
            host.engine.listed_closes(fd);
        }
        5 => host.engine.addresses_changed(socket),
        6 => host.engine.network_changed(input.byte().is_multiple_of(2)),
        _ => {
            host.engine.refresh_gauges();
        }
    }
}
