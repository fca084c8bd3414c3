//! The loop of the internal thread: tasks that wait for descriptors and for times, one timer wheel
//! for all of them.
//!
//! A part of the library that has something to do without the application writes a [`Task`] and
//! adds it to the loop in `monitor.rs`; the others need not know.

use std::ops::Range;
use std::time::Duration;

use libc::{c_int, c_short};
use tcp::Instant;
use tcp::timer_wheel::TimerWheel;

/// Times are rounded up to multiples of this.
const TICK: Duration = Duration::from_micros(50);
/// How long the thread waits at most for tasks that only wait for descriptors.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// One of the things that the thread does.
pub(crate) trait Task {
    /// Adds the descriptors that it waits for, beside its time. Asked before every wait: they may
    /// be others each time.
    fn watch(&self, _watched: &mut Watched) {}

    /// One of these is ready or lost, or the task's time has come. Called first when the thread
    /// starts. `watched` are the descriptors of the task, in its order; none is ready when it is
    /// the time.
    fn run(&mut self, watched: &[libc::pollfd], now: Instant) -> Next;
}

/// When a task is to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// When a descriptor is ready, or after this time.
    In(Duration),
    /// When a descriptor is ready.
    OnEvent,
    /// Never, and none of the others either.
    EndThread,
}

/// Descriptors that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    fds: Vec<libc::pollfd>,
}

impl Watched {
    /// Waits for `events` of a descriptor.
    pub(crate) fn add(&mut self, fd: c_int, events: c_short) {
        self.fds.push(libc::pollfd {
            fd,
            events,
            revents: 0,
        });
    }
}

/// Whether the program has closed the first of the descriptors past every hook.
pub(crate) fn is_lost(watched: &[libc::pollfd]) -> bool {
    watched
        .first()
        .is_some_and(|it| it.revents & libc::POLLNVAL != 0)
}

/// The tasks, and when each of them is to run.
pub(crate) struct EventLoop {
    tasks: Vec<Box<dyn Task>>,
    timers: TimerWheel,
    watched: Watched,
    /// Which of the descriptors are each task's.
    ranges: Vec<Range<usize>>,
}

impl EventLoop {
    pub(crate) fn new() -> Self {
        Self {
            tasks: Vec::new(),
            timers: TimerWheel::new(TICK, now()),
            watched: Watched::default(),
            ranges: Vec::new(),
        }
    }

    /// Adds a task, which runs after those that were added before.
    pub(crate) fn add(&mut self, task: impl Task + 'static) {
        self.timers.arm(self.tasks.len() as u32, now());
        self.tasks.push(Box::new(task));
    }

    /// Runs until a task ends the thread. `begins_round` is called before it looks what there is to
    /// wait for.
    pub(crate) fn run(mut self, mut begins_round: impl FnMut()) {
        let mut is_due = vec![false; self.tasks.len()];
        loop {
            begins_round();
            self.collect();
            let timeout = self.timeout();
            sys::wait(&mut self.watched.fds, timeout);
            let now = now();
            while let Some(timer) = self.timers.poll(now) {
                is_due[timer as usize] = true;
            }
            for (index, task) in self.tasks.iter_mut().enumerate() {
                let watched = &self.watched.fds[self.ranges[index].clone()];
                let is_ready = watched.iter().any(|it| it.revents != 0);
                if !std::mem::take(&mut is_due[index]) && !is_ready {
                    continue;
                }
                match task.run(watched, now) {
                    Next::In(time) => self.timers.arm(index as u32, now + time),
                    Next::OnEvent => self.timers.disarm(index as u32),
                    Next::EndThread => return,
                }
            }
        }
    }

    fn collect(&mut self) {
        self.watched.fds.clear();
        self.ranges.clear();
        for task in &self.tasks {
            let first = self.watched.fds.len();
            task.watch(&mut self.watched);
            self.ranges.push(first..self.watched.fds.len());
        }
    }

    fn timeout(&self) -> Duration {
        self.timers
            .next_expiry()
            .map_or(WAIT_MAX, |expiry| expiry.saturating_since(now()))
    }
}

/// The clock of tasks.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(sys::now_nsec())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::fd::AsRawFd;
    use std::rc::Rc;

    use descriptors::OwnDescriptor;

    use super::*;

    type Log = Rc<RefCell<Vec<&'static str>>>;

    /// Runs a few times, and says so.
    struct Repeated {
        name: &'static str,
        every: Duration,
        left: u32,
        not_before: Instant,
        log: Log,
    }

    impl Task for Repeated {
        fn run(&mut self, watched: &[libc::pollfd], now: Instant) -> Next {
            assert!(watched.is_empty() && now >= self.not_before, "never early");
            self.not_before = now + self.every;
            self.log.borrow_mut().push(self.name);
            self.left -= 1;
            if self.left == 0 {
                Next::EndThread
            } else {
                Next::In(self.every)
            }
        }
    }

    /// Waits for an eventfd that another task writes to.
    struct Waiting {
        event: Rc<OwnDescriptor>,
        log: Log,
    }

    impl Task for Waiting {
        fn watch(&self, watched: &mut Watched) {
            watched.add(self.event.as_raw_fd(), libc::POLLIN);
        }

        fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
            if watched[0].revents & libc::POLLIN != 0 {
                sys::drain_eventfd(self.event.as_raw_fd());
                self.log.borrow_mut().push("event");
            }
            Next::OnEvent
        }
    }

    struct Once {
        event: Rc<OwnDescriptor>,
    }

    impl Task for Once {
        fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
            sys::signal_eventfd(self.event.as_raw_fd());
            Next::OnEvent
        }
    }

    #[test]
    fn tasks_run_at_their_times_and_events() {
        let log = Log::default();
        let event = Rc::new(sys::eventfd().unwrap());
        let mut events = EventLoop::new();
        for (name, msec, left) in [("often", 4, u32::MAX), ("rarely", 15, 3)] {
            events.add(Repeated {
                name,
                every: Duration::from_millis(msec),
                left,
                not_before: Instant::ZERO,
                log: Rc::clone(&log),
            });
        }
        events.add(Waiting {
            event: Rc::clone(&event),
            log: Rc::clone(&log),
        });
        events.add(Once { event });
        let mut rounds = 0;
        events.run(|| rounds += 1);
        assert!(rounds > 3);
        let log = log.borrow();
        let count = |name| log.iter().filter(|other| **other == name).count();
        assert_eq!(
            log[..2],
            ["often", "rarely"],
            "in the order of their addition"
        );
        assert_eq!((count("rarely"), count("event")), (3, 1));
        assert!(count("often") > 1, "{log:?}");
    }

    #[test]
    fn a_lost_descriptor_is_seen() {
        let polled = |revents| libc::pollfd {
            fd: 5,
            events: libc::POLLIN,
            revents,
        };
        assert!(is_lost(&[polled(libc::POLLNVAL)]));
        assert!(!is_lost(&[polled(libc::POLLIN), polled(libc::POLLNVAL)]) && !is_lost(&[]));
    }
}
