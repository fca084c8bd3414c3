//! By which address a host is answered that has sent to a group.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use crate::udp::ancillary::Headers;

/// How long it is taken for known by which address a host is answered: changes of the network are
/// to be seen that soon.
const ANSWERS_NSEC: u64 = 100_000_000;
/// Hosts of which that is remembered. With more of them in that time each datagram to a group costs
/// a question.
const ANSWERS_MAX: usize = 4096;

/// By which address of this host others are answered (`fib_compute_spec_dst`,
/// net/ipv4/fib_frontend.c).
#[derive(Debug)]
pub(in crate::udp) struct Answers {
    known: BTreeMap<Ipv4Addr, (Ipv4Addr, u64)>,
}

impl Answers {
    pub(in crate::udp) const fn new() -> Self {
        Self {
            known: BTreeMap::new(),
        }
    }

    /// To what came to a single address the answer comes from there; else the route says it.
    pub(super) fn find(&mut self, headers: &Headers, link_index: u32) -> Ipv4Addr {
        let (IpAddr::V4(source), IpAddr::V4(destination)) =
            (headers.source, headers.destination.ip())
        else {
            return Ipv4Addr::UNSPECIFIED;
        };
        if !destination.is_multicast() {
            return destination;
        }
        let now = sys::tick_nsec();
        if let Some((from, asked_at)) = self.known.get(&source)
            && now.saturating_sub(*asked_at) < ANSWERS_NSEC
        {
            return *from;
        }
        let from = sys::source_towards(source)
            .or_else(|| sys::first_address(link_index))
            .unwrap_or(Ipv4Addr::UNSPECIFIED);
        self.remember(source, from, now);
        from
    }

    pub(super) fn remember(&mut self, source: Ipv4Addr, from: Ipv4Addr, now: u64) {
        let is_known = |asked_at: u64| now.saturating_sub(asked_at) < ANSWERS_NSEC;
        if self.known.len() >= ANSWERS_MAX {
            self.known.retain(|_, (_, asked_at)| is_known(*asked_at));
        }
        if self.known.len() >= ANSWERS_MAX {
            self.known.clear();
        }
        self.known.insert(source, (from, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_stays_while_what_is_old_goes() {
        let mut answers = Answers::new();
        let host = |number: usize| Ipv4Addr::from_bits(u32::try_from(number).unwrap());
        let (early, now) = (1, 1 + ANSWERS_NSEC);
        let from = Ipv4Addr::LOCALHOST;
        (0..ANSWERS_MAX / 2).for_each(|it| answers.remember(host(it), from, early));
        (ANSWERS_MAX / 2..ANSWERS_MAX + 1).for_each(|it| answers.remember(host(it), from, now));
        assert_eq!(answers.known.len(), ANSWERS_MAX / 2 + 1);
        // And there are not more than that, whoever sends.
        (0..2 * ANSWERS_MAX).for_each(|it| answers.remember(host(it), from, now));
        assert!(answers.known.len() <= ANSWERS_MAX);
    }
}
