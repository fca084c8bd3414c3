//! How a *started* program asks for sockets that it was started with: what execute(2) leaves it of
//! its parent are the descriptors alone. Each process that has sockets past the kernel has a name
//! in its network namespace; a program that is about to use an inherited socket asks at all of
//! them, by the socket's inode. Who has it gives it to the kernel, and says so.
//!
//! A name says nothing, and whoever can read the list of them can ask. So the owner believes
//! processes of its own user and of root, and of others those that have the socket, as /proc shows.

use std::os::fd::AsRawFd;
use std::time::Duration;

use descriptors::OwnDescriptor;
use libc::c_int;
use sys::{DoorName, Errno, Sender};

/// What the names begin with. A number behind the first word changes with the messages.
const NAME: &str = "libvma.door1.";
/// How many names a program asks at, at most.
const NAMES_MAX: usize = 256;
/// Requests that the owner's internal thread answers in one go.
const ANSWERED_AT_ONCE: usize = 16;

const YES: &[u8] = b"y";
const NO: &[u8] = b"n";

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    inode: u64,
    /// The number that the program has for it.
    fd: c_int,
}

const WISH_BYTES: usize = 12;

impl Wish {
    fn to_bytes(self) -> [u8; WISH_BYTES] {
        let mut bytes = [0; WISH_BYTES];
        let (inode, fd) = bytes.split_at_mut(8);
        inode.copy_from_slice(&self.inode.to_ne_bytes());
        fd.copy_from_slice(&self.fd.to_ne_bytes());
        bytes
    }

    /// `None`: it is none.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (inode, fd) = bytes.split_first_chunk::<8>()?;
        Some(Self {
            inode: u64::from_ne_bytes(*inode),
            fd: c_int::from_ne_bytes(*<&[u8; 4]>::try_from(fd).ok()?),
        })
    }
}

/// The owner's side.
#[derive(Debug)]
pub(crate) struct Door(OwnDescriptor);

impl Door {
    /// `None`: the system has no descriptor left, or no such sockets.
    pub(crate) fn open() -> Option<Self> {
        let name = format!("{NAME}{:016x}", sys::random());
        let name = DoorName::new(name.as_bytes())?;
        sys::door_socket(Some(name)).ok().map(Self)
    }

    /// Becomes readable when somebody asks.
    pub(crate) fn fd(&self) -> c_int {
        self.0.as_raw_fd()
    }

    /// Answers some of those who have asked. `give` gives the socket of an inode to the kernel;
    /// `false`: there is none.
    pub(crate) fn answer(&self, mut give: impl FnMut(u64) -> bool) {
        // One more than a request has.
        let mut buffer = [0; WISH_BYTES + 1];
        for _ in 0..ANSWERED_AT_ONCE {
            let Ok(message) = sys::take_from_door(self.fd(), &mut buffer) else {
                return;
            };
            let wish = buffer.get(..message.len).and_then(Wish::from_bytes);
            let wish = wish.filter(|wish| message.sender.is_some_and(|it| may_ask(it, *wish)));
            let answer = match wish {
                Some(wish) if give(wish.inode) => YES,
                _ => NO,
            };
            // Who has gone, or takes nothing, gets none.
            let _ = sys::send_to_door(self.fd(), answer, &message.from);
        }
    }
}

fn may_ask(sender: Sender, wish: Wish) -> bool {
    let own = sys::users().map_or(0, |[_, effective, _]| effective);
    sender.user == 0 || sender.user == own || has_socket(sender.process, wish)
}

fn has_socket(process: libc::pid_t, wish: Wish) -> bool {
    let link = std::fs::read_link(format!("/proc/{process}/fd/{}", wish.fd));
    link.is_ok_and(|link| link.as_os_str() == format!("socket:[{}]", wish.inode).as_str())
}

/// Names in /proc/net/unix that are a door's.
fn names_in(list: &str) -> impl Iterator<Item = &str> {
    list.lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(7)?.strip_prefix('@'))
        .filter(|name| name.starts_with(NAME))
        .take(NAMES_MAX)
}

fn doors() -> Vec<DoorName> {
    // Of the calling thread's network namespace.
    let list = std::fs::read("/proc/thread-self/net/unix").unwrap_or_default();
    names_in(&String::from_utf8_lossy(&list))
        .filter_map(|name| DoorName::new(name.as_bytes()))
        .collect()
}

/// How soon a request is repeated: the owner has gone, or its queue was full.
const REPEAT_AFTER: Duration = Duration::from_millis(10);
/// How long the owner is waited for, which may be stopped. A connection is broken that the kernel's
/// socket is used of in its place.
const PATIENCE_NSEC: u64 = 500_000_000;
const PATIENCE_FOR_CONNECTIONS_NSEC: u64 = 10_000_000_000;

/// Whether a connection is past the kernel, which its kernel's socket says; `None`: it is none, so
/// nobody knows but the owner.
fn is_past_kernel(fd: c_int) -> Option<bool> {
    /// `TCP_CLOSE` and `TCP_LISTEN`
    const UNCONNECTED: [u8; 2] = [7, 10];
    sys::streams::state(fd).filter(|state| !UNCONNECTED.contains(state))?;
    let repair = sys::option_int(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR).ok()?;
    Some(repair != 0)
}

/// A socket that the program was started with is about to be used: whoever has it past the kernel
/// gives it back first. To be called outside of every lock.
pub fn ask_for_started_with(fd: c_int) {
    if is_past_kernel(fd) == Some(false) {
        return;
    }
    let mut doors = doors();
    if doors.is_empty() {
        return;
    }
    let Ok(socket) = sys::door_socket(None) else {
        return;
    };
    let wish = Wish {
        inode: sys::inode(fd),
        fd,
    };
    let begun = sys::now_nsec();
    let mut repeat_at = begun;
    loop {
        let now = sys::now_nsec();
        let past_kernel = is_past_kernel(fd);
        let patience = match past_kernel {
            Some(false) => return,
            Some(true) => PATIENCE_FOR_CONNECTIONS_NSEC,
            None => PATIENCE_NSEC,
        };
        if now >= begun + patience {
            return;
        }
        if now >= repeat_at {
            let ask = |door: &DoorName| {
                let sent = sys::send_to_door(socket.as_raw_fd(), &wish.to_bytes(), door);
                matches!(sent, Ok(()) | Err(Errno(libc::EAGAIN)))
            };
            doors.retain(ask);
            repeat_at = now + REPEAT_AFTER.as_nanos() as u64;
        }
        if doors.is_empty() {
            return;
        }
        let mut polled = [libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        sys::wait(&mut polled, REPEAT_AFTER);
        let mut answer = [0; 2];
        while let Ok(message) = sys::take_from_door(socket.as_raw_fd(), &mut answer) {
            match answer.get(..message.len) {
                Some(YES) => return,
                _ => doors.retain(|door| *door != message.from),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn wishes_read_back() {
        let wish = Wish {
            inode: 0x1234_5678_9abc,
            fd: 17,
        };
        let bytes = wish.to_bytes();
        assert_eq!(Wish::from_bytes(&bytes), Some(wish));
        assert_eq!(Wish::from_bytes(&bytes[1..]), None);
        assert_eq!(Wish::from_bytes(&[0; WISH_BYTES + 1]), None);
        assert_eq!(Wish::from_bytes(&[]), None);
    }

    #[test]
    fn names_are_found_in_the_list() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 18094 /run/a @libvma.door1.x\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 18095\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 18096 @libvma.door1.0011\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 18097 @libvma.door9.0011\n";
        assert_eq!(names_in(list).collect::<Vec<_>>(), ["libvma.door1.0011"]);
    }

    #[test]
    fn who_has_the_socket_may_ask() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wish = Wish {
            inode: sys::inode(socket.as_raw_fd()),
            fd: socket.as_raw_fd(),
        };
        let process = sys::process_id();
        assert!(has_socket(process, wish));
        let other = Wish {
            inode: wish.inode + 1,
            ..wish
        };
        assert!(!has_socket(process, other));
    }

    #[test]
    fn an_owner_is_asked_and_answers() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wanted = sys::inode(socket.as_raw_fd());
        let doors = [Door::open().unwrap(), Door::open().unwrap()];
        let given = std::sync::atomic::AtomicUsize::new(0);
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (index, door) in doors.iter().enumerate() {
                let (given, ends) = (&given, &ends);
                scope.spawn(move || {
                    while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                        door.answer(|inode| {
                            let is_ours = index == 1 && inode == wanted;
                            given.fetch_add(is_ours.into(), std::sync::atomic::Ordering::Relaxed);
                            is_ours
                        });
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            ask_for_started_with(socket.as_raw_fd());
            assert!(given.load(std::sync::atomic::Ordering::Relaxed) > 0);
            ends.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
