//! The log of `--hlog`: the histogram of every interval, as the tools of HdrHistogram read it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError};

use crate::measure::intervals::{Interval, IntervalData};

/// A log that grows by an interval at a time.
pub struct Hlog<W: Write = BufWriter<File>> {
    writer: W,
    serializer: V2DeflateSerializer,
    /// Nanoseconds of round trip in one of what is logged.
    divisor: u64,
}

/// The first line of every log, after the comments.
const LEGEND: &str =
    r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;

impl<W: Write> Hlog<W> {
    /// Writes the first lines. Values are nanoseconds, times seconds since the start of the test.
    pub fn begin(mut writer: W, full_rtt: bool) -> io::Result<Self> {
        let mut serializer = V2DeflateSerializer::new();
        let quantity = if full_rtt { "round trips" } else { "latencies" };
        let now = SystemTime::now();
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(&format!("[sockperf-rs: {quantity} in nanoseconds]"))
            .with_start_time(now)
            .with_base_time(now)
            .begin_log_with(&mut writer, &mut serializer)?;
        writeln!(writer, "{LEGEND}")?;
        Ok(Self {
            writer,
            serializer,
            divisor: if full_rtt { 1 } else { 2 },
        })
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: &Interval, data: &IntervalData) -> io::Result<()> {
        let mut values = Histogram::new_from(data.histogram());
        for step in data.histogram().iter_recorded() {
            let value = step.value_iterated_to() / self.divisor;
            values
                .record_n(value, step.count_at_value())
                .map_err(io::Error::other)?;
        }
        // Without a comment or a time the builder writes nothing itself.
        IntervalLogWriterBuilder::new()
            .begin_log_with(&mut self.writer, &mut self.serializer)?
            .write_histogram(
                &values,
                Duration::from_secs_f64(interval.start_sec),
                Duration::from_secs_f64(interval.duration_sec()),
                None,
            )
            .map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => {
                    io::Error::other(format!("{error:?}"))
                }
            })
    }

    /// Writes what is in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl<W: Write> fmt::Debug for Hlog<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hlog").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::measure::event::{Event, Outcome};
    use crate::measure::intervals::pair;

    #[test]
    fn the_log_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        let mut log = Hlog::begin(&mut bytes, false).unwrap();
        for number in 1..=3u32 {
            let (mut tap, collector) = pair().unwrap();
            for _ in 0..number {
                tap.record(&Event {
                    tx_nsec: 1,
                    lag_nsec: 0,
                    outcome: Outcome::Received(20_000),
                });
            }
            collector.request();
            tap.record(&Event {
                tx_nsec: 2,
                lag_nsec: 0,
                outcome: Outcome::Received(4_000_000),
            });
            let data = collector.receive(Duration::ZERO).unwrap();
            let interval = Interval {
                start_sec: f64::from(number),
                end_sec: f64::from(number) + 0.5,
                sent: 0,
                sent_bytes: 0,
                received: 0,
                dropped: 0,
                out_of_order: 0,
                latency: None,
            };
            log.add(&interval, &data).unwrap();
        }
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(
            text.starts_with("#[Histogram log format version 1.3]\n"),
            "{text}"
        );
        assert!(text.contains("latencies in nanoseconds"), "{text}");
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            let LogEntry::Interval(entry) = entry.unwrap() else {
                continue;
            };
            use base64::Engine;
            let encoded = base64::engine::general_purpose::STANDARD
                .decode(entry.encoded_histogram())
                .unwrap();
            let histogram: Histogram<u64> =
                Deserializer::new().deserialize(&mut &encoded[..]).unwrap();
            found.push((
                entry.start_timestamp().as_secs(),
                entry.duration().as_millis(),
                histogram.len(),
                histogram.max() / 10_000,
            ));
        }
        assert_eq!(
            found,
            [(1, 500, 2, 200), (2, 500, 3, 200), (3, 500, 4, 200)]
        );
    }
}
