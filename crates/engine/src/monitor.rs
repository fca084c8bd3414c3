//! The library's internal thread: follows the network's configuration, keeps slow gauges up to date, and finds descriptors that
//! were closed past every hook. It never touches a packet.

use ring::Backend;

use crate::engine::Engine;
use crate::netconf_network::NetconfNetwork;
use crate::sys;

/// How often gauges are brought up to date.
const GAUGE_INTERVAL_MSEC: libc::c_int = 500;
/// How often a device is kicked that was too busy.
const BUSY_INTERVAL_MSEC: libc::c_int = 5;
/// How often descriptors are looked at, at most.
const LOOK_INTERVAL_NSEC: u64 = 450_000_000;

/// Runs until the process ends. The caller has blocked every signal for this thread.
pub fn run<B: Backend>(engine: &'static Engine<B>, network: &NetconfNetwork) {
    // The thread that made this one may have real-time priority and one core, where this one would disturb it.
    sys::become_ordinary_thread();
    let mut interval_msec = GAUGE_INTERVAL_MSEC;
    let mut look_due_nsec = 0;
    loop {
        let mut fds = [libc::pollfd {
            fd: network.events_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        sys::wait(&mut fds, interval_msec);
        if sys::tick_nsec() >= look_due_nsec {
            engine.forget_lost_descriptors();
            look_due_nsec = sys::tick_nsec() + LOOK_INTERVAL_NSEC;
        }
        interval_msec = if engine.refresh_gauges() {
            BUSY_INTERVAL_MSEC
        } else {
            GAUGE_INTERVAL_MSEC
        };
        if fds[0].revents & libc::POLLNVAL != 0 {
            log::error!("the network configuration is not followed any more");
            return;
        }
        if fds[0].revents != 0 {
            // Also after an overrun, which shows as an error.
            engine.follow_network();
        }
    }
}
