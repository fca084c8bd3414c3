//! What the internal thread does.

use std::time::Duration;

use descriptors::OwnDescriptor;
use dev_core::Backend;
use stats::ControlSocket;
use tcp::Instant;

use crate::engine::Engine;

use crate::engine::control::LogControls;
use crate::process::event_loop::{self, Next, Task, Watched, is_lost};
use crate::process::recall_channel::SHUT_DOWN;
use crate::process::throttle::Throttle;

/// How often is looked at what nobody announces.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Another thread has called: there are senders to look after, holders of interfaces to wait for,
/// or the process ends by a signal.
pub(super) struct Called<B: Backend> {
    engine: &'static Engine<B>,
}

/// How often the thread looks whether a bulk sender has stopped: twice this is what its last
/// datagrams may be late.
const SENDER_INTERVAL: Duration = Duration::from_micros(200);

impl<B: Backend> Called<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self { engine }
    }
}

impl<B: Backend> Task for Called<B> {
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.internal_thread.fd() {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        self.engine.internal_thread.answer();
        let again = self.engine.links.look_after_senders();
        self.engine.end_if_asked();
        if again {
            Next::In(SENDER_INTERVAL)
        } else {
            Next::OnEvent
        }
    }
}

/// Datagrams that leave at a rate or at a time.
pub(super) struct Paced<B: Backend> {
    engine: &'static Engine<B>,
    has_exact_timers: bool,
}

impl<B: Backend> Paced<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            has_exact_timers: false,
        }
    }
}

impl<B: Backend> Task for Paced<B> {
    /// Whoever has one that leaves earlier calls.
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.internal_thread.fd() {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        let polls = self.engine.settings().rx_poll != 0;
        let Some(time) = self.engine.pacers.run(polls) else {
            return Next::OnEvent;
        };
        if !std::mem::replace(&mut self.has_exact_timers, true) {
            sys::want_exact_timers();
        }
        Next::In(time)
    }
}

/// `vma_stats` asks for something.
pub(super) struct Requests<B: Backend> {
    engine: &'static Engine<B>,
    control: ControlSocket<OwnDescriptor>,
    log: LogControls,
    /// The program has closed the descriptor past every hook.
    is_lost: bool,
}

impl<B: Backend> Requests<B> {
    pub(super) fn new(
        engine: &'static Engine<B>,
        control: ControlSocket<OwnDescriptor>,
        log: LogControls,
    ) -> Self {
        Self {
            engine,
            control,
            log,
            is_lost: false,
        }
    }
}

impl<B: Backend> Task for Requests<B> {
    fn watch(&self, watched: &mut Watched) {
        if !self.is_lost {
            watched.add(self.control.raw_fd(), libc::POLLIN);
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        if is_lost(watched) {
            self.is_lost = true;
        } else if watched.iter().any(|it| it.revents != 0) {
            self.engine.answer_requests(&self.control, &self.log);
        }
        Next::OnEvent
    }
}

/// Interfaces that other processes hold: waits for their end.
pub(super) struct TakeOver<B: Backend> {
    engine: &'static Engine<B>,
}

/// How soon an interface is tried again whose holder has ended but is not gone yet.
const TAKEOVER_INTERVAL: Duration = Duration::from_millis(20);

impl<B: Backend> TakeOver<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self { engine }
    }
}

impl<B: Backend> Task for TakeOver<B> {
    fn watch(&self, watched: &mut Watched) {
        let wait_for = |fd| watched.add(fd, libc::POLLIN);
        self.engine.links.watch_holders(wait_for);
    }

    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        let soon = self.engine.take_over();
        Next::In(if soon {
            TAKEOVER_INTERVAL
        } else {
            IDLE_INTERVAL
        })
    }
}

/// Interfaces that are open after calls have gone on without.
pub(super) struct OpenedLate<B: Backend> {
    engine: &'static Engine<B>,
}

impl<B: Backend> OpenedLate<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self { engine }
    }
}

impl<B: Backend> Task for OpenedLate<B> {
    /// Whoever has opened one calls.
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.internal_thread.fd() {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        self.engine.follow_opened();
        Next::OnEvent
    }
}

/// Descriptors that were closed past every hook, and listeners that others have come to share.
pub(super) struct LostDescriptors<B: Backend> {
    engine: &'static Engine<B>,
}

impl<B: Backend> LostDescriptors<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self { engine }
    }
}

impl<B: Backend> Task for LostDescriptors<B> {
    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        self.engine.forget_lost_descriptors();
        self.engine.look_for_rings();
        self.engine.share_inherited_sockets();
        self.engine.leave_used_while_held();
        self.engine.leave_wanted_interfaces();
        self.engine.leave_idle_interfaces();
        Next::In(IDLE_INTERVAL)
    }
}

/// Others are about to use sockets that this process has adopted, or leave interfaces to it.
pub(super) struct AdoptedSockets<B: Backend> {
    engine: &'static Engine<B>,
    /// Others that listen at the same channel are given time to look, too.
    is_paused: bool,
}

/// How long.
const WAKE_PAUSE: Duration = Duration::from_millis(5);

impl<B: Backend> AdoptedSockets<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            is_paused: false,
        }
    }
}

impl<B: Backend> Task for AdoptedSockets<B> {
    /// Whoever adds a channel calls the thread.
    fn watch(&self, watched: &mut Watched) {
        if !self.is_paused {
            for fd in self
                .engine
                .wake_channels
                .known()
                .iter()
                .filter_map(|channel| channel.fd())
            {
                watched.add(fd, libc::POLLIN);
            }
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        let was_paused = std::mem::take(&mut self.is_paused);
        if was_paused {
            let wake_channels = self.engine.wake_channels.known();
            wake_channels.iter().for_each(|channel| channel.drain());
        }
        let was_woken = watched.iter().any(|it| it.revents != 0);
        if was_paused || was_woken {
            self.engine.share_inherited_sockets();
            // It is woken, too, when an opener has left an interface to us.
            self.engine.take_over();
        }
        self.is_paused = was_woken;
        if was_woken {
            Next::In(WAKE_PAUSE)
        } else {
            Next::OnEvent
        }
    }
}

/// Gauges that no packet touches, and devices that were too busy to be told of frames.
pub(super) struct Gauges<B: Backend> {
    engine: &'static Engine<B>,
}

/// How often a device is kicked that was too busy.
const BUSY_INTERVAL: Duration = Duration::from_millis(5);

impl<B: Backend> Gauges<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self { engine }
    }
}

impl<B: Backend> Task for Gauges<B> {
    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        let is_busy = self.engine.refresh_gauges();
        self.engine.end_recording_if_due();
        Next::In(if is_busy {
            BUSY_INTERVAL
        } else {
            IDLE_INTERVAL
        })
    }
}

/// Descendants of the process ask for sockets.
pub(super) struct Descendants<B: Backend> {
    engine: &'static Engine<B>,
    throttle: Throttle,
    /// Nobody can ask any more.
    is_deaf: bool,
    /// Not looked at until the throttle's period is over.
    is_paused: bool,
}

impl<B: Backend> Descendants<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            throttle: Throttle::default(),
            is_deaf: false,
            is_paused: false,
        }
    }
}

impl<B: Backend> Task for Descendants<B> {
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.sharing.recall_fd()
            && !self.is_deaf
            && !self.is_paused
        {
            watched.add(fd, libc::POLLIN | SHUT_DOWN);
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], now: Instant) -> Next {
        self.is_paused = false;
        let events = watched.first().map_or(0, |it| it.revents);
        if events & libc::POLLIN != 0 {
            self.engine.answer_descendants();
            self.throttle.looked(now, event_loop::now());
        }
        if events & SHUT_DOWN != 0 {
            log::warn!("a child has cut off all others: they get the sockets now");
            self.is_deaf = true;
            self.engine.descendants_are_deaf();
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

/// Segments that come to the kernel sockets of connections.
pub(super) struct Strays<B: Backend> {
    engine: &'static Engine<B>,
}

impl<B: Backend> Strays<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self { engine }
    }
}

impl<B: Backend> Task for Strays<B> {
    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        Next::In(self.engine.look_for_strays().unwrap_or(IDLE_INTERVAL))
    }
}

/// Timers of connections.
pub(super) struct Streams<B: Backend> {
    engine: &'static Engine<B>,
}

impl<B: Backend> Streams<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self { engine }
    }
}

impl<B: Backend> Task for Streams<B> {
    /// Whoever sets an earlier timer calls.
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.internal_thread.fd() {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        self.engine
            .look_after_streams()
            .map_or(Next::OnEvent, Next::In)
    }
}
