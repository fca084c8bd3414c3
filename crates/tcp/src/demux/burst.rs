//! Looking up the connections of many segments, so that memory is waited for once instead of for
//! each.
//!
//! Among a million connections neither a segment's place in the table nor its connection is in a
//! cache. To read both costs two times the latency of memory, which is several times what the
//! segment itself costs. With several segments at hand the processor can fetch for the later ones
//! while it works on the first. Three of its limits make the order of things:
//!
//! * It forgets a prefetch when too many are under way: on AMD's Zen 5 beyond 30 into the first
//!   cache and beyond 60 into the second.
//! * A prefetch is not done before its page is found in the page tables, and a few hundred
//!   instructions behind the oldest that is not done everything stands still. So pages are looked
//!   for together, with nothing in between.
//! * It guesses where branches go. Where a flow is in its bucket of the table nobody can guess, so
//!   no branch asks.

use core::net::SocketAddr;
use core::ops::Range;

use super::{Demux, Prepared};

/// Segments whose places in the table, and whose pages, are looked for together.
const GROUP: usize = 64;

/// Lines of connections that may be under way.
const LINES: usize = 64;

/// A driver with segments to process.
pub trait Burst {
    /// Where the connections are looked up.
    fn demux(&self) -> &Demux;

    /// The local and the remote end of segment `index`.
    fn ends(&self, index: usize) -> (SocketAddr, SocketAddr);

    /// Asks the processor to fetch the cache line at `address`, which may be any, into its second
    /// cache: the first one is too small for what is under way.
    fn prefetch(&self, address: *const u8);

    /// What a segment of connection `value` touches: at depth 0 where the connection is, as many
    /// lines for each; at the depths 1 and 2 what the lines of the depth before refer to, which
    /// have been fetched. For instance [`Connection::lines`](crate::Connection::lines). Nothing if
    /// a segment before has removed the connection.
    fn lines(&self, value: u32, depth: usize) -> impl Iterator<Item = *const u8>;

    /// How many depths there are: 1 to 3.
    fn depths(&self) -> usize;

    /// Processes segment `index`, which is for connection `value`. May add and remove connections.
    fn process(&mut self, index: usize, value: Option<u32>);
}

/// Processes segments `0..count` in this order.
#[inline]
pub fn in_turn(driver: &mut impl Burst, count: usize) {
    for start in (0..count).step_by(GROUP) {
        let group = start..count.min(start.saturating_add(GROUP));
        let found = look_up(driver, group.clone());
        process(driver, group, &found);
    }
}

/// What was found for each segment of a group, and the state of the table that it is of.
struct Found {
    values: [Option<u32>; GROUP],
    changes: u32,
}

/// Finds the connections of a group.
#[inline]
fn look_up(driver: &impl Burst, group: Range<usize>) -> Found {
    let demux = driver.demux();
    let mut look_ups = [Prepared::default(); GROUP];
    let mut addresses = [core::ptr::null(); GROUP];
    for ((index, look_up), address) in group.clone().zip(&mut look_ups).zip(&mut addresses) {
        let (local, remote) = driver.ends(index);
        *look_up = demux.prepare(local, remote);
        *address = demux.address(look_up);
    }
    prefetch(driver, addresses.into_iter().take(group.len()));
    let mut values = [None; GROUP];
    for ((_, look_up), value) in group.zip(&look_ups).zip(&mut values) {
        *value = demux.finish(look_up);
    }
    Found {
        values,
        changes: demux.changes,
    }
}

/// Processes a group, with the connections of the next segments under way.
#[inline]
fn process(driver: &mut impl Burst, group: Range<usize>, found: &Found) {
    let Found { values, changes } = found;
    let lines = values.iter().flatten().next();
    let lines = lines.map_or(1, |value| driver.lines(*value, 0).count());
    let ahead = LINES.checked_div(lines).unwrap_or(1).max(3);
    // Of each depth.
    let distances = [ahead, ahead.saturating_mul(2) / 3, ahead / 3];
    let distances = distances.get(..driver.depths()).unwrap_or(&distances);
    // The first are wanted soon. Of the others the page is looked for.
    for value in values.iter().take(ahead).flatten() {
        prefetch(driver, driver.lines(*value, 0));
    }
    let mut pages = [core::ptr::null(); GROUP];
    for ((_, value), page) in group.clone().zip(values).zip(&mut pages).skip(ahead) {
        let line = value.and_then(|value| driver.lines(value, 0).next());
        *page = line.unwrap_or_default();
    }
    prefetch(driver, pages.into_iter().take(group.len()).skip(ahead));
    for (depth, distance) in distances.iter().enumerate().skip(1) {
        for value in values.iter().take(*distance).flatten() {
            prefetch(driver, driver.lines(*value, depth));
        }
    }
    for (place, index) in group.enumerate() {
        let value_after = |distance| {
            values
                .get(place.saturating_add(distance))
                .copied()
                .flatten()
        };
        for (depth, distance) in distances.iter().enumerate() {
            if let Some(value) = value_after(*distance) {
                let has_first = usize::from(depth == 0);
                prefetch(driver, driver.lines(value, depth).skip(has_first));
            }
        }
        let value = if driver.demux().changes == *changes {
            value_after(0)
        } else {
            // The segments before may have changed the answer.
            let (local, remote) = driver.ends(index);
            driver.demux().connection(local, remote)
        };
        driver.process(index, value);
    }
}

#[inline]
fn prefetch(driver: &impl Burst, lines: impl Iterator<Item = *const u8>) {
    lines.for_each(|line| driver.prefetch(line));
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use super::*;

    /// Of each connection the second segment closes it, and the next makes a new one.
    struct Driver {
        demux: Demux,
        ports: Vec<u16>,
        next_value: u32,
        processed: Vec<(usize, Option<u32>)>,
        /// Addresses, and how many there were when each segment was processed.
        prefetched: RefCell<Vec<usize>>,
        prefetched_before: Vec<usize>,
    }

    /// Lines have odd addresses, which the table has not.
    const LINES_EACH: usize = 6;
    const BEHIND: usize = 0x40;

    fn ends(port: u16) -> (SocketAddr, SocketAddr) {
        (
            "192.0.2.1:80".parse().unwrap(),
            ([192, 0, 2, 2], port).into(),
        )
    }

    impl Burst for Driver {
        fn demux(&self) -> &Demux {
            &self.demux
        }

        fn ends(&self, index: usize) -> (SocketAddr, SocketAddr) {
            ends(self.ports[index])
        }

        fn prefetch(&self, address: *const u8) {
            self.prefetched.borrow_mut().push(address.addr());
        }

        fn lines(&self, value: u32, depth: usize) -> impl Iterator<Item = *const u8> {
            let lines = match depth {
                0 => 0..LINES_EACH,
                depth => BEHIND + depth..BEHIND + depth + 1,
            };
            let value = value as usize;
            lines.map(move |line| core::ptr::without_provenance(value << 8 | line << 1 | 1))
        }

        fn depths(&self) -> usize {
            3
        }

        fn process(&mut self, index: usize, value: Option<u32>) {
            self.processed.push((index, value));
            self.prefetched_before.push(self.prefetched.borrow().len());
            let (local, remote) = ends(self.ports[index]);
            if value.is_some() {
                self.demux.remove(local, remote);
            } else {
                self.demux.insert(local, remote, self.next_value).unwrap();
                self.next_value += 1;
            }
        }
    }

    impl Driver {
        fn new(ports: Vec<u16>) -> Self {
            Self {
                demux: Demux::new([3; 16]),
                ports,
                next_value: 0,
                processed: Vec::new(),
                prefetched: RefCell::default(),
                prefetched_before: Vec::new(),
            }
        }
    }

    #[test]
    fn every_segment_has_its_turn_and_finds_what_those_before_it_left() {
        for count in [0, 1, 31, 32, 33, 127, 128, 129, 300] {
            // Some follow each other closely, others far apart.
            let ports = (0..count).map(|index| (index % 41) * (index % 41) % 23);
            let mut driver = Driver::new(ports.collect());
            in_turn(&mut driver, usize::from(count));
            let mut open = std::collections::HashMap::new();
            let mut next_value = 0;
            let mut expected = Vec::new();
            for (index, port) in driver.ports.iter().enumerate() {
                let value = open.remove(port);
                expected.push((index, value));
                if value.is_none() {
                    open.insert(*port, next_value);
                    next_value += 1;
                }
            }
            assert_eq!(driver.processed, expected);
        }
    }

    #[test]
    fn each_line_is_asked_for_once_and_not_too_many_are_under_way() {
        let mut driver = Driver::new((0..200).collect());
        for port in 0..200 {
            let (local, remote) = ends(port);
            driver.demux.insert(local, remote, u32::from(port)).unwrap();
        }
        in_turn(&mut driver, 200);
        let prefetched = driver.prefetched.borrow();
        for (index, before) in driver.prefetched_before.iter().enumerate() {
            let connection = index << 8;
            let wanted = (0..LINES_EACH).map(|line| connection | line << 1 | 1);
            for line in wanted.chain([1, 2].map(|depth| connection | (BEHIND + depth) << 1 | 1)) {
                let count = prefetched.iter().filter(|asked| **asked == line).count();
                assert_eq!(count, 1, "{line:#x}");
                assert!(prefetched[..*before].contains(&line), "{line:#x}");
            }
            // The first lines are asked for with their pages.
            let is_later = |line: &&usize| {
                let (of, which) = (**line >> 8, **line & 0xff);
                **line & 1 == 1 && of > index && which != 1 && which >> 1 < BEHIND
            };
            let under_way = prefetched[..*before].iter().filter(is_later).count();
            assert!(under_way <= LINES, "{under_way} at {index}");
        }
    }

    #[test]
    fn the_two_halves_of_a_look_up_are_the_whole() {
        let mut demux = Demux::new([3; 16]);
        let (local, remote) = ends(1);
        let early = demux.prepare(local, remote);
        assert!(demux.address(&early).is_null());
        assert_eq!(demux.finish(&early), None);
        for port in 0..1000 {
            let (local, remote) = ends(port);
            demux.insert(local, remote, u32::from(port)).unwrap();
        }
        // The table has grown since.
        assert_eq!(demux.finish(&early), Some(1));
        assert!(!demux.address(&early).is_null());
        let ipv6 = "[2001:db8::1]:80".parse().unwrap();
        demux.insert(ipv6, ipv6, 7).unwrap();
        let look_up = demux.prepare(ipv6, ipv6);
        assert_eq!(demux.finish(&look_up), Some(7));
        assert!(!demux.address(&look_up).is_null());
    }
}
