//! Programs that wait for a socket by instructions of their own: no hook sees that, and the
//! kernel's socket never becomes ready.
//!
//! A socket that was ready at two looks is reason enough to see what the threads sleep in. It is
//! such a program if one of them sleeps in a call that waits for this very socket, and neither the
//! C library nor this one has made that call.

use std::sync::atomic::Ordering;

use descriptors::own;
use libc::{c_int, c_long};
use links::reason::Reason;
use sys::{SetMember, SleepingCall};

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;

/// How many descriptors, and threads, are looked at in one go.
const DESCRIPTORS_MAX: u32 = 1024;
const THREADS_MAX: usize = 256;
/// Sockets at a time that are remembered as ready.
const SUSPECTS_MAX: usize = 64;
/// How deep sets may be nested: as deep as the kernel allows.
const DEPTH_MAX: u32 = 5;
/// As many members of `poll(2)` are looked at.
const POLLED_MAX: u64 = 4096;
/// What somebody may sleep for; the kernel socket of a connection is always writable.
const LOOKED_FOR: u32 = events::IN | events::RDHUP | events::PRI | events::ALWAYS;

/// A socket that is ready although nobody has taken what it is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Suspect {
    fd: c_int,
    life: (usize, u32),
    inode: u64,
    ready: u32,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    suspects: Vec<Suspect>,
    next_descriptor: u32,
    next_thread: usize,
    /// How often in a row it was looked in vain what threads sleep in.
    in_vain: u32,
}

/// The pause between two looks grows to as many times the first.
const PAUSE_MAX: u32 = 20;

impl Looks {
    /// Whether some sockets have stayed ready, so that it is time to look what threads sleep in.
    /// `now`: those that are.
    fn compare(&mut self, now: Vec<Suspect>) -> bool {
        let stays = |it: &Suspect| self.suspects.iter().any(|old| old.life == it.life);
        let any_stays = now.iter().any(stays);
        self.suspects = now;
        self.in_vain = match self.suspects.is_empty() {
            true => 0,
            false => self.in_vain.saturating_add(any_stays.into()),
        };
        any_stays
    }

    /// How many times as long as usual the pause is until the next look. Who never reads a socket
    /// costs nothing in the end.
    pub(crate) fn pauses(&self) -> u32 {
        let doublings = self.in_vain.saturating_sub(1).min(31);
        (1 << doublings).min(PAUSE_MAX)
    }
}

impl<S: Stack> Host<S> {
    /// Gives all sockets to the kernel if the program waits for one that is ready past the library.
    /// `false`: there is none that is ready.
    pub(crate) fn look_for_waits_past_it(&self, looks: &mut Looks) -> bool {
        if self.withdrawn().is_some() {
            return false;
        }
        let now = self.ready_sockets(looks);
        let is_any = !now.is_empty();
        if looks.compare(now)
            && sys::may_ask_for_threads()
            && let Some((thread, suspect)) = find_waiter(looks)
        {
            let detail = format!("thread {thread} for descriptor {}", suspect.fd);
            self.withdraw_passed_by(&detail);
            return false;
        }
        is_any
    }

    /// Leaves all sockets to the kernel. On its way there a connection looks like one that has
    /// ended: sets of the program's own, whose waits nobody sees, do not have it meanwhile.
    fn withdraw_passed_by(&self, detail: &str) {
        self.withdraws(Reason::PassedBy, detail);
        let registrations = Registrations::of_program(|fd| self.table.get(fd).is_some());
        for (_, socket) in self.sockets() {
            let core = socket.core();
            if core.is_offloaded() && core.is_silent() && !core.readiness.is_watched() {
                let taken_out =
                    registrations.take_out(core.kernel_socket.inode.load(Ordering::Relaxed));
                self.leave_to_kernel_about(socket, Reason::PassedBy, "");
                taken_out.into_iter().for_each(Registration::put_back);
            }
        }
        self.withdraw(Reason::PassedBy, detail);
    }

    fn ready_sockets(&self, looks: &mut Looks) -> Vec<Suspect> {
        let highest = self.highest_descriptor().max(0).cast_unsigned();
        let all_at_once = highest < DESCRIPTORS_MAX;
        let first = match looks.next_descriptor {
            next if all_at_once || next > highest => 0,
            next => next,
        };
        let last = first.saturating_add(DESCRIPTORS_MAX - 1).min(highest);
        looks.next_descriptor = last + 1;
        // Of the other parts of the table only those that are known.
        let seen = |fd: c_int| (first..=last).contains(&fd.cast_unsigned());
        let elsewhere = looks.suspects.iter().filter(|it| !seen(it.fd));
        let kept = elsewhere.filter_map(|old| {
            suspect(old.fd, self.socket(old.fd)?).filter(|it| it.life == old.life)
        });
        let mut suspects: Vec<_> = kept.collect();
        for fd in self.table.range(first, last) {
            if suspects.len() >= SUSPECTS_MAX {
                break;
            }
            suspects.extend(self.socket(fd).and_then(|socket| suspect(fd, socket)));
        }
        suspects
    }
}

/// Members of epoll sets that the library has not seen.
struct Registrations(Vec<Registration>);

#[derive(Clone, Copy, Debug)]
struct Registration {
    set: c_int,
    member: SetMember,
}

impl Registrations {
    fn of_program(is_known: impl Fn(c_int) -> bool) -> Self {
        let sets = sys::epoll_sets().unwrap_or_default().into_iter();
        let unknown = sets.filter(|set| !is_known(*set) && !own::contains(*set));
        let of_set = |set| {
            let members = sys::set_members(set).into_iter();
            members.map(move |member| Registration { set, member })
        };
        Self(unknown.flat_map(of_set).collect())
    }

    /// Takes a socket out of the sets. A one-shot registration that is spent reports nothing, and
    /// stays.
    fn take_out(&self, inode: u64) -> Vec<Registration> {
        let is_awaited = |it: &&Registration| {
            it.member.inode == inode
                && it.member.events & events::ALL != 0
                && sys::inode(it.member.fd) == inode
        };
        let own = self.0.iter().filter(is_awaited);
        own.copied()
            .filter(|it| sys::epoll_remove(it.set, it.member.fd))
            .collect()
    }
}

impl Registration {
    fn put_back(self) {
        let event = libc::epoll_event {
            events: self.member.events,
            u64: self.member.data,
        };
        sys::epoll_add(self.set, self.member.fd, event);
    }
}

fn suspect<S: Stack>(fd: c_int, socket: S) -> Option<Suspect> {
    let core = socket.core();
    let ready = core.readiness.now() & LOOKED_FOR;
    let is_one = ready != 0 && core.is_offloaded();
    is_one.then(|| Suspect {
        fd,
        life: core.life(),
        inode: core.kernel_socket.inode.load(Ordering::Relaxed),
        ready,
    })
}

/// A thread that sleeps for one of the sockets by an instruction of the program's own.
fn find_waiter(looks: &mut Looks) -> Option<(libc::pid_t, Suspect)> {
    let mut threads: Vec<_> = sys::threads().collect();
    if threads.len() > THREADS_MAX {
        let first = looks.next_thread % threads.len();
        looks.next_thread = first + THREADS_MAX;
        threads.rotate_left(first);
        threads.truncate(THREADS_MAX);
    }
    threads.into_iter().find_map(|thread| {
        let call = sys::sleeping_call(thread)?;
        let suspect = awaited(&call, &looks.suspects)?;
        sys::is_programs_own(call.instruction).then_some((thread, suspect))
    })
}

/// Which of the sockets the call waits for, if it waits for one.
fn awaited(call: &SleepingCall, suspects: &[Suspect]) -> Option<Suspect> {
    const POLL: [c_long; 2] = [libc::SYS_poll, libc::SYS_ppoll];
    const SELECT: [c_long; 2] = [libc::SYS_select, libc::SYS_pselect6];
    const EPOLL: [c_long; 3] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
    ];
    const DESCRIPTOR: [c_long; 7] = [
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
    ];
    let number = call.number;
    // The kernel's own arguments are 32 bits wide.
    let first = call.arguments[0] as c_int;
    let mut suspects = suspects.iter().copied();
    if DESCRIPTOR.contains(&number) {
        suspects.find(|it| it.fd == first && it.ready & events::IN != 0)
    } else if EPOLL.contains(&number) {
        let members = sys::set_members(first);
        suspects.find(|it| is_in(it, &members, DEPTH_MAX))
    } else if POLL.contains(&number) {
        let polled = polled_at(call.arguments[0], call.arguments[1]);
        suspects.find(|it| is_polled(it, &polled))
    } else if SELECT.contains(&number) {
        suspects.find(|it| is_selected(it, first, call.arguments[1]))
    } else {
        None
    }
}

/// Whether an epoll set, or one inside it, asks for what the socket is ready for.
fn is_in(suspect: &Suspect, members: &[SetMember], depth: u32) -> bool {
    let wants =
        |member: &SetMember| member.inode == suspect.inode && member.events & suspect.ready != 0;
    let inside =
        |member: &SetMember| depth > 1 && is_in(suspect, &sys::set_members(member.fd), depth - 1);
    members.iter().any(wants) || members.iter().any(inside)
}

/// `struct pollfd`
fn polled_at(at: u64, count: u64) -> Vec<(c_int, u32)> {
    const LEN: usize = size_of::<libc::pollfd>();
    let mut octets = vec![0; count.min(POLLED_MAX) as usize * LEN];
    if !sys::read_memory(at, &mut octets) {
        return Vec::new();
    }
    let (entries, _) = octets.as_chunks::<LEN>();
    entries
        .iter()
        .map(|[a, b, c, d, e, f, ..]| {
            let events = u16::from_ne_bytes([*e, *f]);
            (c_int::from_ne_bytes([*a, *b, *c, *d]), events.into())
        })
        .collect()
}

fn is_polled(suspect: &Suspect, polled: &[(c_int, u32)]) -> bool {
    let wants = |(fd, events): &(c_int, u32)| {
        *fd == suspect.fd && (events | events::ALWAYS) & suspect.ready != 0
    };
    polled.iter().any(wants)
}

/// Whether `select(2)` waits to read from it. `set`: where the first of its sets is.
fn is_selected(suspect: &Suspect, count: c_int, set: u64) -> bool {
    let fd = suspect.fd.cast_unsigned();
    let mut octet = [0];
    suspect.fd < count
        && set != 0
        && sys::read_memory(set.saturating_add(u64::from(fd / 8)), &mut octet)
        && octet[0] & (1 << (fd % 8)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(fd: c_int) -> Suspect {
        Suspect {
            fd,
            life: (fd as usize, 1),
            inode: 1000 + fd as u64,
            ready: events::IN,
        }
    }

    #[test]
    fn threads_are_looked_at_when_a_socket_stays_ready_and_then_ever_less() {
        let mut looks = Looks::default();
        assert!(!looks.compare(vec![suspect(5)]), "it may be taken yet");
        assert!(!looks.compare(vec![suspect(6)]), "another one");
        assert_eq!(looks.pauses(), 1);
        let pauses = [(); 7].map(|()| {
            assert!(looks.compare(vec![suspect(5), suspect(6)]));
            looks.pauses()
        });
        assert_eq!(pauses, [1, 2, 4, 8, 16, 20, 20]);
        assert!(!looks.compare(vec![]) && looks.pauses() == 1);
        assert!(!looks.compare(vec![suspect(6)]) && looks.compare(vec![suspect(6)]));
    }

    #[test]
    fn calls_wait_for_descriptors() {
        let waits = |number, arguments| {
            let call = SleepingCall {
                number,
                arguments,
                instruction: 0,
            };
            awaited(&call, &[suspect(5), suspect(9)]).map(|it| it.fd)
        };
        assert_eq!(waits(libc::SYS_recvfrom, [9, 0, 0, 0, 0, 0]), Some(9));
        assert_eq!(waits(libc::SYS_accept4, [5, 0, 0, 0, 0, 0]), Some(5));
        assert_eq!(waits(libc::SYS_recvfrom, [7, 0, 0, 0, 0, 0]), None);
        assert_eq!(waits(libc::SYS_futex, [9, 0, 0, 0, 0, 0]), None);
        let entry = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let polled = [entry(5, libc::POLLOUT), entry(9, libc::POLLIN)];
        let at = polled.as_ptr().addr() as u64;
        assert_eq!(waits(libc::SYS_poll, [at, 2, 0, 0, 0, 0]), Some(9));
        assert_eq!(waits(libc::SYS_poll, [at, 1, 0, 0, 0, 0]), None);
        assert_eq!(waits(libc::SYS_ppoll, [8, 2, 0, 0, 0, 0]), None);
        let set = [0_u8, 0b10];
        let at = set.as_ptr().addr() as u64;
        assert_eq!(waits(libc::SYS_select, [10, at, 0, 0, 0, 0]), Some(9));
        assert_eq!(waits(libc::SYS_pselect6, [9, at, 0, 0, 0, 0]), None);
        assert_eq!(waits(libc::SYS_select, [10, 0, at, 0, 0, 0]), None);
    }

    #[test]
    fn members_of_a_set_have_the_sockets_inode_and_want_what_it_is_ready_for() {
        let member = |inode, events| SetMember {
            fd: -1,
            events,
            data: 0,
            inode,
        };
        let is_in = |member| is_in(&suspect(5), &[member], 2);
        assert!(is_in(member(1005, 0x19)));
        assert!(!is_in(member(1005, events::OUT)) && !is_in(member(1006, 0x19)));
        // A one-shot registration that is spent.
        assert!(!is_in(member(1005, 1 << 30)));
    }
}
