//! Looking up the connections of many segments, so that memory is waited for once instead of for each.
//!
//! Among a million connections neither a segment's place in the table nor its connection is in a cache. To read both costs two
//! times the latency of memory, which is several times what the segment itself costs. With several segments at hand the
//! processor can fetch for the later ones while it works on the first.

use core::net::SocketAddr;
use core::ops::Range;

use super::{Demux, Prepared};

/// Segments whose memory is asked for together.
///
/// What must be fetched does not depend on the other segments, so the waits overlap, but only as far as the processor looks ahead: a
/// prefetch is not done before its page is found in the page tables, and a few hundred instructions behind the oldest that is
/// not done everything stands still. So the prefetches of a group follow each other with nothing between them, and have the
/// time in which another group is processed.
const GROUP: usize = 32;

/// A driver with segments to process.
pub trait Burst {
    /// Where the connections are looked up.
    fn demux(&self) -> &Demux;

    /// The local and the remote end of segment `index`.
    fn ends(&self, index: usize) -> (SocketAddr, SocketAddr);

    /// Asks the processor to fetch the cache line at `address`, which may be any.
    fn prefetch(&self, address: *const u8);

    /// Asks for the connection, if there is one: for instance [`Connection::lines`](crate::Connection::lines).
    fn prefetch_connection(&self, value: u32);

    /// Processes segment `index`, which is for connection `value`. May add and remove connections.
    fn process(&mut self, index: usize, value: Option<u32>);
}

/// Groups that are on their way at once.
const GROUPS: usize = 4;

/// Processes segments `0..count` in this order.
#[inline]
pub fn in_turn(driver: &mut impl Burst, count: usize) {
    let mut window = Window {
        count,
        look_ups: [None; GROUP * GROUPS],
        found: [Found::default(); GROUP * GROUPS],
    };
    // Each step has the time of another before its memory is used, also at the beginning.
    for step in 0..count.div_ceil(GROUP).saturating_add(GROUPS - 1) {
        window.prepare(driver, step);
        if let Some(group) = step.checked_sub(1) {
            window.find(driver, group);
        }
        if let Some(group) = step.checked_sub(GROUPS - 1) {
            window.process(driver, group);
        }
    }
}

/// The groups that are on their way; segment `n` has the place `n` modulo the size.
struct Window {
    count: usize,
    look_ups: [Option<Prepared>; GROUP * GROUPS],
    found: [Found; GROUP * GROUPS],
}

impl Window {
    fn segments(&self, group: usize) -> Range<usize> {
        let start = group.saturating_mul(GROUP).min(self.count);
        start..start.saturating_add(GROUP).min(self.count)
    }

    /// Reckons where the connections of a group are found, and asks for that memory.
    #[inline]
    fn prepare(&mut self, driver: &impl Burst, group: usize) {
        let mut addresses = [core::ptr::null(); GROUP];
        let segments = self.segments(group);
        for (index, address) in segments.clone().zip(&mut addresses) {
            let (local, remote) = driver.ends(index);
            let look_up = driver.demux().prepare(local, remote);
            *address = driver.demux().address(&look_up);
            if let Some(place) = self.look_ups.get_mut(index % (GROUP * GROUPS)) {
                *place = Some(look_up);
            }
        }
        for (_, address) in segments.zip(addresses) {
            driver.prefetch(address);
        }
    }

    /// Finds the connections of a group, and asks for them.
    #[inline]
    fn find(&mut self, driver: &impl Burst, group: usize) {
        let demux = driver.demux();
        for index in self.segments(group) {
            let place = index % (GROUP * GROUPS);
            if let (Some(Some(look_up)), Some(found)) =
                (self.look_ups.get(place), self.found.get_mut(place))
            {
                *found = Found {
                    value: demux.finish(look_up),
                    changes: demux.changes,
                };
            }
        }
        for index in self.segments(group) {
            let found = self.found.get(index % (GROUP * GROUPS));
            if let Some(value) = found.and_then(|found| found.value) {
                driver.prefetch_connection(value);
            }
        }
    }

    #[inline]
    fn process(&self, driver: &mut impl Burst, group: usize) {
        for index in self.segments(group) {
            if let Some(found) = self.found.get(index % (GROUP * GROUPS)) {
                let value = found.value(driver, index);
                driver.process(index, value);
            }
        }
    }
}

/// A look-up's result, and the state of the table that it is of.
#[derive(Clone, Copy, Default)]
struct Found {
    value: Option<u32>,
    changes: u32,
}

impl Found {
    /// The result, found again if the table has changed since: by the segments before, for instance.
    #[inline]
    fn value(&self, driver: &impl Burst, index: usize) -> Option<u32> {
        if self.changes == driver.demux().changes {
            return self.value;
        }
        let (local, remote) = driver.ends(index);
        driver.demux().connection(local, remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each connection the second segment closes it, and the next makes a new one.
    struct Driver {
        demux: Demux,
        ports: Vec<u16>,
        next_value: u32,
        processed: Vec<(usize, Option<u32>)>,
    }

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

        fn prefetch(&self, _address: *const u8) {}

        fn prefetch_connection(&self, _value: u32) {}

        fn process(&mut self, index: usize, value: Option<u32>) {
            self.processed.push((index, value));
            let (local, remote) = ends(self.ports[index]);
            if value.is_some() {
                self.demux.remove(local, remote);
            } else {
                self.demux.insert(local, remote, self.next_value).unwrap();
                self.next_value += 1;
            }
        }
    }

    #[test]
    fn every_segment_has_its_turn_and_finds_what_those_before_it_left() {
        for count in [0, 1, 31, 32, 33, 127, 128, 129, 300] {
            let mut driver = Driver {
                demux: Demux::new([3; 16]),
                // Some follow each other closely, others far apart.
                ports: (0..count)
                    .map(|index| (index % 41) * (index % 41) % 23)
                    .collect(),
                next_value: 0,
                processed: Vec::new(),
            };
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
        assert_eq!(demux.finish(&demux.prepare(ipv6, ipv6)), Some(7));
    }
}
