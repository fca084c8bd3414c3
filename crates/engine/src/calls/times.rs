//! Times of calls that wait, in nanoseconds, and what is left of them.

use libc::{c_int, suseconds_t, time_t, timespec, timeval};

const NSEC_PER_SEC: u64 = 1_000_000_000;

/// The timeout of `poll(2)` and `epoll_wait(2)`. `None`: without an end.
#[inline]
pub fn nsec_of_msec(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|msec| msec * 1_000_000)
}

/// `None`: not a time; the kernel says what it thinks of it.
#[inline]
pub fn nsec_of_timespec(time: timespec) -> Option<u64> {
    let sec = u64::try_from(time.tv_sec).ok()?;
    let nsec = u64::try_from(time.tv_nsec).ok()?;
    (nsec < NSEC_PER_SEC).then(|| sec.saturating_mul(NSEC_PER_SEC).saturating_add(nsec))
}

/// The same for `select(2)`, which takes any number of microseconds.
#[inline]
pub fn nsec_of_timeval(time: timeval) -> Option<u64> {
    let sec = u64::try_from(time.tv_sec).ok()?;
    let usec = u64::try_from(time.tv_usec).ok()?;
    let nsec = sec.saturating_mul(NSEC_PER_SEC);
    Some(nsec.saturating_add(usec.saturating_mul(1000)))
}

/// What is left of a `select(2)`'s.
#[inline]
pub fn timeval_of_nsec(nsec: u64) -> timeval {
    timeval {
        tv_sec: time_t::try_from(nsec / NSEC_PER_SEC).unwrap_or(time_t::MAX),
        tv_usec: (nsec % NSEC_PER_SEC / 1000) as suseconds_t,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_nanoseconds() {
        assert_eq!([nsec_of_msec(-1), nsec_of_msec(2)], [None, Some(2_000_000)]);
        for (tv_sec, tv_nsec, expected) in [
            (0, 0, Some(0)),
            (1, 5, Some(1_000_000_005)),
            (i64::MAX, 0, Some(u64::MAX)),
            (-1, 0, None),
            (0, -1, None),
            (0, 1_000_000_000, None),
        ] {
            assert_eq!(nsec_of_timespec(timespec { tv_sec, tv_nsec }), expected);
        }
        for (tv_sec, tv_usec, expected) in [
            (1, 5, Some(1_000_005_000)),
            (1, 2_000_000, Some(3_000_000_000)),
            (i64::MAX, i64::MAX, Some(u64::MAX)),
            (-1, 0, None),
            (0, -1, None),
        ] {
            assert_eq!(nsec_of_timeval(timeval { tv_sec, tv_usec }), expected);
        }
    }

    #[test]
    fn what_is_left_is_told_in_the_call_s_unit() {
        let left = sys::timespec_of_nsec(2_000_001_999);
        assert_eq!((left.tv_sec, left.tv_nsec), (2, 1_999));
        let left = timeval_of_nsec(2_000_001_999);
        assert_eq!((left.tv_sec, left.tv_usec), (2, 1));
    }
}
