//! Ports that sockets of other processes come to share (`SO_REUSEADDR`, `SO_REUSEPORT`). Nobody
//! announces that, so the internal thread asks who has them: often while packets come, of which the
//! others would miss some, and seldom else.

use std::time::Duration;

use dev_core::Backend;
use tcp::Instant;

use crate::engine::Engine;
use crate::process::event_loop::{Next, Task};
use crate::tcp::look_after_shared_listeners;
use crate::udp::look_after_shared_ports;

/// How often is looked while nothing comes.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// How often is looked at most.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);
/// The share of a CPU that looking may take: one part of so many. Where many sockets are open, it
/// is looked less often.
const COST_SHARE: u32 = 100;

pub(super) struct SharedPorts<B: Backend> {
    engine: &'static Engine<B>,
    /// Frames that all interfaces had received at the last look.
    received: u64,
}

impl<B: Backend> SharedPorts<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            received: 0,
        }
    }
}

impl<B: Backend> Task for SharedPorts<B> {
    fn run(&mut self, _watched: &[libc::pollfd], _now: Instant) -> Next {
        let begin = sys::now_nsec();
        let listeners_may_be = look_after_shared_listeners(self.engine);
        let may_be_shared = look_after_shared_ports(self.engine) || listeners_may_be;
        let cost = Duration::from_nanos(sys::now_nsec().saturating_sub(begin));
        let received = self.engine.links.frames_received();
        let is_busy = std::mem::replace(&mut self.received, received) != received;
        Next::In(interval(may_be_shared && is_busy, cost))
    }
}

fn interval(is_busy: bool, cost: Duration) -> Duration {
    let least = if is_busy {
        BUSY_INTERVAL
    } else {
        IDLE_INTERVAL
    };
    (cost * COST_SHARE).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_a_hundredth_of_a_cpu_at_most() {
        let msec = Duration::from_millis;
        assert_eq!(interval(false, Duration::ZERO), msec(500));
        assert_eq!(interval(true, Duration::from_micros(20)), msec(10));
        assert_eq!(interval(true, Duration::from_micros(500)), msec(50));
        assert_eq!(interval(true, msec(20)), msec(2000));
        assert_eq!(interval(false, msec(20)), msec(2000));
    }
}
