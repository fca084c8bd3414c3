//! What becomes of a listener's connections. One that is accepted past the kernel and returns to it
//! at once costs more than if the kernel had accepted it: a server that forks for each connection,
//! or has the C library read them, is faster with a listener of the kernel's.

use std::time::Duration;

use ::tcp::Instant;

/// What became of the last connections of a listener.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Habit {
    accepted: u32,
    /// Those that returned before they had gained what that costs.
    returned: u32,
    /// Those of the last second: since when, how many have ended, and of these how many soon.
    second: Option<Instant>,
    ended: u32,
    ended_soon: u32,
}

/// How many segments of its peer a connection takes past the kernel until it has gained what its
/// return costs. Measured over veth: 78 us more than accepting in the kernel, and 9 us less each
/// for a round trip.
const WORTHWHILE: u64 = 10;
/// So many must have returned.
const RETURNED_MIN: u32 = 4;
/// The same of those that the program ends itself. A connection of one request is served 0.5 to
/// 0.95 times as fast as by the kernel; where a broker does for the process what takes rights, it
/// is asked four times, which takes 260 us.
const WORTHWHILE_TO_ITS_END: u64 = 30;
/// So many short ones in a second are not a monitor's.
const SHORT_MIN: u32 = 100;
/// Of so many that were accepted only half count on: what the program does may change.
const REMEMBERED: u32 = 64;

impl Habit {
    /// A connection is accepted.
    pub(in crate::tcp) fn accepts(&mut self) {
        if self.accepted >= REMEMBERED {
            self.accepted /= 2;
            self.returned /= 2;
        }
        self.accepted += 1;
    }

    /// One of them returns to the kernel, after so many segments of its peer.
    pub(in crate::tcp) fn returns(&mut self, segments: u64) {
        if segments < WORTHWHILE {
            self.returned += 1;
        }
    }

    /// The program has closed one of them, after so many segments.
    pub(in crate::tcp) fn ends(&mut self, now: Instant, segments: u64) {
        if self
            .second
            .is_none_or(|since| now > since + Duration::from_secs(1))
        {
            (self.second, self.ended, self.ended_soon) = (Some(now), 0, 0);
        }
        self.ended += 1;
        if segments < WORTHWHILE_TO_ITS_END {
            self.ended_soon += 1;
        }
    }

    /// Whether most that end do so soon, many in a second.
    pub(in crate::tcp) fn is_of_short_ones(&self) -> bool {
        self.ended_soon >= SHORT_MIN && u64::from(self.ended_soon) * 4 > u64::from(self.ended) * 3
    }

    /// Whether the listener is better left to the kernel: more than three quarters of its
    /// connections return.
    pub(in crate::tcp) fn is_to_return(&self) -> bool {
        self.returned >= RETURNED_MIN && u64::from(self.returned) * 4 > u64::from(self.accepted) * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections one after the other: `r` returns at once, `l` late, `s` stays. After which of
    /// them the listener is left.
    fn left_after(connections: &str) -> Option<usize> {
        let mut habit = Habit::default();
        let mut connections = connections.chars();
        let place = connections.position(|what| {
            habit.accepts();
            match what {
                'r' => habit.returns(0),
                'l' => habit.returns(WORTHWHILE),
                _ => {}
            }
            habit.is_to_return()
        });
        place.map(|place| place + 1)
    }

    #[test]
    fn a_listener_is_left_when_most_of_its_connections_return_at_once() {
        for (connections, expected) in [
            ("", None),
            ("rrr", None),
            ("rrrr", Some(4)),
            // A probe, or a monitor, is none of them.
            ("srrrr", Some(5)),
            ("ssrrrrrrr", Some(9)),
            // One in four stays.
            ("srrrsrrrsrrrsrrrsrrrsrrrsrrr", None),
            ("srrrrsrrrr", Some(5)),
            // What has gained its return does not count, nor does it against it.
            ("llllllllllllllll", None),
            ("lrrrrr", Some(5)),
        ] {
            assert_eq!(left_after(connections), expected, "{connections}");
        }
    }

    #[test]
    fn many_short_ones_in_a_second_are_told_from_few() {
        let begin = Instant::from_nanos(5_000_000_000);
        let mut habit = Habit::default();
        for number in 0..99 {
            habit.ends(begin + Duration::from_millis(number), 5);
            assert!(!habit.is_of_short_ones());
        }
        habit.ends(begin + Duration::from_millis(99), 5);
        assert!(habit.is_of_short_ones());
        (0..50).for_each(|_| habit.ends(begin + Duration::from_millis(100), 500));
        assert!(!habit.is_of_short_ones(), "a third of them is long");
        let mut habit = Habit::default();
        for number in 0..1000 {
            habit.ends(begin + Duration::from_millis(number * 20), 5);
        }
        assert!(!habit.is_of_short_ones(), "fifty a second");
    }

    #[test]
    fn what_was_long_ago_counts_little() {
        let stay = "s".repeat(10_000);
        let after = |returning: usize| left_after(&format!("{stay}{}", "r".repeat(returning)));
        assert_eq!(after(40), None);
        assert!(after(200).is_some());
        // Those that wait to be accepted return together.
        let mut habit = Habit::default();
        (0..8).for_each(|_| habit.accepts());
        (0..6).for_each(|_| habit.returns(2));
        assert!(!habit.is_to_return());
        habit.returns(2);
        assert!(habit.is_to_return());
    }
}
