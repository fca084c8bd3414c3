//! Programs that are started with sockets of the process's, by their numbers.

use std::sync::atomic::Ordering;

use links::reason::Reason;

use ::tcp::Instant;
use dev_core::Backend;

use crate::engine::kinds::AnySocket;

use crate::engine::Engine;
use crate::process::door::Door;
use crate::process::event_loop::{self, Next, Task, Watched, is_lost};
use crate::process::throttle::Throttle;
use crate::sockets::stack::Stack;

/// Started programs ask for their sockets.
pub(super) struct AtDoor<B: Backend> {
    engine: &'static Engine<B>,
    door: Door,
    throttle: Throttle,
    /// The program has closed the descriptor past every hook.
    is_lost: bool,
    /// Not looked at until the throttle's period is over.
    is_paused: bool,
}

impl<B: Backend> AtDoor<B> {
    pub(super) fn new(engine: &'static Engine<B>, door: Door) -> Self {
        Self {
            engine,
            door,
            throttle: Throttle::default(),
            is_lost: false,
            is_paused: false,
        }
    }
}

impl<B: Backend> Task for AtDoor<B> {
    fn watch(&self, watched: &mut Watched) {
        if !self.is_lost && !self.is_paused {
            watched.add(self.door.fd(), libc::POLLIN);
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], now: Instant) -> Next {
        self.is_paused = false;
        if is_lost(watched) {
            self.is_lost = true;
            self.engine.sharing.set_has_door(false);
        } else if watched.iter().any(|it| it.revents != 0) {
            self.door.answer(|inode| self.engine.give_started(inode));
            self.throttle.looked(now, event_loop::now());
        }
        match self.throttle.pause(now) {
            Some(end) => {
                self.is_paused = true;
                Next::In(end.saturating_since(now))
            }
            None => Next::OnEvent,
        }
    }
}

impl<B: Backend> Engine<B> {
    /// Gives the socket of this inode to the kernel, for a program that was started with it.
    /// `false`: this process has none.
    fn give_started(&self, inode: u64) -> bool {
        let is_it = |socket: &AnySocket<B>| {
            socket.core().kernel_socket.inode.load(Ordering::Relaxed) == inode
        };
        let control = self.control();
        let found = self.sockets().map(|(_, socket)| socket).find(is_it);
        drop(control);
        if let Some(socket) = found {
            self.leave_to_kernel(socket, Reason::Passed);
        }
        found.is_some()
    }

    /// A program is about to be started otherwise than in a child of fork(2), of which the engine
    /// hears: by posix_spawn(3) and its like, or in a child of vfork(2) that is about to execute
    /// it. Sockets that it has then are shared with it, and those that it cannot ask for are the
    /// kernel's before.
    pub fn program_starts(&self, can_ask: impl FnOnce() -> bool) {
        let is_inherited = |(fd, socket): &(libc::c_int, AnySocket<B>)| {
            socket.core().is_or_may_be_offloaded() && self.is_inherited(*fd, *socket)
        };
        let mut inherited: Vec<_> = self.sockets().filter(is_inherited).collect();
        if inherited.is_empty() {
            return;
        }
        // Of these nothing says to the program that it has to ask.
        inherited.retain(|(_, socket)| {
            let is_local = is_local(*socket);
            if is_local {
                self.leave_to_kernel(*socket, Reason::Passed);
            }
            !is_local
        });
        // From here on the end of one is not the end of its connection.
        self.sharing.count_fork();
        if self.sharing.has_door() && can_ask() {
            return;
        }
        for (_, socket) in inherited {
            self.leave_to_kernel(socket, Reason::Passed);
        }
    }

    /// In a descendant that is about to execute a program, of which this engine is an ancestor's:
    /// what it inherits goes to the kernel if the program cannot ask for it.
    pub fn descendant_executes(&self, can_ask: impl Fn() -> bool) {
        let inherited =
            |(fd, socket): &(libc::c_int, AnySocket<B>)| self.is_inherited(*fd, *socket);
        for (fd, socket) in self.sockets().filter(inherited) {
            if is_local(socket) || !(self.sharing.has_door() && can_ask()) {
                self.inherited_is_used(fd);
            }
        }
    }

    /// Whether a program that this process executes has the socket.
    fn is_inherited(&self, fd: libc::c_int, socket: AnySocket<B>) -> bool {
        let inode = socket.core().kernel_socket.inode.load(Ordering::Relaxed);
        !sys::closes_on_exec(fd) && sys::inode(fd) == inode
    }
}

/// Whether it is a connection within this host, whose kernel socket is connected as any other.
fn is_local<B: Backend>(socket: AnySocket<B>) -> bool {
    matches!(socket, AnySocket::Tcp(socket) if socket.is_local())
}
