//! Listeners whose opener has ended and that are accepted from by one descendant only: a daemon, or the one worker of a daemon. That takes
//! them past the kernel as if it had opened them.
//!
//! Ancestors and siblings have the kernel's socket, too. As soon as a second process accepts, the listener is the kernel's: the first one
//! looks now and then whether that is so, in memory that all of them share.

use std::os::fd::AsRawFd;
use std::time::Duration;

use dev_core::Backend;
use libc::c_int;

use crate::engine::{Engine, Object};
use crate::sockets::family::Family;
use crate::sockets::hand_over;
use crate::sockets::reason::Reason;
use crate::sockets::shared::SharedSocket;
use crate::sockets::stack::Stack;
use crate::sys;
use crate::tcp;

/// How long the end of the process is waited for that has opened the listener: a daemon's, which just ends, and has the interfaces until
/// then. Whoever is not the caller's parent is most probably one.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_WITH_PARENT: Duration = Duration::from_millis(50);

/// A listener that an ancestor has opened.
#[derive(Debug)]
pub struct InheritedListener {
    shared: &'static SharedSocket,
    /// Options that the ancestor has set.
    options: Vec<(c_int, c_int)>,
}

impl<B: Backend> Engine<B> {
    /// In a descendant, which is about to accept from a socket that it has inherited: what has to be known to do so past the kernel.
    /// It is the kernel's already. `None`: it is no listener of this engine's, or another process may accept from it, such as its owner.
    pub fn inherited_listener(&self, fd: c_int) -> Option<InheritedListener> {
        let Some(Object::Tcp(socket)) = self.table.get(fd) else {
            return None;
        };
        if sys::option_int(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Ok(1) {
            return None;
        }
        // Whatever is decided now is for good.
        self.table.remove(fd);
        if !tcp::can_repair() {
            // Workers often give up their privileges, and need not hear of it.
            return None;
        }
        let (shared, _) = socket.shared().filter(|_| socket.has_own_number())?;
        let is_sole = shared.begin_accepting(sys::process_id().cast_unsigned(), |process| {
            sys::process_fd(process.cast_signed()).is_ok()
        });
        if !is_sole {
            // One that had it may have ended without taking that back.
            let _ = sys::streams::refuse_interfaces(fd, &[]);
            return None;
        }
        if !self.has_ended_soon() {
            shared.is_accepted_by_several();
            return None;
        }
        Some(InheritedListener {
            shared,
            options: socket.options_at_fork()?,
        })
    }

    /// In a descendant: whether this engine's process has ended, or just does so.
    fn has_ended_soon(&self) -> bool {
        let Ok(process) = sys::process_fd(self.process_id) else {
            return true;
        };
        let is_parent = self.process_id == sys::parent_process_id();
        let mut ended = [libc::pollfd {
            fd: process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        sys::wait(
            &mut ended,
            if is_parent {
                PATIENCE_WITH_PARENT
            } else {
                PATIENCE
            },
        );
        ended[0].revents != 0
    }

    /// Takes such a listener past the kernel, as far as that can be.
    pub fn adopt_listener(&self, fd: c_int, inherited: InheritedListener) {
        if self.is_other_process() || !tcp::may_accelerate(self.rules()) {
            return;
        }
        let domain = sys::option_int(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
        let Some(family) = domain.ok().and_then(Family::of_domain) else {
            return;
        };
        let nonblocking = sys::status_flags(fd).is_ok_and(|flags| flags & libc::O_NONBLOCK != 0);
        let control = self.control();
        self.forget(fd);
        let Some(socket) = self.add_stream(fd, family, nonblocking) else {
            return;
        };
        socket.is_inherited();
        for (level, name) in inherited.options {
            socket.option_is_set(level, name);
        }
        socket.attachment().inherited = Some(inherited.shared);
        drop(control);
        socket.listens(self, fd, tcp::backlog_in_kernel(fd));
    }

    /// In the internal thread: gives listeners back from which others have begun to accept.
    pub(crate) fn share_inherited_listeners(&self) {
        let process = self.process_id.cast_unsigned();
        for (_, socket) in self.sockets() {
            let core = socket.core();
            let inherited = core.attachment().inherited;
            if core.is_offloaded()
                && inherited.is_some_and(|shared| !shared.is_sole_acceptor(process))
            {
                let _control = self.control();
                let detail = "another process accepts from it, too";
                hand_over::leave(self, socket, Reason::Forked, detail);
            }
        }
    }
}
