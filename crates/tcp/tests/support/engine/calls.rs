//! System calls on the engine's sockets, with the kernel's results.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use packetdrill::{Call, OptionValue, Outcome, octet, wrong_octet};
use tcp::{
    Error, FastOpenKeys, Instant, Listener, ReadError, Shutdown, SocketOption, State, UrgentError,
    WriteError,
};

use super::sockets::{Kind, Socket};
use super::{Engine, Held, poll, settings};

/// A call that waits.
pub(super) struct Pending {
    call: Call,
    /// Octets written or read so far.
    pub(super) done: usize,
    wrong_octet: Option<usize>,
    /// When it gives up with nothing.
    deadline: Option<Instant>,
    /// `connect` has begun.
    pub(super) has_begun: bool,
}

impl Pending {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl Held {
    /// Fetches the error, as `SO_ERROR` does.
    pub(super) fn take_error(&mut self) -> Option<i32> {
        self.has_error = false;
        self.connection.take_error().map(errno)
    }

    /// An error that a read or a write has fetched.
    fn fetched(&mut self, error: Error) -> Outcome {
        self.has_error = false;
        Outcome::error(errno(error))
    }
}

impl Engine {
    /// Begins a call; what it gives is in `finished` when it is over.
    pub(super) fn begin(&mut self, call: &Call) -> Result<(), String> {
        if let Call::SetOption {
            level, name, value, ..
        } = call
            && !matches!(value, OptionValue::Linger { .. })
            && settings::option(*level, *name, value) == Err(None)
        {
            return Err(format!("option {name} of level {level}"));
        }
        let timeout = match call {
            Call::Poll { timeout, .. } | Call::EpollWait { timeout, .. } => *timeout,
            _ => None,
        };
        self.pending = Some(Pending {
            call: call.clone(),
            done: 0,
            wrong_octet: None,
            deadline: poll::deadline(self.now, timeout),
            has_begun: false,
        });
        self.retry();
        Ok(())
    }

    /// Lets the call that waits try (again).
    pub(super) fn retry(&mut self) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        let outcome = self.attempt(&mut pending).or_else(|| {
            let late = pending
                .deadline
                .is_some_and(|deadline| deadline <= self.now);
            let entries = match &pending.call {
                Call::Poll { entries, .. } => entries.len(),
                _ => 0,
            };
            late.then(|| Outcome::with(0, vec![0; entries]))
        });
        match outcome {
            Some(outcome) => self.finished = Some((self.now, outcome)),
            None => self.pending = Some(pending),
        }
    }

    /// `None` if the call has to wait.
    fn attempt(&mut self, pending: &mut Pending) -> Option<Outcome> {
        let plain = |result: Result<i64, i32>| {
            Some(Outcome {
                result: Some(result),
                ..Outcome::default()
            })
        };
        match pending.call.clone() {
            Call::Socket { kind } => {
                let mut socket = Socket::new(Kind::Fresh, self.options.clone());
                socket.is_non_blocking = kind & libc::SOCK_NONBLOCK != 0;
                plain(Ok(self.open(socket)))
            }
            Call::Bind { fd } => plain(self.bind(fd)),
            Call::Listen { fd, backlog } => plain(self.listen(fd, backlog)),
            Call::Accept { fd, flags } => self.accept(fd, flags),
            Call::Connect { fd } => self.connect(fd, pending),
            Call::Write { fd, len, flags } => {
                let is_deferred = self
                    .sockets
                    .get(&fd)
                    .is_some_and(|socket| matches!(socket.kind, Kind::Deferred(_)));
                if is_deferred || pending.has_begun {
                    self.fast_open(fd, len, flags, true, pending)
                } else {
                    self.write(fd, len, flags, pending)
                }
            }
            Call::FastOpen {
                fd,
                len,
                flags,
                has_address,
            } => self.fast_open(fd, len, flags, has_address, pending),
            Call::Read { fd, len, flags } => self.read(fd, len, flags, pending),
            Call::Shutdown { fd, how } => plain(self.shutdown(fd, how)),
            Call::Close { fd } => plain(self.close(fd)),
            Call::SetOption {
                fd,
                level,
                name,
                value,
            } => plain(self.set_option(fd, level, name, &value)),
            Call::GetOption { fd, level, name } => Some(self.option(fd, level, name)),
            Call::SetFlags { fd, flags } => plain(self.socket(fd).map(|socket| {
                socket.is_non_blocking = flags & libc::O_NONBLOCK != 0;
                0
            })),
            Call::GetFlags { fd } => plain(self.socket(fd).map(|socket| {
                let non_blocking = if socket.is_non_blocking {
                    libc::O_NONBLOCK
                } else {
                    0
                };
                i64::from(libc::O_RDWR | non_blocking)
            })),
            Call::Ioctl { fd, request } => Some(self.ioctl(fd, request)),
            Call::Poll { entries, .. } => self.poll(&entries),
            Call::EpollCreate => {
                let socket = Socket::new(Kind::Epoll(BTreeMap::new()), self.options.clone());
                plain(Ok(self.open(socket)))
            }
            Call::EpollControl {
                set,
                operation,
                fd,
                events,
            } => plain(self.epoll_control(set, operation, fd, events)),
            Call::EpollWait { set, room, .. } => self.epoll_wait(set, room),
        }
    }

    fn socket(&mut self, fd: i32) -> Result<&mut Socket, i32> {
        self.sockets.get_mut(&fd).ok_or(libc::EBADF)
    }

    /// The connection of a socket; `not_connected` if it has none.
    pub(super) fn connection(
        &mut self,
        fd: i32,
        not_connected: i32,
    ) -> Result<(&mut Held, bool), i32> {
        let socket = self.sockets.get(&fd).ok_or(libc::EBADF)?;
        let id = socket.kind.connection().ok_or(not_connected)?;
        let non_blocking = socket.is_non_blocking;
        Ok((
            self.connections
                .get_mut(&id)
                .expect("sockets keep their connections"),
            non_blocking,
        ))
    }

    /// The lowest free descriptor.
    fn open(&mut self, socket: Socket) -> i64 {
        let fd = (3..)
            .find(|fd| !self.sockets.contains_key(fd))
            .expect("there are many");
        self.sockets.insert(fd, socket);
        i64::from(fd)
    }

    fn bind(&mut self, fd: i32) -> Result<i64, i32> {
        let port = self.setup.bind_port;
        let socket = self.socket(fd)?;
        if socket.port.is_some() {
            return Err(libc::EINVAL);
        }
        socket.port = Some(port);
        Ok(0)
    }

    fn listen(&mut self, fd: i32, backlog: i32) -> Result<i64, i32> {
        let config = Arc::clone(&self.config);
        let backlog = u32::try_from(backlog).unwrap_or(4096);
        let now = self.now;
        let socket = self.socket(fd)?;
        match &mut socket.kind {
            Kind::Listening { listener, .. } => listener.set_backlog(backlog),
            Kind::Fresh => {
                let mut listener = Listener::new(now, config, backlog);
                if let Some(limit) = socket.fast_open_limit {
                    listener.set_fast_open(limit);
                }
                listener.set_fast_open_keys(socket.fast_open_keys);
                listener.set_fast_open_without_cookie(socket.is_cookieless);
                let deferral = socket.values.get(&(libc::SOL_TCP, libc::TCP_DEFER_ACCEPT));
                let deferral = deferral.and_then(|secs| u32::try_from(*secs).ok());
                listener.set_defer_accept(deferral.unwrap_or(0));
                socket.kind = Kind::Listening {
                    listener,
                    queue: VecDeque::new(),
                };
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(0)
    }

    fn accept(&mut self, fd: i32, flags: i32) -> Option<Outcome> {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Some(Outcome::error(libc::EBADF));
        };
        let Kind::Listening { listener, queue } = &mut socket.kind else {
            return Some(Outcome::error(libc::EINVAL));
        };
        let Some(id) = queue.pop_front() else {
            return socket.is_non_blocking.then(|| Outcome::error(libc::EAGAIN));
        };
        listener.on_accepted();
        let mut child = Socket::new(Kind::Connected(id), socket.options.clone());
        child.values = socket.values.clone();
        child.linger = socket.linger;
        child.port = socket.port;
        child.is_connected = true;
        if let Some(held) = self.connections.get_mut(&id) {
            held.connection.on_accepted();
        }
        child.is_non_blocking = flags & libc::SOCK_NONBLOCK != 0;
        Some(Outcome::ok(self.open(child)))
    }

    fn connect(&mut self, fd: i32, pending: &mut Pending) -> Option<Outcome> {
        let Some(socket) = self.sockets.get(&fd) else {
            return Some(Outcome::error(libc::EBADF));
        };
        if matches!(socket.kind, Kind::Fresh) {
            let non_blocking = socket.is_non_blocking;
            let attempt = socket.defers_connect.then(|| self.plan(fd));
            if let Some(attempt) = attempt.filter(|attempt| attempt.sends_data) {
                let socket = self.sockets.get_mut(&fd).expect("just seen");
                socket.kind = Kind::Deferred(attempt);
                return Some(Outcome::ok(0));
            }
            let id = self.open_connection(fd);
            if let Some(attempt) = attempt {
                let held = self.connections.get_mut(&id).expect("just made");
                held.connection.attempt_fast_open(&attempt, &[], false);
            }
            pending.has_begun = true;
            return non_blocking.then(|| Outcome::error(libc::EINPROGRESS));
        }
        let (held, non_blocking) = match self.connection(fd, libc::EISCONN) {
            Ok(found) => found,
            Err(errno) => return Some(Outcome::error(errno)),
        };
        if let Some(errno) = held.take_error() {
            return Some(Outcome::error(errno));
        }
        match held.connection.state() {
            State::SynSent | State::SynReceived if non_blocking => {
                Some(Outcome::error(libc::EALREADY))
            }
            State::SynSent | State::SynReceived => None,
            State::Closed => Some(Outcome::error(libc::ECONNABORTED)),
            _ => {
                // The first connect after the handshake of one that did not wait returns 0.
                let socket = self.sockets.get_mut(&fd).expect("just seen");
                let first = !std::mem::replace(&mut socket.is_connected, true);
                Some(if first || pending.has_begun {
                    Outcome::ok(0)
                } else {
                    Outcome::error(libc::EISCONN)
                })
            }
        }
    }

    pub(super) fn write(
        &mut self,
        fd: i32,
        len: usize,
        flags: i32,
        pending: &mut Pending,
    ) -> Option<Outcome> {
        let now = self.now;
        let (held, non_blocking) = match self.connection(fd, libc::EPIPE) {
            Ok(found) => found,
            Err(errno) => return Some(Outcome::error(errno)),
        };
        let left = len - pending.done;
        let data: Vec<u8> = (0..)
            .take(left)
            .map(|n| octet(held.written.wrapping_add(n)))
            .collect();
        let result = if flags & libc::MSG_OOB != 0 {
            held.connection.write_urgent(now, &data)
        } else if flags & libc::MSG_MORE != 0 {
            held.connection.write_more(now, &data)
        } else {
            held.connection.write(now, &data)
        };
        let would_block = match result {
            Ok(count) => {
                held.written = held
                    .written
                    .wrapping_add(u32::try_from(count).expect("a script's write"));
                pending.done += count;
                if pending.done == len && flags & libc::MSG_EOR != 0 {
                    held.connection.end_record();
                }
                pending.done < len
            }
            Err(WriteError::WouldBlock) => true,
            Err(_) if pending.done > 0 => false,
            Err(WriteError::BrokenPipe) => return Some(Outcome::error(libc::EPIPE)),
            Err(WriteError::Failed(error)) => return Some(held.fetched(error)),
        };
        let may_wait = !non_blocking && flags & libc::MSG_DONTWAIT == 0;
        if would_block && may_wait {
            return None;
        }
        if would_block && pending.done == 0 && len > 0 {
            return Some(Outcome::error(libc::EAGAIN));
        }
        Some(Outcome::ok(
            i64::try_from(pending.done).expect("a script's write"),
        ))
    }

    fn read(&mut self, fd: i32, len: usize, flags: i32, pending: &mut Pending) -> Option<Outcome> {
        let now = self.now;
        if let Some(Kind::Deferred(_)) = self.sockets.get(&fd).map(|socket| &socket.kind) {
            // Nothing can have come.
            return Some(Outcome::error(libc::EAGAIN));
        }
        let (held, non_blocking) = match self.connection(fd, libc::ENOTCONN) {
            Ok(found) => found,
            Err(errno) => return Some(Outcome::error(errno)),
        };
        if flags & libc::MSG_OOB != 0 {
            let result = if flags & libc::MSG_PEEK != 0 {
                held.connection.peek_urgent()
            } else {
                held.connection.read_urgent()
            };
            return Some(match result {
                Ok(_) => Outcome::ok(1),
                Err(UrgentError::None) => Outcome::error(libc::EINVAL),
                Err(UrgentError::NotReceived) => Outcome::error(libc::EAGAIN),
                Err(UrgentError::End) => Outcome::ok(0),
            });
        }
        let mut buffer = vec![0; len - pending.done];
        let is_peek = flags & libc::MSG_PEEK != 0;
        let result = if is_peek && held.connection.peek().next().is_some() {
            let ready = held.connection.peek().flatten().copied();
            Ok(buffer
                .iter_mut()
                .zip(ready)
                .map(|(to, from)| *to = from)
                .count())
        } else {
            held.connection.read(now, &mut buffer)
        };
        let may_wait = !non_blocking && flags & libc::MSG_DONTWAIT == 0;
        match result {
            Ok(count) => {
                let wrong = wrong_octet(&buffer[..count], held.read);
                let wrong = wrong.map(|index| index + pending.done);
                pending.wrong_octet = pending.wrong_octet.or(wrong);
                if flags & libc::MSG_PEEK == 0 {
                    held.read = held
                        .read
                        .wrapping_add(u32::try_from(count).expect("a script's read"));
                }
                pending.done += count;
                let wants_all = flags & libc::MSG_WAITALL != 0 && may_wait;
                if wants_all && count > 0 && pending.done < len {
                    return None;
                }
            }
            Err(ReadError::WouldBlock) if may_wait => return None,
            Err(_) if pending.done > 0 => {}
            Err(ReadError::WouldBlock) => return Some(Outcome::error(libc::EAGAIN)),
            Err(ReadError::Failed(error)) => return Some(held.fetched(error)),
        }
        let mut outcome = Outcome::ok(i64::try_from(pending.done).expect("a script's read"));
        outcome.wrong_octet = pending.wrong_octet;
        Some(outcome)
    }

    fn shutdown(&mut self, fd: i32, how: i32) -> Result<i64, i32> {
        let now = self.now;
        let (held, _) = self.connection(fd, libc::ENOTCONN)?;
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(libc::EINVAL),
        };
        if held.connection.shutdown(now, how) {
            Ok(0)
        } else {
            Err(libc::ENOTCONN)
        }
    }

    fn close(&mut self, fd: i32) -> Result<i64, i32> {
        let socket = self.sockets.remove(&fd).ok_or(libc::EBADF)?;
        for other in self.sockets.values_mut() {
            if let Kind::Epoll(watched) = &mut other.kind {
                watched.remove(&fd);
            }
        }
        let is_abortive = socket.linger == Some(0);
        let mut closed: Vec<usize> = socket.kind.connection().into_iter().collect();
        if let Kind::Listening { queue, .. } = &socket.kind {
            // What was not accepted is reset; half-open connections are forgotten.
            for id in queue {
                let held = self
                    .connections
                    .get_mut(id)
                    .expect("queued connections are held");
                held.connection.abort();
                closed.push(*id);
            }
            self.connections.retain(|_, held| {
                held.embryo
                    .as_ref()
                    .is_none_or(|embryo| embryo.listener != fd)
            });
            for id in closed {
                self.settle_connection(id);
            }
            return Ok(0);
        }
        for id in closed {
            let held = self
                .connections
                .get_mut(&id)
                .expect("sockets keep their connections");
            if is_abortive {
                held.connection.abort();
            } else {
                held.connection.close(self.now);
            }
        }
        Ok(0)
    }

    fn set_option(
        &mut self,
        fd: i32,
        level: i32,
        name: i32,
        value: &OptionValue,
    ) -> Result<i64, i32> {
        let now = self.now;
        let socket = self.socket(fd)?;
        if let OptionValue::Linger { on, seconds } = value {
            socket.linger = on.then_some(*seconds);
            return Ok(0);
        }
        if level == libc::SOL_TCP
            && let Some(result) = self.set_fast_open_option(fd, name, value)
        {
            return result;
        }
        let socket = self.socket(fd)?;
        let option = settings::option(level, name, value)
            .map_err(|errno| errno.unwrap_or(libc::ENOPROTOOPT))?;
        if let OptionValue::Integer(number) = value {
            let stored = match option {
                Some(SocketOption::SendBuffer(octets) | SocketOption::ReceiveBuffer(octets)) => {
                    i64::from(octets)
                }
                _ => *number,
            };
            socket.values.insert((level, name), stored);
        }
        let Some(option) = option else {
            return Ok(0);
        };
        socket.options.set(option).map_err(|_| libc::EINVAL)?;
        if let Some(id) = socket.kind.connection() {
            let held = self
                .connections
                .get_mut(&id)
                .expect("sockets keep their connections");
            held.connection
                .set_option(now, option)
                .map_err(|_| libc::EINVAL)?;
        }
        Ok(0)
    }

    /// `None` if the option is another one.
    fn set_fast_open_option(
        &mut self,
        fd: i32,
        name: i32,
        value: &OptionValue,
    ) -> Option<Result<i64, i32>> {
        let client = self.config.fast_open.client;
        let socket = self.sockets.get_mut(&fd)?;
        let number = match value {
            OptionValue::Integer(number) => *number,
            _ => 0,
        };
        let listener = match &mut socket.kind {
            Kind::Listening { listener, .. } => Some(listener),
            _ => None,
        };
        match name {
            libc::TCP_FASTOPEN => {
                let limit = u32::try_from(number).unwrap_or(0);
                socket.fast_open_limit = Some(limit);
                if let Some(listener) = listener {
                    listener.set_fast_open(limit);
                }
            }
            libc::TCP_FASTOPEN_KEY => {
                let OptionValue::Octets(octets) = value else {
                    return Some(Err(libc::EINVAL));
                };
                let Some(keys) = FastOpenKeys::from_octets(octets) else {
                    return Some(Err(libc::EINVAL));
                };
                socket.fast_open_keys = Some(keys);
                if let Some(listener) = listener {
                    listener.set_fast_open_keys(Some(keys));
                }
            }
            libc::TCP_FASTOPEN_CONNECT if !client => return Some(Err(libc::EOPNOTSUPP)),
            libc::TCP_FASTOPEN_CONNECT => socket.defers_connect = number != 0,
            settings::TCP_FASTOPEN_NO_COOKIE => {
                socket.is_cookieless = number != 0;
                if let Some(listener) = listener {
                    listener.set_fast_open_without_cookie(number != 0);
                }
            }
            _ => return None,
        }
        Some(Ok(0))
    }

    fn option(&mut self, fd: i32, level: i32, name: i32) -> Outcome {
        let now = self.now;
        let stored = match self.socket(fd) {
            Ok(socket) => socket.values.get(&(level, name)).copied().unwrap_or(0),
            Err(errno) => return Outcome::error(errno),
        };
        let value = match (self.connection(fd, 0), level, name) {
            (Ok((held, _)), libc::SOL_SOCKET, libc::SO_ERROR) => held
                .connection
                .take_error()
                .map_or(0, |error| i64::from(errno(error))),
            (Ok((held, _)), libc::SOL_TCP, libc::TCP_MAXSEG) => {
                i64::from(held.connection.info(now).snd_mss)
            }
            (_, libc::SOL_TCP, libc::TCP_MAXSEG) if stored == 0 => 536,
            _ => stored,
        };
        Outcome::with(0, vec![value])
    }

    fn ioctl(&mut self, fd: i32, request: i64) -> Outcome {
        let held = match self.connection(fd, libc::EINVAL) {
            Ok((held, _)) => held,
            Err(errno) => return Outcome::error(errno),
        };
        let value = match request {
            SIOCINQ => held.connection.readable_len(),
            SIOCOUTQ => held.connection.unacknowledged_len(),
            SIOCOUTQNSD => held.connection.unsent_len(),
            SIOCATMARK => usize::from(held.connection.is_at_mark()),
            _ => return Outcome::error(libc::ENOTTY),
        };
        Outcome::with(0, vec![i64::try_from(value).expect("a script's amount")])
    }
}

fn errno(error: Error) -> i32 {
    match error {
        Error::Refused => libc::ECONNREFUSED,
        Error::Reset => libc::ECONNRESET,
        Error::BrokenPipe => libc::EPIPE,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::HostUnreachable => libc::EHOSTUNREACH,
        Error::NetUnreachable => libc::ENETUNREACH,
        Error::Protocol => libc::EPROTO,
        Error::MessageSize => libc::EMSGSIZE,
        Error::ProtocolUnreachable => libc::ENOPROTOOPT,
        Error::Prohibited => libc::EACCES,
        Error::Aborted => libc::ECONNABORTED,
    }
}

/// Requests of `ioctl(2)` that are not in `libc`, from the kernel's `include/uapi/asm-generic`.
pub(crate) const SIOCATMARK: i64 = 0x8905;
pub(crate) const SIOCINQ: i64 = 0x541b;
const SIOCOUTQ: i64 = 0x5411;
const SIOCOUTQNSD: i64 = 0x894b;
