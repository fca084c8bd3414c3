//! The library's internal thread: follows the network's configuration, keeps slow gauges up to date, leaves sockets to the kernel
//! that a forked child asks for, finds descriptors that were closed past every hook, and gets the last datagrams of a bulk
//! sender out.

use std::time::{Duration, Instant};

use ring::Backend;

use crate::engine::Engine;
use crate::netconf_network::NetconfNetwork;
use crate::sys;

/// How often gauges are brought up to date and descriptors looked at.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// How often a device is kicked that was too busy.
const BUSY_INTERVAL: Duration = Duration::from_millis(5);
/// How often the thread looks whether a bulk sender has stopped: twice this is what its last datagrams may be late.
const SENDER_INTERVAL: Duration = Duration::from_micros(200);

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
        let recalls = engine.sharing.recall_fd().unwrap_or(-1);
        let sender_watch = self
            .sender_watch
            .map_or(-1, |fd| engine.begin_sender_watch(fd));
        let mut watches_senders = false;
        let (mut gauges_due, mut look_due) = (Instant::now(), Instant::now());
        loop {
            let mut fds = [network.events_fd(), sender_watch, recalls].map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
            let idle = gauges_due.saturating_duration_since(Instant::now());
            sys::wait(
                &mut fds,
                if watches_senders {
                    SENDER_INTERVAL
                } else {
                    idle
                },
            );
            if watches_senders || fds[1].revents != 0 {
                watches_senders = engine.look_after_senders();
            }
            let now = Instant::now();
            if now >= look_due {
                engine.forget_lost_descriptors();
                look_due = now + IDLE_INTERVAL;
            }
            if now >= gauges_due {
                let busy = engine.refresh_gauges();
                gauges_due = now + if busy { BUSY_INTERVAL } else { IDLE_INTERVAL };
            }
            if fds[2].revents & libc::POLLIN != 0 {
                engine.answer_descendants();
            }
            if fds[0].revents & libc::POLLNVAL != 0 {
                log::error!("the network configuration is not followed any more");
                engine.sharing.stop_listening();
                return;
            }
            if fds[0].revents != 0 {
                // Also after an overrun, which shows as an error.
                engine.follow_network();
            }
        }
    }
}
