//! The end of a socket: what was written is still sent, and the connection closed, while nobody has
//! it any more.

use std::time::Duration;

use descriptors::OwnDescriptor;
use links::interface::Interface;
use links::reason::Reason;
use sys::streams;

use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::stack::{SocketWatcher, Stack};
use crate::tcp::clock::now;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::orphan::Orphan;
use crate::tcp::stream::Stream;

/// How soon the internal thread asks for the control lock again.
const CONTROL_INTERVAL: Duration = Duration::from_millis(1);

/// `SO_LINGER`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linger {
    /// Close in the background.
    Off,
    /// Reset the connection.
    Reset,
    /// The call waits.
    Wait,
}

fn linger(fd: libc::c_int) -> Linger {
    let mut bytes = [0; size_of::<libc::linger>()];
    let read = streams::option_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut bytes);
    let [a, b, c, d, e, f, g, h] = bytes;
    let (on, secs) = (
        i32::from_ne_bytes([a, b, c, d]),
        i32::from_ne_bytes([e, f, g, h]),
    );
    match (read, on, secs) {
        (Err(_), ..) | (_, 0, _) => Linger::Off,
        (Ok(_), _, 0) => Linger::Reset,
        _ => Linger::Wait,
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// The last descriptor is about to be closed. Returns whether the connection needs the object
    /// still: then it is given back when [`look_after`](Self::look_after) says so. Under the
    /// control lock.
    pub(crate) fn let_go(&'static self, host: &Host<S>) -> bool {
        if self.is_local() {
            self.close_local();
            return false;
        }
        if !self.is_stream() {
            return self.returns_as_orphan();
        }
        let (linger, copy) = self.kernels_socket();
        if linger == Linger::Wait {
            // The kernel's close waits, or closes what nobody can keep here.
            hand_over::hand_over(host, self.into(), Reason::Option, "SO_LINGER");
            return false;
        }
        // It would stay in the kernel's sets, as the copy keeps it open.
        for watcher in self.readiness.watchers() {
            watcher.leaves_kernel();
        }
        let now = now();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return false;
        };
        match linger {
            Linger::Reset => stream.connection.abort(),
            _ => stream.connection.close(now),
        }
        stream.orphan = Some(Orphan::new(copy, now));
        let outcome = stream.settle(&self.core, now);
        let (is_over, owes_time_wait) = (stream.is_over(), stream.owes_time_wait());
        let listener = stream.listener;
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        if outcome.needs_kick
            && let Some(sender) = sender
        {
            sender.start_segments();
        }
        self.announce(&outcome);
        if outcome.needs_egress {
            self.globals.timers.arm(self.timer(), now);
        }
        if let Some((listener, generation)) = listener
            && let Some(listener) = listener.as_tcp()
        {
            let segments = self.counters().rx_packets.value();
            listener.note_ended(host, generation, (now, segments));
        }
        !is_over || owes_time_wait
    }

    /// What the kernel's socket says of closing, and a descriptor of it for as long as the
    /// connection goes on.
    fn kernels_socket(&self) -> (Linger, Option<OwnDescriptor>) {
        let fd = self.fd();
        if self.has_own_number() {
            let copy = OwnDescriptor::copy_of(fd);
            let linger = match copy {
                // Most have never heard of it.
                Some(_) if !self.has_set(libc::SOL_SOCKET, libc::SO_LINGER) => Linger::Off,
                Some(_) => linger(fd),
                // The kernel's close closes what nobody can keep here.
                None => Linger::Wait,
            };
            return (linger, copy);
        }
        // It was closed past every hook, which was silent, as that of a socket under repair is.
        let addresses = match &*self.role.lock() {
            Role::Stream(stream) => (stream.local, stream.peer),
            _ => return (Linger::Off, None),
        };
        let family = self.family();
        let (local, peer) = (family.form(addresses.0), family.form(addresses.1));
        let reuses = self.attachment().reuses_address();
        let copy = streams::connected_silently(family.domain(), local, peer, reuses);
        (Linger::Off, copy)
    }

    /// Ends a life of the object.
    pub(crate) fn close(&self) {
        self.core.end_taking();
        self.core.end();
        self.finish();
        self.core.leave();
    }

    /// The descriptors are gone; the connection goes on for as long as it needs to.
    pub(crate) fn become_orphan(&self) {
        self.core.end();
        self.core.leave();
    }

    pub(super) fn finish(&self) {
        self.globals.timers.disarm(self.timer());
        let was = std::mem::replace(&mut *self.role.lock(), Role::None);
        self.clear_readiness();
        let was = match was {
            Role::Listener(listening) => {
                self.end_listening(listening);
                Role::None
            }
            was => was,
        };
        // Gives frames back and closes the copy.
        drop(was);
    }

    /// In the internal thread: the connection's time has come, or somebody has asked for help.
    /// Returns whether the object is nobody's any more.
    pub(super) fn look_after(&'static self, host: &Host<S>) -> bool {
        let now = now();
        let mut role = self.role.lock();
        if let Role::Listener(listening) = &mut *role {
            let outcome = listening.look_after(&self.core, self.globals, now);
            let interfaces: Vec<_> = listening.interfaces().collect();
            drop(role);
            interfaces.into_iter().for_each(Interface::start_segments);
            self.announce(&outcome);
            self.globals.hand_over_unmatched(host);
            self.settles(host, now);
            self.passes_on(host, now);
            return false;
        }
        if let Role::Returning(_) = &*role {
            drop(role);
            return self.look_after_return(host);
        }
        let Role::Stream(stream) = &mut *role else {
            return false;
        };
        stream.connection.on_timeout(now);
        if stream.owes_time_wait() {
            // Threads that make and end connections need the lock more often than this one, and
            // would wait for it.
            let is_patient = stream.wait_once_more();
            drop(role);
            let control = match host.try_control() {
                None if is_patient => {
                    self.globals
                        .timers
                        .arm(self.timer(), now + CONTROL_INTERVAL);
                    return false;
                }
                None => host.control(),
                Some(control) => control,
            };
            self.leave_time_wait(host);
            drop(control);
            role = self.role.lock();
        }
        let Role::Stream(stream) = &mut *role else {
            return false;
        };
        let outcome = stream.settle(&self.core, now);
        if stream.is_abandoned_and_over() {
            if let (true, Some(egress)) = (outcome.needs_kick, &stream.egress) {
                // Many may end at once: the device is told when all have been looked after.
                egress.sender.note_reply_to(egress.sender.interface);
            }
            drop(role);
            return self.end_orphan(host);
        }
        if stream.is_long_abandoned(now) {
            drop(role);
            let _control = host.control();
            return self.leave_as_orphan(host);
        }
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        // Others may have left that to this thread.
        if let Some(sender) = sender {
            sender.start_segments();
        }
        self.announce(&outcome);
        if outcome.needs_egress {
            self.find_way(host);
        }
        false
    }

    /// The same of one in the list of those that have ended, in a thread of the program's: what the
    /// kernel does for such a one in the background takes longer to hand to another thread than to
    /// do. Under the control lock.
    pub(super) fn end_listed(&'static self) -> bool {
        let now = now();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return false;
        };
        if !stream.is_abandoned_and_over() {
            return false;
        }
        if stream.owes_time_wait() && stream.may_wait_in_kernel(self.globals, now) {
            // The internal thread gives it to the kernel.
            return false;
        }
        let outcome = stream.settle(&self.core, now);
        if let (true, Some(egress)) = (outcome.needs_kick, &stream.egress) {
            egress.sender.note_reply_to(egress.sender.interface);
        }
        drop(role);
        // Tells the device, too.
        self.let_go_of_end();
        true
    }

    /// The connection that was here is over, and nobody has it. Returns whether the object is
    /// nobody's any more.
    fn end_orphan(&'static self, host: &Host<S>) -> bool {
        let _control = host.control();
        // Until this lock was held another thread may have closed the socket, and begun another
        // life of the object.
        let has_ended =
            matches!(&*self.role.lock(), Role::Stream(stream) if stream.is_abandoned_and_over());
        if has_ended {
            self.let_go_of_end();
        }
        has_ended
    }

    pub(super) fn let_go_of_end(&self) {
        self.drop_flows();
        self.release();
        self.finish();
    }
}

impl<S: Stack> Stream<S> {
    /// It is over, and nobody has it.
    pub(super) fn is_abandoned_and_over(&self) -> bool {
        self.orphan.is_some() && self.is_over()
    }
}
