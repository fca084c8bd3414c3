//! The kernel's part of registrations whose sockets it knows nothing of.

use std::sync::LazyLock;

use libc::epoll_event;

use crate::sockets::events;

const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
/// The kernel tells of these whatever is asked of it, once.
pub(super) const ALWAYS_TOLD: u32 = events::HUP | events::ERR;

/// What the kernel gets in place of `event`: it is refused what it would be refused, and tells
/// nothing that the program gets.
pub(crate) fn silent_event(event: epoll_event) -> epoll_event {
    const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
    let events = if event.events & EXCLUSIVE == 0 {
        ONESHOT
    } else {
        // Beside this it takes some others only.
        event.events & !(events::IN | events::OUT)
    };
    epoll_event {
        events,
        u64: data(),
    }
}

/// Its data. Not the program's, which has taken the socket out of the set, perhaps, and knows
/// something else by them.
pub(super) fn data() -> u64 {
    // A random number, so that no program has the same by chance or by habit.
    static DATA: LazyLock<u64> = LazyLock::new(sys::random);
    *DATA
}

/// Takes out what the kernel tells of such registrations; returns how many events are left.
#[inline]
pub(super) fn take_out(events: &mut [epoll_event]) -> usize {
    retain(events, |event| {
        event.events & ALWAYS_TOLD == 0 || event.u64 != data()
    })
}

/// Leaves the events that are to be kept, in their order; returns how many.
#[inline]
pub(super) fn retain(
    events: &mut [epoll_event],
    mut keeps: impl FnMut(&mut epoll_event) -> bool,
) -> usize {
    let mut kept = 0;
    for index in 0..events.len() {
        if keeps(&mut events[index]) {
            events[kept] = events[index];
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: u64 = 7;

    fn event(events: u32, data: u64) -> epoll_event {
        epoll_event { events, u64: data }
    }

    #[test]
    fn what_is_told_of_a_silent_socket_is_nobodys() {
        // Another thread may have taken it out before this one looks: its data say nothing.
        let told = silent_event(event(events::IN, SOCKET));
        let mut events = [
            event(events::IN, SOCKET),
            event(events::HUP, told.u64),
            event(events::HUP | events::ERR, SOCKET),
            event(events::HUP | events::ERR, told.u64),
        ];
        let kept = take_out(&mut events);
        let kept: Vec<_> = events[..kept]
            .iter()
            .map(|it| (it.events, it.u64))
            .collect();
        let expected = [(events::IN, SOCKET), (events::HUP | events::ERR, SOCKET)];
        assert_eq!(kept, expected);
    }

    #[test]
    fn it_is_asked_for_once_or_alone() {
        const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
        let silent = |events| silent_event(event(events, SOCKET)).events;
        assert_eq!(silent(events::IN | events::OUT), ONESHOT);
        assert_eq!(silent(events::IN | EXCLUSIVE), EXCLUSIVE);
    }
}
