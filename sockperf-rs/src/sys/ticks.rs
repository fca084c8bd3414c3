//! Interrupts the blocked calls of a thread, so that it looks at the clock and at the stop request.
//!
//! A time-out of the socket (`SO_RCVTIMEO`) would do the same, but then the kernel sets and deletes
//! a timer in every call that has to wait: 0.1 us each, which is 2 % of a ping-pong.

#![allow(
    unsafe_code,
    reason = "there is no safe way to install a handler without SA_RESTART"
)]

use std::sync::OnceLock;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{
    SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction,
};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

use crate::error::Error;

/// A timer that interrupts the thread that made it, as long as it lives. For use in that thread
/// only: it must end with it.
#[derive(Debug)]
pub struct Ticks {
    _timer: Timer,
}

/// Ignored where no handler is installed.
const SIGNAL: Signal = Signal::SIGURG;

impl Ticks {
    /// Interrupts the calls of this thread once in every `period`.
    pub fn start(period: Duration) -> Result<Self, Error> {
        let start = || {
            install_handler()?;
            let notify = SigevNotify::SigevThreadId {
                signal: SIGNAL,
                thread_id: rustix::thread::gettid().as_raw_nonzero().get(),
                si_value: 0,
            };
            let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(notify))?;
            let period = Expiration::Interval(TimeSpec::from_duration(period));
            timer.set(period, TimerSetTimeFlags::empty())?;
            Ok(Self { _timer: timer })
        };
        start().map_err(|errno: Errno| Error::setup("cannot make a timer", errno))
    }
}

extern "C" fn do_nothing(_signal: i32) {}

fn install_handler() -> Result<(), Errno> {
    static RESULT: OnceLock<Result<(), Errno>> = OnceLock::new();
    *RESULT.get_or_init(|| {
        // Without SA_RESTART: the interrupted call returns EINTR.
        let handler = SigHandler::Handler(do_nothing);
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing, which is safe at any time.
        unsafe { sigaction(SIGNAL, &action) }.map(drop)
    })
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::UdpSocket;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_blocked_call_is_interrupted_again_and_again() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let start = Instant::now();
        let ticks = Ticks::start(Duration::from_millis(20)).unwrap();
        for _ in 0..3 {
            let error = socket.recv(&mut [0; 10]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
        }
        assert!(start.elapsed() >= Duration::from_millis(59));
        drop(ticks);
        // Now it blocks as ever.
        let timeout = Some(Duration::from_millis(100));
        socket.set_read_timeout(timeout).unwrap();
        let error = socket.recv(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn only_the_thread_that_asked_is_interrupted() {
        let _ticks = Ticks::start(Duration::from_millis(5)).unwrap();
        let other = std::thread::spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let timeout = Some(Duration::from_millis(100));
            socket.set_read_timeout(timeout).unwrap();
            socket.recv(&mut [0; 10]).unwrap_err().kind()
        });
        assert_eq!(other.join().unwrap(), ErrorKind::WouldBlock);
    }
}
