//! `recvmmsg(2)`, message by message.

use std::time::{Duration, Instant};

use libc::{c_int, c_uint, time_t, timespec};
use sys::Errno;

/// A `recvmmsg(2)` on its way. It waits for a message only if that is asked for, and what goes
/// wrong behind the first message ends it without an error.
#[derive(Debug)]
pub struct ReceiveMany {
    count: c_uint,
    flags: c_int,
    time: Option<ReceiveTime>,
    received: c_uint,
    is_over: bool,
    /// What has ended it.
    error: Option<Errno>,
}

/// What has become of a `recvmmsg(2)`.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The call's result.
    pub result: Result<c_int, Errno>,
    /// What it has ended with behind the first message, if that is worth another call's while.
    pub postponed: Option<Errno>,
    /// What is left of the timeout, if there is one.
    pub left: Option<timespec>,
}

impl ReceiveMany {
    /// Of up to `count` messages, with the flags of the call.
    #[inline]
    pub fn begin(count: c_uint, flags: c_int, time: Option<ReceiveTime>) -> Self {
        Self {
            count,
            flags,
            time,
            received: 0,
            is_over: false,
            error: None,
        }
    }

    /// The number of the next message to receive, and the flags to do so with. `has_only_failed`:
    /// the socket has nothing to be read but its error, which stays for the next call.
    #[inline]
    pub fn next(&self, has_only_failed: impl FnOnce() -> bool) -> Option<(usize, c_int)> {
        let is_first = self.received == 0;
        if self.is_over || self.received == self.count || !is_first && has_only_failed() {
            return None;
        }
        let waits = is_first || self.flags & libc::MSG_WAITFORONE == 0;
        let flags = self.flags & !libc::MSG_WAITFORONE;
        let nonblocking = if waits { 0 } else { libc::MSG_DONTWAIT };
        Some((self.received as usize, flags | nonblocking))
    }

    /// The message is there, with these flags of its own. `now` is asked only if time may run out.
    #[inline]
    pub fn received(&mut self, flags: c_int, now: impl FnOnce() -> Instant) {
        self.received += 1;
        // An urgent octet ends the call.
        self.is_over = flags & libc::MSG_OOB != 0
            || self.time.as_mut().is_some_and(|time| time.runs_out(now()));
    }

    /// Receiving the message has failed.
    #[cold]
    pub fn failed(&mut self, error: Errno) {
        self.is_over = true;
        self.error = Some(error);
    }

    /// The end of the call.
    #[inline]
    pub fn end(self) -> Received {
        let is_lasting = |error: &Errno| !matches!(error.0, libc::EAGAIN | libc::EINTR);
        let (result, postponed) = match self.error {
            Some(error) if self.received == 0 => (Err(error), None),
            error => (Ok(self.received as c_int), error.filter(is_lasting)),
        };
        Received {
            result,
            postponed,
            left: self.time.map(|time| timespec_of(time.left)),
        }
    }
}

/// The timeout of a `recvmmsg(2)`: it is looked at after each message only, and what was left of it
/// then is given back.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveTime {
    begun: Instant,
    asked: Duration,
    left: Duration,
}

impl ReceiveTime {
    /// `None`: not a time, which the kernel says itself.
    pub fn begin(asked: timespec, now: Instant) -> Option<Self> {
        let sec = u64::try_from(asked.tv_sec).ok()?;
        let nsec = u32::try_from(asked.tv_nsec).ok()?;
        let asked = (nsec < 1_000_000_000).then(|| Duration::new(sec, nsec))?;
        Some(Self {
            begun: now,
            asked,
            left: asked,
        })
    }

    /// Takes note of what is left, which may be nothing.
    fn runs_out(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.begun);
        self.left = self.asked.saturating_sub(passed);
        self.left.is_zero()
    }
}

fn timespec_of(time: Duration) -> timespec {
    timespec {
        tv_sec: time_t::try_from(time.as_secs()).unwrap_or(time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use libc::{MSG_DONTWAIT, MSG_OOB, MSG_PEEK, MSG_WAITFORONE};

    use super::*;

    /// What becomes of each message: its flags, or an error.
    fn run(many: &mut ReceiveMany, messages: &[Result<c_int, c_int>]) -> Vec<c_int> {
        let mut asked = Vec::new();
        while let Some((index, flags)) = many.next(|| false) {
            assert_eq!(index, asked.len());
            asked.push(flags);
            match messages[index] {
                Ok(flags) => many.received(flags, || unreachable!("there is no timeout")),
                Err(errno) => many.failed(Errno(errno)),
            }
        }
        asked
    }

    fn end(messages: &[Result<c_int, c_int>]) -> (Result<c_int, Errno>, Option<Errno>) {
        let mut many = ReceiveMany::begin(4, 0, None);
        run(&mut many, messages);
        let end = many.end();
        assert!(end.left.is_none());
        (end.result, end.postponed)
    }

    #[test]
    fn it_receives_as_many_as_there_are() {
        assert_eq!(end(&[Ok(0); 4]), (Ok(4), None));
        assert_eq!(end(&[Ok(0), Err(libc::EAGAIN)]), (Ok(1), None));
        assert_eq!(end(&[Ok(0), Ok(0), Err(libc::EINTR)]), (Ok(2), None));
        assert_eq!(end(&[Ok(0), Ok(MSG_OOB)]), (Ok(2), None));
        let none = ReceiveMany::begin(0, 0, None);
        assert_eq!(none.next(|| false), None);
        assert_eq!(none.end().result, Ok(0));
    }

    #[test]
    fn an_error_behind_the_first_message_is_for_another_call() {
        let refused = Errno(libc::ECONNREFUSED);
        assert_eq!(end(&[Err(libc::ECONNREFUSED)]), (Err(refused), None));
        assert_eq!(end(&[Err(libc::EAGAIN)]), (Err(Errno(libc::EAGAIN)), None));
        assert_eq!(
            end(&[Ok(0), Err(libc::ECONNREFUSED)]),
            (Ok(1), Some(refused))
        );
        assert_eq!(
            end(&[Ok(0), Err(libc::EFAULT)]),
            (Ok(1), Some(Errno(libc::EFAULT)))
        );
    }

    #[test]
    fn only_the_first_message_is_waited_for_if_one_is_enough() {
        let flags = |flags| run(&mut ReceiveMany::begin(3, flags, None), &[Ok(0); 3]);
        assert_eq!(flags(MSG_PEEK), [MSG_PEEK; 3]);
        assert_eq!(flags(MSG_WAITFORONE), [0, MSG_DONTWAIT, MSG_DONTWAIT]);
        assert_eq!(flags(MSG_WAITFORONE | MSG_DONTWAIT), [MSG_DONTWAIT; 3]);
    }

    #[test]
    fn a_stream_s_error_stays_for_the_next_call() {
        let mut many = ReceiveMany::begin(3, 0, None);
        assert_eq!(many.next(|| true), Some((0, 0)), "the first tells of it");
        many.received(0, || unreachable!("there is no timeout"));
        assert_eq!(many.next(|| true), None);
        assert_eq!(many.end().result, Ok(1));
    }

    #[test]
    fn time_is_looked_at_behind_each_message() {
        let asked = timespec {
            tv_sec: 1,
            tv_nsec: 500_000_000,
        };
        let begun = Instant::now();
        let begin = || ReceiveMany::begin(3, 0, ReceiveTime::begin(asked, begun));
        let left = |many: ReceiveMany| {
            let left = many.end().left.unwrap();
            (left.tv_sec, left.tv_nsec)
        };
        let mut many = begin();
        many.received(0, || begun + Duration::from_millis(600));
        assert!(many.next(|| false).is_some());
        many.received(0, || begun + Duration::from_millis(2_000));
        assert_eq!(many.next(|| false), None);
        assert_eq!(left(many), (0, 0));
        let mut many = begin();
        many.received(0, || begun + Duration::from_millis(600));
        assert_eq!(left(many), (0, 900_000_000));
        let mut many = begin();
        many.failed(Errno(libc::EAGAIN));
        assert_eq!(left(many), (1, 500_000_000), "no message, no look");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let now = Instant::now();
        for (tv_sec, tv_nsec) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert!(ReceiveTime::begin(timespec { tv_sec, tv_nsec }, now).is_none());
        }
    }
}
