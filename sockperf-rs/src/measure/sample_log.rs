//! The samples of `--full-log`.

use crate::error::Error;
use crate::options::{ClientOptions, TestLength};

/// Individual samples, up to a number that is reserved at the start.
#[derive(Debug)]
pub struct SampleLog {
    /// Time of sending and round-trip time.
    pub samples: Vec<(u64, u64)>,
    /// Samples for which there was no room.
    pub omitted: u64,
}

impl SampleLog {
    /// The most samples a test can have: what was asked for, or a million a second.
    pub fn capacity_for(options: &ClientOptions) -> u64 {
        const MOST_PER_SECOND: u32 = 1_000_000;
        match options.length {
            TestLength::Packets(packets) => u64::from(packets),
            TestLength::TimeSec(time_sec) => {
                let rate = u64::from(options.messages_per_second.unwrap_or(MOST_PER_SECOND));
                let replies = rate / u64::from(options.reply_every.max(1)) + 1;
                u64::from(time_sec) * replies + u64::from(options.burst)
            }
            TestLength::TimeLine => 1 << 22,
        }
    }

    /// Reserves room for `capacity` samples, at most 64 Mi (1 GiB, of which only what is used is
    /// touched).
    pub fn with_capacity(capacity: u64) -> Result<Self, Error> {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX).min(1 << 26);
        let mut samples = Vec::new();
        samples.try_reserve_exact(capacity).map_err(|error| {
            Error::Usage(format!(
                "no memory for a full log of {capacity} samples ({error}); use a shorter test"
            ))
        })?;
        Ok(Self {
            samples,
            omitted: 0,
        })
    }

    /// Adds the samples of another thread. All stand in the order of sending then.
    pub fn add(&mut self, mut other: Self) {
        self.samples.append(&mut other.samples);
        self.samples.sort_unstable_by_key(|&(tx_nsec, _)| tx_nsec);
        self.omitted += other.omitted;
    }

    /// Keeps a sample, or counts that there is no room.
    #[inline]
    pub fn record(&mut self, tx_nsec: u64, rtt_nsec: u64) {
        if self.samples.len() < self.samples.capacity() {
            self.samples.push((tx_nsec, rtt_nsec));
        } else {
            self.omitted += 1;
        }
    }
}
