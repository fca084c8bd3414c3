//! The paths whose goodput is measured, of the engine in a simulation and of Linux in virtual time.

use std::time::Duration;

use testkit::link::{Conditions, Loss};

/// What a path does to packets.
#[derive(Clone, Copy)]
pub(crate) struct Trouble {
    pub(crate) name: &'static str,
    /// Of the packets that carry data.
    pub(crate) loss: Loss,
    /// Probability that a packet is late, in either direction.
    pub(crate) reorder: f64,
}

const fn trouble(name: &'static str, loss: Loss, reorder: f64) -> Trouble {
    Trouble {
        name,
        loss,
        reorder,
    }
}

const TROUBLES: [Trouble; 7] = [
    trouble("none", Loss::None, 0.0),
    trouble("loss 0.1 %", Loss::Random(0.001), 0.0),
    trouble("loss 1 %", Loss::Random(0.01), 0.0),
    trouble("loss 3 %", Loss::Random(0.03), 0.0),
    trouble(
        "bursts of 8",
        Loss::Run {
            start: 0.0005,
            len: 8,
        },
        0.0,
    ),
    trouble("reordering 10 %", Loss::None, 0.1),
    trouble("reordering 30 %", Loss::None, 0.3),
];

/// Rate in Mbit/s and round-trip time in microseconds.
const PATHS: [(u64, u64); 8] = [
    (10_000, 20),
    (10_000, 200),
    (1_000, 100),
    (1_000, 1_000),
    (1_000, 10_000),
    (100, 10_000),
    (100, 100_000),
    (10, 100_000),
];

/// Each point is measured with each of them; the packets of a seed have the same fate for every
/// sender.
pub(crate) const SEEDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// Octets of a full segment, with timestamps.
const MSS: f64 = 1448.0;

/// What such a segment takes of the link, in octets: with headers, preamble and gap.
const PACKET: f64 = MSS + 90.0;

/// A path and what is wrong with it.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub(crate) rate_megabits: u64,
    pub(crate) rtt: Duration,
    pub(crate) trouble: Trouble,
}

impl Point {
    /// All of them, in the order of the tables.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        PATHS.iter().flat_map(|(rate_megabits, rtt_micros)| {
            TROUBLES.map(|trouble| Self {
                rate_megabits: *rate_megabits,
                rtt: Duration::from_micros(*rtt_micros),
                trouble,
            })
        })
    }

    /// A path on which nothing goes wrong.
    pub(crate) const fn clean(rate_megabits: u64, rtt: Duration) -> Self {
        Self {
            rate_megabits,
            rtt,
            trouble: TROUBLES[0],
        }
    }

    /// What a line of a table begins with; no two points have the same.
    pub(crate) fn name(&self) -> String {
        let rtt_ms = self.rtt.as_secs_f64() * 1e3;
        let (rate, trouble) = (self.rate_megabits, self.trouble.name);
        format!("{rate:>6} Mbit/s {rtt_ms:>7.2} ms  {trouble:<16}")
    }

    /// In the direction of the data and in that of the acknowledgements, where nothing is lost: a
    /// queue as long as the path, but for a hundred packets at least; who is late is so by up to
    /// sixteen packets, and by no more than a quarter of a round trip.
    pub(crate) fn conditions(&self) -> [Conditions; 2] {
        let octets_per_second = self.rate_megabits * 125_000;
        let rtt_micros = u64::try_from(self.rtt.as_micros()).expect("short");
        let product = octets_per_second * rtt_micros / 1_000_000;
        let sixteen_packets = Duration::from_nanos(16 * 1_538 * 8_000 / self.rate_megabits);
        let forward = Conditions {
            rate_bits_per_second: Some(self.rate_megabits * 1_000_000),
            delay: self.rtt / 2,
            queue_octets: product.max(150_000),
            loss: self.trouble.loss,
            reorder: self.trouble.reorder,
            reorder_delay: sixteen_packets.min(self.rtt / 4),
            duplicate: 0.0,
        };
        let backward = Conditions {
            loss: Loss::None,
            ..forward
        };
        [forward, backward]
    }

    /// The rate at which payload goes over the link, in octets a second.
    pub(crate) fn bound(&self) -> f64 {
        self.rate_megabits as f64 * 1e6 / 8.0 * MSS / PACKET
    }

    /// The octets of one transfer: what the link carries in four hundred round trips, but not more
    /// than a test has time for, which is less where losses are many.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an amount below 2^32"
    )]
    pub(crate) fn octets(&self) -> u32 {
        let most = match self.trouble.loss {
            Loss::Random(probability) if probability >= 0.01 => 8e6,
            _ => 24e6,
        };
        (self.bound() * self.rtt.as_secs_f64() * 400.0).min(most) as u32
    }

    /// What the measured part of a transfer is known to, as a share of it: two segments. It begins
    /// and ends with one, and the last one of each of the application's writes may be short and has
    /// as long headers.
    pub(crate) fn resolution(&self) -> f64 {
        2.0 * MSS / (f64::from(self.octets()) * 0.75)
    }

    /// Whether the link and not the losses limit what can be transferred: even the least window of
    /// a period, 0.7 / 0.85 of the average by the response functions of RFC 9438 §5.1 (which are
    /// per loss event: a run of losses is one), fills it.
    pub(crate) fn is_limited_by_link(&self) -> bool {
        let event_rate = match self.trouble.loss {
            Loss::None => return true,
            Loss::Random(probability) => probability,
            Loss::Run { start, .. } => start,
            Loss::Burst { .. } => unreachable!("no point has such bursts"),
        };
        let rtt = self.rtt.as_secs_f64();
        let cubic = 1.054 * (rtt / event_rate).powf(0.75);
        let reno_friendly = (1.5 / event_rate).sqrt();
        let product = self.rate_megabits as f64 * 1e6 / 8.0 * rtt / PACKET;
        cubic.max(reno_friendly) * 0.7 / 0.85 >= product
    }
}

/// Goodput in the transfers of several seeds, in Mbit/s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goodput {
    pub(crate) mean: f64,
    /// Of the mean.
    pub(crate) standard_error: f64,
}

impl Goodput {
    /// Of at least two samples at `point`, in octets a second. A transfer that seems faster than
    /// the link has got octets that had come, behind a hole, before it was measured: it counts as
    /// one that uses the whole link.
    pub(crate) fn of(point: &Point, samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let samples = samples.iter().map(|octets| octets.min(point.bound()));
        let megabits = samples.map(|octets| octets * 8.0 / 1e6);
        let mean = megabits.clone().sum::<f64>() / count;
        let squares: f64 = megabits.map(|sample| (sample - mean).powi(2)).sum();
        Self {
            mean,
            standard_error: (squares / (count - 1.0) / count).sqrt(),
        }
    }

    /// As a table has it.
    pub(crate) fn format(&self) -> String {
        format!("{:>8.2} ± {:>6.2}", self.mean, self.standard_error)
    }

    /// All that [`Self::format`] wrote into `columns`.
    pub(crate) fn parse(columns: &str) -> Vec<Self> {
        let words: Vec<&str> = columns.split_whitespace().collect();
        let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word}: {columns}"));
        let goodputs = words.windows(3).filter(|window| window[1] == "±");
        goodputs
            .map(|window| Self {
                mean: number(window[0]),
                standard_error: number(window[2]),
            })
            .collect()
    }
}
