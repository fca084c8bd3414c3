//! The program of a script: a thread inside the namespace that makes its system calls.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use testkit::Namespace;

use super::sys;
use crate::call::{Call, OptionValue, Outcome};
use crate::stack::{Setup, octet, wrong_octet};

/// The descriptors that the script has open.
pub(crate) type Descriptors = Arc<Mutex<Vec<i32>>>;

pub(crate) fn locked(descriptors: &Descriptors) -> MutexGuard<'_, Vec<i32>> {
    descriptors.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a call gave, and when it returned.
pub(crate) struct Answer {
    pub(crate) time: Duration,
    pub(crate) outcome: Outcome,
}

/// Where `bind` and `connect` go, and what sockets begin with.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ends {
    pub(crate) local: (Ipv4Addr, u16),
    pub(crate) remote: (Ipv4Addr, u16),
    pub(crate) congestion_control: String,
}

impl Ends {
    pub(crate) fn of(setup: &Setup) -> Self {
        let mut sysctls = setup.sysctls.iter().rev();
        let congestion_control = sysctls.find(|(name, _)| name == sys::CONGESTION_CONTROL);
        let congestion_control = congestion_control.map_or("cubic", |(_, value)| value);
        Self {
            local: (setup.local, setup.bind_port),
            remote: (setup.remote, setup.connect_port),
            congestion_control: congestion_control.to_owned(),
        }
    }
}

/// Starts the thread. Its first answer is to no call and says that it is ready. It ends when the
/// sender of calls is gone.
pub(crate) fn spawn(
    namespace: Arc<Namespace>,
    ends: Ends,
    descriptors: Descriptors,
) -> (Sender<Call>, Receiver<Answer>) {
    let (calls, incoming) = mpsc::channel::<Call>();
    let (outgoing, answers) = mpsc::channel();
    thread::spawn(move || {
        namespace.enter(move || serve(ends, descriptors, incoming, &outgoing));
    });
    (calls, answers)
}

/// Makes calls, in the calling thread, as long as some may come. The first answer is to none.
pub(crate) fn serve(
    ends: Ends,
    descriptors: Descriptors,
    calls: Receiver<Call>,
    answers: &Sender<Answer>,
) {
    let mut program = Program {
        ends,
        descriptors,
        positions: HashMap::new(),
    };
    let answer = |outcome| {
        let time = sys::monotonic();
        answers.send(Answer { time, outcome }).is_ok()
    };
    if !answer(Outcome::default()) {
        return;
    }
    for call in calls {
        if !answer(program.make(&call)) {
            break;
        }
    }
    program.close_all();
}

struct Program {
    ends: Ends,
    descriptors: Descriptors,
    /// Octets written to and read from each socket.
    positions: HashMap<i32, (u32, u32)>,
}

impl Program {
    fn make(&mut self, call: &Call) -> Outcome {
        match call {
            Call::Socket { kind } => self.opened(self.socket(*kind)),
            Call::Bind { fd } => Outcome::from(sys::bind(*fd, self.ends.local)),
            Call::Listen { fd, backlog } => Outcome::from(sys::listen(*fd, *backlog)),
            Call::Accept { fd, flags } => self.opened(sys::accept(*fd, *flags)),
            Call::Connect { fd } => Outcome::from(sys::connect(*fd, self.ends.remote)),
            Call::Write { fd, len, flags } => {
                self.write_with(*fd, *len, |data| sys::send(*fd, data, *flags))
            }
            Call::FastOpen {
                fd,
                len,
                flags,
                has_address,
            } => {
                let address = has_address.then_some(self.ends.remote);
                self.write_with(*fd, *len, |data| sys::send_to(*fd, data, *flags, address))
            }
            Call::Read { fd, len, flags } => self.read(*fd, *len, *flags),
            Call::Shutdown { fd, how } => Outcome::from(sys::shutdown(*fd, *how)),
            Call::Close { fd } => {
                locked(&self.descriptors).retain(|open| open != fd);
                Outcome::from(sys::close(*fd))
            }
            Call::SetOption {
                fd,
                level,
                name,
                value,
            } => Outcome::from(set_option(*fd, *level, *name, value)),
            Call::GetOption { fd, level, name } => option(*fd, *level, *name),
            Call::SetFlags { fd, flags } => Outcome::from(sys::set_file_flags(*fd, *flags)),
            Call::GetFlags { fd } => Outcome::from(sys::file_flags(*fd)),
            Call::Ioctl { fd, request } => ioctl(*fd, *request),
            Call::Poll { entries, timeout } => poll(entries, *timeout),
            Call::EpollCreate => self.opened(sys::epoll_create()),
            Call::EpollControl {
                set,
                operation,
                fd,
                events,
            } => {
                let events = u32::try_from(*events).unwrap_or(u32::MAX);
                Outcome::from(sys::epoll_control(*set, *operation, *fd, events))
            }
            Call::EpollWait { set, room, timeout } => {
                let (result, output) = sys::epoll_wait(*set, *room, *timeout);
                Outcome {
                    output,
                    ..Outcome::from(result)
                }
            }
        }
    }

    fn socket(&self, kind: i32) -> Result<i64, i32> {
        let fd = sys::socket(kind)?;
        if let Ok(fd) = i32::try_from(fd) {
            let name = self.ends.congestion_control.as_bytes();
            sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name)?;
        }
        Ok(fd)
    }

    fn opened(&mut self, result: Result<i64, i32>) -> Outcome {
        if let Ok(fd) = result
            && let Ok(fd) = i32::try_from(fd)
        {
            locked(&self.descriptors).push(fd);
            self.positions.remove(&fd);
        }
        Outcome::from(result)
    }

    /// Writes the next `len` octets of the socket's stream by `send`.
    fn write_with(
        &mut self,
        fd: i32,
        len: usize,
        send: impl FnOnce(&[u8]) -> Result<i64, i32>,
    ) -> Outcome {
        let (written, _) = self.positions.entry(fd).or_default();
        let data: Vec<u8> = (0..)
            .take(len)
            .map(|n| octet(written.wrapping_add(n)))
            .collect();
        let result = send(&data);
        if let Ok(count) = result {
            *written = written.wrapping_add(u32::try_from(count).unwrap_or(0));
        }
        Outcome::from(result)
    }

    fn read(&mut self, fd: i32, len: usize, flags: i32) -> Outcome {
        let (_, read) = self.positions.entry(fd).or_default();
        let mut data = vec![0; len];
        let result = sys::receive(fd, &mut data, flags);
        let mut wrong = None;
        if let Ok(count) = result
            && flags & libc::MSG_OOB == 0
        {
            let count = usize::try_from(count).unwrap_or(0).min(len);
            wrong = wrong_octet(&data[..count], *read);
            if flags & libc::MSG_PEEK == 0 {
                *read = read.wrapping_add(u32::try_from(count).unwrap_or(0));
            }
        }
        Outcome {
            wrong_octet: wrong,
            ..Outcome::from(result)
        }
    }

    /// Closes what the script left open, without a word to the peer's side.
    fn close_all(&mut self) {
        for fd in locked(&self.descriptors).drain(..) {
            // The script may have closed it behind our back (by number).
            let _ = sys::close(fd);
        }
    }
}

fn set_option(fd: i32, level: i32, name: i32, value: &OptionValue) -> Result<i64, i32> {
    // As C does with what does not fit.
    let int = |value: i64| value.to_le_bytes()[..4].to_vec();
    let bytes = match value {
        OptionValue::Integer(value) => int(*value),
        OptionValue::Linger { on, seconds } => [int(i64::from(*on)), int(*seconds)].concat(),
        OptionValue::Text(text) => text.as_bytes().to_vec(),
        OptionValue::Octets(octets) => octets.clone(),
    };
    sys::set_option(fd, level, name, &bytes)
}

fn ioctl(fd: i32, request: i64) -> Outcome {
    let Ok(request) = libc::Ioctl::try_from(request) else {
        return Outcome::error(libc::EINVAL);
    };
    let (result, value) = sys::ioctl(fd, request);
    Outcome {
        output: vec![value],
        ..Outcome::from(result)
    }
}

/// Waits for descriptors; each entry is one and its events.
fn poll(entries: &[(i32, i32)], timeout: Option<Duration>) -> Outcome {
    let entry = |(fd, events): &(i32, i32)| libc::pollfd {
        fd: *fd,
        events: libc::c_short::try_from(*events).unwrap_or(0),
        revents: 0,
    };
    let mut entries: Vec<libc::pollfd> = entries.iter().map(entry).collect();
    let result = sys::poll(&mut entries, timeout);
    let events = entries.iter().map(|entry| i64::from(entry.revents));
    Outcome {
        output: events.collect(),
        ..Outcome::from(result)
    }
}

/// The value as `int`s.
fn option(fd: i32, level: i32, name: i32) -> Outcome {
    let mut value = [0; 8];
    match sys::option(fd, level, name, &mut value) {
        Ok(length) => {
            let (ints, _) = value.as_chunks::<4>();
            let ints = ints.iter().take(length / 4);
            Outcome::with(
                0,
                ints.map(|int| i64::from(i32::from_ne_bytes(*int)))
                    .collect(),
            )
        }
        Err(errno) => Outcome::error(errno),
    }
}
