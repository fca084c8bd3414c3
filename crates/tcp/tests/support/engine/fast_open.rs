//! Fast Open (RFC 7413) as sockets have it: `MSG_FASTOPEN`, `TCP_FASTOPEN_CONNECT`, with the
//! results of Linux (`tcp_sendmsg_fastopen`, `__inet_stream_connect`).

use std::sync::Arc;

use packetdrill::sysctl::Setting;
use packetdrill::{Outcome, octet};
use tcp::{Connection, Event, FastOpenAttempt, FastOpenKeys, State};

use super::Engine;
use super::calls::Pending;
use super::sockets::Kind;

/// The keys of `tcp_fastopen_key`, if it is set: one or two times four words.
pub(super) fn keys(sysctls: &[Setting]) -> Result<Option<FastOpenKeys>, String> {
    let setting = sysctls
        .iter()
        .rev()
        .find(|(name, _)| name == "tcp_fastopen_key");
    let Some((_, value)) = setting else {
        return Ok(None);
    };
    let words: Result<Vec<u32>, _> = value
        .split(['-', ','])
        .map(|word| u32::from_str_radix(word.trim(), 16))
        .collect();
    let words = words.map_err(|error| format!("tcp_fastopen_key={value}: {error}"))?;
    let octets: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let keys = FastOpenKeys::from_octets(&octets);
    keys.map(Some)
        .ok_or_else(|| format!("tcp_fastopen_key={value}"))
}

impl Engine {
    /// How a connection of socket `fd` is to begin.
    pub(super) fn plan(&mut self, fd: i32) -> FastOpenAttempt {
        let is_cookieless = self
            .sockets
            .get(&fd)
            .is_some_and(|socket| socket.is_cookieless);
        let server = self.setup.remote.into();
        self.cookies.attempt(
            self.now,
            server,
            self.config.fast_open,
            is_cookieless,
            self.config.fast_open_black_hole_timeout,
        )
    }

    /// Makes a connection for a socket that has none.
    pub(super) fn open_connection(&mut self, fd: i32) -> usize {
        let socket = self.sockets.get(&fd).expect("the caller has seen it");
        let (options, port) = (socket.options.clone(), socket.port);
        let local = port.unwrap_or(self.next_port);
        if port.is_none() {
            self.next_port += 1;
        }
        let (config, path) = (Arc::clone(&self.config), self.path);
        let secrets = self.secrets();
        let connection = Connection::connect(self.now, config, options, path, secrets);
        let id = self.hold(connection, (local, self.setup.connect_port), None);
        let socket = self.sockets.get_mut(&fd).expect("just seen");
        (socket.kind, socket.port) = (Kind::Connected(id), Some(local));
        id
    }

    /// A write that connects first; `None` if it has to wait.
    pub(super) fn fast_open(
        &mut self,
        fd: i32,
        len: usize,
        flags: i32,
        has_address: bool,
        pending: &mut Pending,
    ) -> Option<Outcome> {
        let Some(socket) = self.sockets.get(&fd) else {
            return Some(Outcome::error(libc::EBADF));
        };
        let waits = !socket.is_non_blocking && flags & libc::MSG_DONTWAIT == 0;
        if !pending.has_begun {
            if !self.config.fast_open.client || !has_address {
                return Some(Outcome::error(libc::EOPNOTSUPP));
            }
            match socket.kind {
                Kind::Fresh | Kind::Deferred(_) => {
                    let taken = self.begin_fast_open(fd, len, waits);
                    pending.done = taken;
                    pending.has_begun = true;
                    if waits {
                        return None;
                    }
                    return Some(match i64::try_from(taken).expect("a segment") {
                        0 => Outcome::error(libc::EINPROGRESS),
                        taken => Outcome::ok(taken),
                    });
                }
                Kind::Connected(_) if socket.is_connected => {
                    return Some(Outcome::error(libc::EISCONN));
                }
                _ => {}
            }
        }
        let has_begun = pending.has_begun;
        let (held, _) = match self.connection(fd, libc::EPIPE) {
            Ok(found) => found,
            Err(errno) => return Some(Outcome::error(errno)),
        };
        match held.connection.state() {
            State::SynSent | State::SynReceived if has_begun => return None,
            State::SynSent | State::SynReceived => return Some(Outcome::error(libc::EALREADY)),
            State::Closed => {
                let errno = held.take_error().unwrap_or(libc::ECONNABORTED);
                return Some(Outcome::error(errno));
            }
            _ => {}
        }
        self.sockets.get_mut(&fd).expect("just seen").is_connected = true;
        if has_begun && pending.done == len {
            return Some(Outcome::ok(i64::try_from(len).expect("a script's write")));
        }
        self.write(fd, len, flags, pending)
    }

    /// Sends the SYN with what has room in it; how much that is.
    fn begin_fast_open(&mut self, fd: i32, len: usize, waits: bool) -> usize {
        let attempt = self.plan(fd);
        let id = self.open_connection(fd);
        let held = self.connections.get_mut(&id).expect("just made");
        let data: Vec<u8> = (0..).take(len).map(octet).collect();
        let taken = held.connection.attempt_fast_open(&attempt, &data, waits);
        held.written = u32::try_from(taken).expect("a segment");
        taken
    }

    /// What a connection has learned goes to the cache, and what became of it to its listener.
    pub(super) fn note_fast_open(&mut self, id: usize, event: Event) {
        let is_turn = matches!(
            event,
            Event::Connected | Event::Failed | Event::TimeWait | Event::Closed
        );
        let Some(held) = self.connections.get_mut(&id).filter(|_| is_turn) else {
            return;
        };
        if let Some(lesson) = held.connection.take_fast_open_lesson() {
            self.cookies
                .learn(self.now, self.setup.remote.into(), &lesson);
        }
        if let Some(end) = held.connection.take_fast_open_end()
            && let Some(fd) = held.listener
            && let Some(Kind::Listening { listener, .. }) =
                self.sockets.get_mut(&fd).map(|socket| &mut socket.kind)
        {
            listener.on_fast_open_end(self.now, end);
        }
    }
}
