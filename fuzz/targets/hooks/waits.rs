//! Waiting calls as the hooks make them.

use std::os::fd::AsRawFd;

use engine::user_memory::writable_entries;
use engine::{Errno, MuxCall, MuxOutcome, Object, SelectSets};
use libc::{c_int, c_short, epoll_event, pollfd};

use crate::calls::{ATTEMPTS_MAX, Answer, answer, sleep_a_moment};
use crate::host::{Host, Pair};
use crate::input::Input;

const FDS_MAX: usize = 9;

/// Runs a call to its end: a signal ends its first sleep.
fn finish(call: &mut MuxCall, mut attempt: impl FnMut(&mut MuxCall) -> MuxOutcome) -> Answer {
    for _ in 0..ATTEMPTS_MAX {
        match attempt(call) {
            MuxOutcome::Done(count) => return Ok(count),
            MuxOutcome::Fail(Errno(errno)) => return Err(errno),
            MuxOutcome::Again => {}
            MuxOutcome::Sleep(sleep) => {
                sleep_a_moment(sleep);
                call.end_after_last_look();
            }
        }
    }
    panic!("a waiting call without end");
}

/// A timeout as the hooks understand it.
fn timeout_nsec(input: &mut Input<'_>) -> Option<u64> {
    match input.byte() % 6 {
        0 => None,
        1 => Some(u64::MAX),
        2 => Some(u64::from(input.long()) << 32),
        3 => Some(1),
        _ => Some(0),
    }
}

/// `poll(2)`, or `select(2)` after its sets were made a list.
pub fn poll(host: &Host, pair: &Pair, input: &mut Input<'_>) {
    let mut ours = Vec::new();
    for _ in 0..usize::from(input.byte()) % FDS_MAX {
        let fd = match input.byte() % 16 {
            0 => input.int(),
            1 => -1,
            2 => pair.pipe.0.as_raw_fd(),
            3 => pair.pipe.1.as_raw_fd(),
            4 if input.byte().is_multiple_of(8) => pair.epoll.as_raw_fd(),
            _ => pair.fd(),
        };
        let events = match input.byte() % 4 {
            0 => libc::POLLIN,
            1 => libc::POLLIN | libc::POLLOUT,
            2 => 1 << (input.byte() % 15),
            _ => input.short().cast_signed(),
        };
        ours.push(polled(fd, events));
    }
    let is_select = input.byte().is_multiple_of(8);
    let timeout = timeout_nsec(input);
    let may_poll = input.byte().is_multiple_of(2);
    sets(&ours);
    let Some(sockets) = host.engine.polled_sockets(&ours) else {
        return;
    };
    let mut twins: Vec<_> = ours
        .iter()
        .map(|entry| {
            let is_ours = entry.fd == pair.fd();
            let fd = if is_ours {
                pair.twin.as_raw_fd()
            } else {
                entry.fd
            };
            polled(fd, entry.events)
        })
        .collect();
    let mut call = MuxCall::begin(host.engine.settings(), timeout, may_poll);
    if is_select {
        call = call.of_select();
    }
    let found = finish(&mut call, |call| {
        host.engine.poll(call, &mut ours, &sockets)
    });
    // SAFETY: the descriptors are writable for their number.
    let kernels =
        answer(unsafe { libc::poll(twins.as_mut_ptr(), twins.len() as libc::nfds_t, 0) } as isize);
    if !pair.is_alike || !pair.is_accelerated(host) {
        return;
    }
    let found = match found {
        Err(libc::EINTR) => Ok(0),
        found => found,
    };
    assert_eq!(found, kernels, "ours and the kernel's: {ours:?}, {twins:?}");
    if found != Ok(0) {
        let shown = |fds: &[pollfd]| fds.iter().map(|entry| entry.revents).collect::<Vec<_>>();
        assert_eq!(shown(&ours), shown(&twins), "{ours:?}");
    }
}

fn polled(fd: c_int, events: c_short) -> pollfd {
    pollfd {
        fd,
        events,
        revents: 0x7777,
    }
}

/// The sets that a sleep falls back to.
fn sets(fds: &[pollfd]) {
    let mut fds = fds.to_vec();
    let mut sets = SelectSets::of(&fds);
    assert!(sets.count() >= 0);
    assert!(sets.as_mut_ptrs().iter().all(|set| !set.is_null()));
    sets.store(&mut fds, 0);
    assert!(fds.iter().all(|entry| entry.revents == 0));
}

/// `epoll_ctl(2)`
pub fn epoll_control(host: &Host, pair: &Pair, input: &mut Input<'_>) {
    let operation = match input.byte() % 8 {
        0 => input.int(),
        1 => libc::EPOLL_CTL_DEL,
        2 | 3 => libc::EPOLL_CTL_MOD,
        _ => libc::EPOLL_CTL_ADD,
    };
    let fd = match input.byte() % 8 {
        0 => input.int(),
        1 => pair.pipe.0.as_raw_fd(),
        2 => pair.epoll.as_raw_fd(),
        _ => pair.fd(),
    };
    let epfd = match input.byte() % 16 {
        0 => input.int(),
        1 => pair.fd(),
        _ => pair.epoll.as_raw_fd(),
    };
    let event = epoll_event {
        events: match input.byte() % 4 {
            0 => input.long(),
            1 => (libc::EPOLLIN | libc::EPOLLET).cast_unsigned(),
            2 => (libc::EPOLLIN | libc::EPOLLONESHOT).cast_unsigned(),
            _ => (libc::EPOLLIN | libc::EPOLLOUT).cast_unsigned(),
        },
        u64: fd as u64,
    };
    let place = host.memory.place(&[event], input);
    // SAFETY: the kernel finds out whether it may read there.
    let result = unsafe { libc::epoll_ctl(epfd, operation, fd, place) };
    if result != 0 || host.engine.look_up(fd).is_none() {
        return;
    }
    let has_event = operation != libc::EPOLL_CTL_DEL;
    // SAFETY: the kernel has just read the event.
    let event = has_event.then(|| unsafe { place.read_unaligned() });
    host.engine.epoll_changed(epfd, operation, fd, event);
}

/// `epoll_wait(2)`
pub fn epoll_wait(host: &Host, pair: &Pair, input: &mut Input<'_>) {
    let epfd = pair.epoll.as_raw_fd();
    let Some(Object::Epoll(set)) = host.engine.look_up(epfd) else {
        return;
    };
    let max = input.int();
    let place = host.memory.pointer(input).cast::<epoll_event>();
    let timeout = timeout_nsec(input);
    set.refresh_interfaces();
    // SAFETY: the kernel finds out whether it may write there.
    let kernel = || answer(unsafe { libc::epoll_wait(epfd, place, max, 0) } as isize);
    // SAFETY: callers say for how many entries it is writable.
    let events = |count| unsafe { std::slice::from_raw_parts_mut(place, count) };
    if set.enter_kernel_wait() {
        let silence_before = engine::silence_changes();
        let found = kernel();
        set.leave_kernel_wait();
        if let Ok(count @ 1..) = found {
            let kept =
                set.kernel_has_reported(events(count), silence_before, || set.has_kernel_waiters());
            assert!(kept <= count);
        }
        return;
    }
    let asked = usize::try_from(max).unwrap_or(0);
    let is_too_many = asked > c_int::MAX as usize / size_of::<epoll_event>();
    let writable = writable_entries(place, asked.min(4096));
    if writable == 0 || is_too_many {
        let found = kernel();
        if is_too_many || max <= 0 {
            assert_eq!(found, Err(libc::EINVAL));
        }
        return;
    }
    let events = events(writable);
    let mut call = MuxCall::begin(host.engine.settings(), timeout, true);
    let found = finish(&mut call, |call| host.engine.epoll_wait(set, call, events));
    match found {
        Ok(count) => {
            assert!(count <= writable, "{count} events of {writable}");
            let is_empty = |event: &epoll_event| event.events == 0;
            assert!(!events[..count].iter().any(is_empty), "an empty event");
        }
        Err(errno) => assert_eq!(errno, libc::EINTR, "epoll_wait"),
    }
}
