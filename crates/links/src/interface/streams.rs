//! Whether streams that nobody answers come by an interface's rings, and what becomes readable when
//! packets wait.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use dev_core::Backend;
use stats::RingStats;

use crate::interface::Interface;
use crate::interface::receive_ring::ReceiveRing;
use crate::moderation::Moderation;
use crate::receiver::Receiver;

impl<S: Receiver> Interface<S> {
    /// For how long to nap, at most, where a stream comes that nobody answers. `usual`: as far as
    /// the program has said nothing else of a ring.
    pub fn stream_nap_nsec(&self, usual: Moderation) -> Option<u64> {
        let naps = self.receivers.iter().filter_map(|ring| {
            let moderation = ring.moderation.get().unwrap_or(usual);
            moderation.nap_nsec(stream_gap_nsec(ring))
        });
        naps.min()
    }

    /// How wake-ups by a ring are moderated from here on.
    pub fn moderate(&self, ring: usize, moderation: Moderation) {
        if let Some(ring) = self.receivers.iter().nth(ring) {
            ring.moderation.set(moderation);
        }
    }

    /// The descriptors of the rings by which streams come.
    pub fn stream_wait_fds(&self) -> impl Iterator<Item = RawFd> {
        let streams = self.receivers.iter().filter(|it| stream_gap_nsec(*it) > 0);
        streams.flat_map(ReceiveRing::wait_fds)
    }

    /// A stream is one again when more has come.
    pub fn stream_has_paused(&self) {
        for ring in self.receivers.iter() {
            ring.stream_gap_nsec.store(0, Ordering::Relaxed);
        }
    }

    /// Descriptors that become readable when packets wait.
    pub fn wait_fds(&self) -> impl Iterator<Item = RawFd> {
        self.receivers.iter().flat_map(ReceiveRing::wait_fds)
    }

    /// The same, each with what counts the wake-ups by it.
    pub fn counted_wait_fds(&self) -> impl Iterator<Item = (RawFd, &'static RingStats)> {
        self.receivers.iter().flat_map(|ring| {
            let stats = ring.stats;
            ring.wait_fds().map(move |fd| (fd, stats))
        })
    }

    /// Frames that it has received so far.
    pub fn frames_received(&self) -> u64 {
        let of = |ring: &ReceiveRing<S::Backend>| ring.stats.rx_packets.value();
        self.receivers.iter().map(of).sum()
    }
}

fn stream_gap_nsec<B: Backend>(ring: &ReceiveRing<B>) -> u64 {
    ring.stream_gap_nsec.load(Ordering::Relaxed)
}
