//! Connections within this host: finds the processes at their other ends, and answers them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use dev_core::Backend;
use links::family::{Family, canonical};
use links::reason::Reason;
use shm::{Arena, Channel, Key, Meeting, Message, Met, Received, Side};
use tcp::Instant;

use crate::engine::kinds::AnySocket;

use crate::engine::{Engine, TcpSocket};
use crate::process::event_loop::{Next, Task, Watched};
use crate::sockets::peers::{self, PeerRequest};

/// Where the processes of a user meet.
const BASE: &str = "/dev/shm";
/// Processes that have connected and said nothing yet.
const SILENT_MAX: usize = 64;
/// Messages of one process that are read before others get their turn.
const MESSAGES_MAX: usize = 64;

type Peer<B> = peers::Peer<AnySocket<B>>;

/// Finds peers, and answers them.
pub(super) struct SameHost<B: Backend> {
    engine: &'static Engine<B>,
    user: u32,
    meeting: Option<Meeting>,
    has_failed: bool,
    /// Connections at which this process was first.
    announced: HashMap<Key, (AnySocket<B>, u32)>,
    /// Processes by the names that they have at the meeting.
    named: HashMap<String, Arc<Peer<B>>>,
    peers: Vec<Arc<Peer<B>>>,
    silent: Vec<Channel>,
}

impl<B: Backend> SameHost<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        engine.peers.heard_by(|| engine.hear_peers());
        Self {
            engine,
            user: sys::users().map_or(0, |[_, effective, _]| effective),
            meeting: None,
            has_failed: false,
            announced: HashMap::new(),
            named: HashMap::new(),
            peers: Vec::new(),
            silent: Vec::new(),
        }
    }

    fn meeting(&mut self) -> Option<&Meeting> {
        if self.meeting.is_none() && !self.has_failed {
            match Meeting::open(Path::new(BASE), self.user, sys::random()) {
                Ok(meeting) => {
                    meeting.sweep();
                    self.meeting = Some(meeting);
                }
                Err(error) => {
                    log::warn!("no memory is shared within the host: {BASE}: {error}");
                    self.has_failed = true;
                }
            }
        }
        self.meeting.as_ref()
    }

    fn find(&mut self, socket: &'static TcpSocket<B>, generation: u32) {
        let Some(key) = socket.meeting_key() else {
            return;
        };
        let met = self.meeting().map(|meeting| meeting.announce(&key));
        match met {
            Some(Ok(Met::Nobody)) => {
                if socket.note_announced(generation, &key) {
                    self.announced.insert(key, (socket.into(), generation));
                } else if let Some(meeting) = &self.meeting {
                    meeting.forget(&key);
                }
            }
            Some(Ok(Met::Process(name))) => self.meet(&name, key, socket, generation),
            Some(Ok(Met::Itself)) => {
                self.announced.remove(&key);
            }
            Some(Err(_)) | None => {}
        }
    }

    fn meet(&mut self, name: &str, key: Key, socket: &'static TcpSocket<B>, generation: u32) {
        let Some(peer) = self.peer_of(name) else {
            return;
        };
        let Some(slot) = peer.take_free(socket.into(), generation) else {
            return;
        };
        let is_taken = socket.shares(generation, &peer, slot)
            && peer
                .channel()
                .send(&Message::Match { slot, key }, &[])
                .is_ok();
        if !is_taken {
            peer.leave(slot);
            peer.left_there(slot);
        }
    }

    /// The process of a name, with which memory is shared from here on if it was not.
    fn peer_of(&mut self, name: &str) -> Option<Arc<Peer<B>>> {
        if let Some(peer) = self.named.get(name) {
            return Some(Arc::clone(peer));
        }
        let channel = self.meeting.as_ref()?.reach(name).ok()?;
        let (file, arena) = Arena::create().ok()?;
        let wake = self.engine.peers.wake()?;
        channel
            .send(&Message::Hello, &[file.as_fd(), wake.as_fd()])
            .ok()?;
        // Under its own number it would be in the program's way when it is closed.
        drop(descriptors::OwnDescriptor::new(file));
        let peer = self.add(Peer::new(arena, Side::First, channel))?;
        self.named.insert(name.to_owned(), Arc::clone(&peer));
        Some(peer)
    }

    fn add(&mut self, peer: Peer<B>) -> Option<Arc<Peer<B>>> {
        let peer = Arc::new(peer);
        self.engine.peers.add(Arc::clone(&peer)).then(|| {
            self.peers.push(Arc::clone(&peer));
            peer
        })
    }

    /// A process has said its first word.
    fn begin(&mut self, channel: Channel, received: Received) {
        let Received {
            message: Message::Hello,
            descriptors,
        } = received
        else {
            return;
        };
        let Ok([file, wake]) = <[_; 2]>::try_from(descriptors) else {
            return;
        };
        let (Ok(arena), Some(own)) = (Arena::map(&file), self.engine.peers.wake()) else {
            return;
        };
        if channel.send(&Message::Welcome, &[own.as_fd()]).is_err() {
            return;
        }
        let peer = Peer::new(arena, Side::Second, channel);
        peer.wake_by(wake);
        self.add(peer);
    }

    fn answer(&mut self, peer: &Arc<Peer<B>>, received: Received) {
        match received.message {
            Message::Hello => {}
            Message::Welcome => {
                if let Some(wake) = received.descriptors.into_iter().next() {
                    peer.wake_by(wake);
                }
                for (socket, generation) in peer.all_users() {
                    self.may_open(socket, generation);
                }
            }
            Message::Match { slot, key } => self.matched(peer, slot, &key),
            Message::Taken { slot } => {
                if let Some((socket, generation)) = peer.user(slot) {
                    self.may_open(socket, generation);
                }
            }
            Message::Close { slot } => {
                if let Some((AnySocket::Tcp(socket), generation)) = peer.user(slot) {
                    socket.peer_wants_kernel(self.engine, generation);
                }
            }
            Message::Left { slot } => peer.left_there(slot),
        }
    }

    fn may_open(&self, socket: AnySocket<B>, generation: u32) {
        if let AnySocket::Tcp(socket) = socket {
            socket.may_open(self.engine, generation);
        }
    }

    /// The second process at a connection has found this one.
    fn matched(&mut self, peer: &Arc<Peer<B>>, slot: u32, key: &Key) {
        if let Some((AnySocket::Tcp(socket), generation)) = self.announced.remove(key)
            && peer.take_given(slot, socket.into(), generation)
        {
            if socket.shares(generation, peer, slot) {
                let _ = peer.channel().send(&Message::Taken { slot }, &[]);
                socket.may_open(self.engine, generation);
                return;
            }
            peer.leave(slot);
            return;
        }
        let _ = peer.channel().send(&Message::Left { slot }, &[]);
    }

    fn ends(&mut self, peer: &Arc<Peer<B>>) {
        peer.goes();
        for (socket, generation) in peer.all_users() {
            if let AnySocket::Tcp(socket) = socket {
                socket.peer_has_ended(self.engine, generation);
            }
        }
        self.engine.peers.remove(peer);
        self.named.retain(|_, other| !Arc::ptr_eq(other, peer));
        self.peers.retain(|other| !Arc::ptr_eq(other, peer));
    }

    fn hear_peers(&mut self) {
        for peer in self.peers.clone() {
            for _ in 0..MESSAGES_MAX {
                match peer.channel().receive() {
                    Ok(Some(received)) => self.answer(&peer, received),
                    Ok(None) => break,
                    Err(_) => {
                        self.ends(&peer);
                        break;
                    }
                }
            }
        }
    }

    fn accept(&mut self) {
        let user = self.user;
        while self.silent.len() < SILENT_MAX
            && let Some(channel) = self.meeting.as_ref().and_then(|it| it.accept(user))
        {
            self.silent.push(channel);
        }
        for channel in std::mem::take(&mut self.silent) {
            match channel.receive() {
                Ok(Some(received)) => self.begin(channel, received),
                Ok(None) => self.silent.push(channel),
                Err(_) => {}
            }
        }
    }
}

impl<B: Backend> Task for SameHost<B> {
    /// Whoever looks for a peer calls.
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.internal_thread.fd() {
            watched.add(fd, libc::POLLIN);
        }
        let meeting = self.meeting.iter().map(Meeting::raw_fd);
        let silent = self.silent.iter().map(Channel::raw_fd);
        let peers = self.peers.iter().map(|peer| peer.channel().raw_fd());
        for fd in meeting.chain(silent).chain(peers) {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        for request in self.engine.peers.requests() {
            match request {
                PeerRequest::Find(AnySocket::Tcp(socket), generation) => {
                    self.find(socket, generation);
                }
                PeerRequest::Find(..) => {}
                PeerRequest::Forget(key) => {
                    if self.announced.remove(&key).is_some()
                        && let Some(meeting) = &self.meeting
                    {
                        meeting.forget(&key);
                    }
                }
            }
        }
        self.accept();
        self.hear_peers();
        Next::OnEvent
    }
}

impl<B: Backend> Drop for SameHost<B> {
    fn drop(&mut self) {
        if let Some(meeting) = &self.meeting {
            meeting.close();
        }
    }
}

impl<B: Backend> Engine<B> {
    /// Whether a connection may come to share memory with another process.
    pub fn looks_for_peers(&self) -> bool {
        self.peers.is_wanted()
    }

    /// The kernel's `accept4(2)` has returned a connection for a listener that is the kernel's: one
    /// within this host may come to share memory.
    pub fn kernel_has_accepted(&self, listener: libc::c_int, fd: libc::c_int, flags: libc::c_int) {
        if !self.settings().shares_memory || self.is_other_process() || self.look_up(fd).is_some() {
            return;
        }
        let Ok(Some(peer)) = sys::peer_address(fd) else {
            return;
        };
        let is_near = canonical(peer).ip().is_loopback()
            || sys::local_address(fd).is_ok_and(|it| it.is_some_and(|it| it.ip() == peer.ip()));
        if !is_near {
            return;
        }
        let control = self.control();
        let family = match peer {
            SocketAddr::V4(_) => Family::Inet,
            SocketAddr::V6(_) => Family::Inet6,
        };
        let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
        let Some(socket) = self.add_stream(fd, family, nonblocking) else {
            return;
        };
        if let Some(listener) = self.tcp(listener) {
            socket.inherits(listener);
        }
        drop(control);
        if !socket.begin_local(self, fd, peer, sys::bound_device(fd)) {
            self.leave_to_kernel(socket, Reason::Loopback);
        }
    }
}
