//! The library's internal thread: follows the network's configuration and the paths that the kernel learns, keeps slow gauges up
//! to date, leaves sockets to the kernel that a forked child asks for, takes over interfaces that others have held, finds
//! descriptors that were closed past every hook, and gets the last datagrams of a bulk
//! sender out.

use std::time::{Duration, Instant};

use dev_core::Backend;

use crate::engine::Engine;
use crate::netconf_network::NetconfNetwork;
use crate::process::fork::{SHUT_DOWN, Throttle};
use crate::sys;

/// How often gauges are brought up to date and descriptors looked at.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// How soon an interface is tried again whose holder has ended but is not gone yet.
const TAKEOVER_INTERVAL: Duration = Duration::from_millis(20);
/// The first descriptors that the thread waits for; those of processes that hold interfaces follow.
const WATCHED: usize = 5;
/// How often a device is kicked that was too busy.
const BUSY_INTERVAL: Duration = Duration::from_millis(5);
/// How often the thread looks whether a bulk sender has stopped: twice this is what its last datagrams may be late.
const SENDER_INTERVAL: Duration = Duration::from_micros(200);

/// How long the kernel is given for what an ICMP message says of a path: it shows the message before it acts. This also bounds how
/// often a flood of them is looked at.
const PATH_DELAY: Duration = Duration::from_millis(2);

/// What the thread needs before it runs.
pub struct Monitor {
    sender_watch: Option<sys::OwnedFd>,
}

impl Monitor {
    /// To be called by the thread that starts the internal one. A new descriptor has the lowest free number until it is
    /// moved away; if the internal thread made it, a program might meanwhile be given another number than it expects.
    #[must_use]
    pub fn prepare() -> Self {
        Self {
            sender_watch: sys::eventfd().ok(),
        }
    }

    /// Runs until the process ends. The caller has blocked every signal for this thread.
    pub fn run<B: Backend>(self, engine: &'static Engine<B>, network: &NetconfNetwork) {
        // The thread that made this one may have real-time priority and one core, where this one would disturb it.
        sys::become_ordinary_thread();
        // poll(2) looks away from a negative number. Without the second descriptor, every datagram is sent at once.
        let mut recalls = engine.sharing.recall_fd().unwrap_or(-1);
        let sender_watch = self
            .sender_watch
            .map_or(-1, |fd| engine.internal_thread.begin(fd));
        let mut watches_senders = false;
        let (mut gauges_due, mut look_due) = (Instant::now(), Instant::now());
        let (mut watches_paths, mut paths_due) = (true, None::<Instant>);
        let mut watches_ipsec = true;
        let mut takeover_due = look_due;
        let mut throttle = Throttle::default();
        let mut fds = Vec::new();
        loop {
            let pause = throttle.pause(Instant::now());
            let paths = network
                .paths_fd()
                .filter(|_| watches_paths && paths_due.is_none());
            let watched: [_; WATCHED] = [
                network.events_fd(),
                sender_watch,
                if pause.is_some() { -1 } else { recalls },
                paths.unwrap_or(-1),
                network.ipsec_fd().filter(|_| watches_ipsec).unwrap_or(-1),
            ];
            fds.clear();
            fds.extend(watched.map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            }));
            fds[2].events |= SHUT_DOWN;
            engine.links.watch_holders(&mut fds);
            let due = paths_due.map_or(gauges_due, |due| due.min(gauges_due));
            let due = due.min(takeover_due);
            let due = pause.map_or(due, |end| due.min(end));
            let mut timeout = due.saturating_duration_since(Instant::now());
            if watches_senders {
                timeout = timeout.min(SENDER_INTERVAL);
            }
            sys::wait(&mut fds, timeout);
            if watches_senders || fds[1].revents != 0 {
                engine.internal_thread.answer();
                watches_senders = engine.links.look_after_senders();
            }
            engine.end_if_asked();
            let now = Instant::now();
            if fds[3].revents & libc::POLLNVAL != 0 {
                // The program has closed it past every hook.
                watches_paths = false;
            } else if fds[3].revents != 0 {
                paths_due = Some(now + PATH_DELAY);
            }
            if paths_due.is_some_and(|due| now >= due) {
                paths_due = None;
                engine.follow_change(&network.take_paths());
            }
            let holder_has_ended = fds[WATCHED..].iter().any(|holder| holder.revents != 0);
            if now >= takeover_due || holder_has_ended {
                let soon = engine.take_over();
                takeover_due = now
                    + if soon {
                        TAKEOVER_INTERVAL
                    } else {
                        IDLE_INTERVAL
                    };
            }
            if now >= look_due {
                engine.forget_lost_descriptors();
                engine.look_after_shared_ports();
                look_due = now + IDLE_INTERVAL;
            }
            if now >= gauges_due {
                let busy = engine.refresh_gauges();
                gauges_due = now + if busy { BUSY_INTERVAL } else { IDLE_INTERVAL };
            }
            if fds[2].revents & libc::POLLIN != 0 {
                throttle.looked(now);
                engine.answer_descendants();
            }
            if fds[2].revents & SHUT_DOWN != 0 {
                log::warn!("a child has cut off all others: they get the sockets now");
                recalls = -1;
                engine.descendants_are_deaf();
            }
            if fds[0].revents & libc::POLLNVAL != 0 {
                log::error!("the network configuration is not followed any more");
                engine.sharing.stop_listening();
                return;
            }
            if fds[4].revents & libc::POLLNVAL != 0 {
                watches_ipsec = false;
            }
            if fds[0].revents != 0 || fds[4].revents != 0 {
                // Also after an overrun, which shows as an error.
                engine.follow_network();
            }
        }
    }
}
