//! The CSV file of `--full-log`.

use std::io::{self, Write};

use crate::client::run::Run;
use crate::measure::statistics::Statistics;
use crate::options::{ClientOptions, TestLength};
use crate::output::histogram::{self, RULER};
use crate::output::report;
use crate::terminal::Style;

/// Writes the parameters, the statistics, the samples and the histogram.
pub fn write(
    sink: &mut dyn Write,
    run: &Run,
    statistics: &Statistics,
    options: &ClientOptions,
) -> io::Result<()> {
    write!(sink, "{RULER}{}{RULER}", parameters(options))?;
    let lines = report::statistic_lines(run, statistics, options, Style::PLAIN);
    write!(sink, "{lines}{RULER}")?;
    let quantity = if options.results.full_rtt {
        "rtt"
    } else {
        "latency"
    };
    writeln!(sink, "packet, txTime(sec), rxTime(sec), {quantity}(usec)")?;
    let usec_per_nsec = if options.results.full_rtt {
        1e-3
    } else {
        0.5e-3
    };
    for (index, &(tx_nsec, rtt_nsec)) in run
        .valid
        .log
        .iter()
        .flat_map(|log| &log.samples)
        .enumerate()
    {
        let (tx, rx) = (seconds(tx_nsec), seconds(tx_nsec.saturating_add(rtt_nsec)));
        writeln!(
            sink,
            "{index}, {tx}, {rx}, {:.3}",
            rtt_nsec as f64 * usec_per_nsec
        )?;
    }
    if let Some(omitted) = run
        .valid
        .log
        .as_ref()
        .map(|log| log.omitted)
        .filter(|&count| count > 0)
    {
        writeln!(sink, "# {omitted} more samples did not fit into memory")?;
    }
    sink.write_all(RULER.as_bytes())?;
    if let Some(bins) = &run.valid.bins {
        let rows = bins.rows(
            run.valid.round_trips.min_nsec,
            run.valid.round_trips.max_nsec,
        );
        sink.write_all(histogram::table(&rows, bins.options()).as_bytes())?;
    }
    sink.flush()
}

fn parameters(options: &ClientOptions) -> String {
    let (burst, message_len) = (options.burst, options.message_len);
    let what = match options.length {
        TestLength::Packets(packets) => {
            format!("--burst={burst} --msg-size={message_len} --number-of-packets={packets}")
        }
        TestLength::TimeLine => format!(
            "--data-file={} --reply-every={}",
            options.data_file.as_deref().unwrap_or_default(),
            options.reply_every
        ),
        TestLength::TimeSec(time_sec) => {
            let rate = options
                .messages_per_second
                .map_or_else(|| "max".to_owned(), |rate| rate.to_string());
            format!(
                "--mps={rate} --burst={burst} --reply-every={} --msg-size={message_len} \
                 --time={time_sec}",
                options.reply_every
            )
        }
    };
    let full_rtt = if options.results.full_rtt {
        " --full-rtt"
    } else {
        ""
    };
    format!("test was performed using the following parameters: {what}{full_rtt}\n")
}

/// Seconds with all nine decimals, which a float could not hold after some weeks.
fn seconds(nsec: u64) -> String {
    format!("{}.{:09}", nsec / 1_000_000_000, nsec % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::report::tests::{pp_options, sample_run};

    #[test]
    fn log_has_the_layout_of_the_original() {
        let options = pp_options("-t 2 --mps=1000 --full-log x --histogram 2:6:30");
        let run = sample_run(&options);
        let statistics = Statistics::new(&run.valid.round_trips, false, 99).unwrap();
        let mut bytes = Vec::new();
        write(&mut bytes, &run, &statistics, &options).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let parts: Vec<&str> = text.split(RULER).collect();
        assert_eq!(
            parts[1],
            "test was performed using the following parameters: --mps=1000 --burst=1 \
             --reply-every=1 --msg-size=14 --time=2\n"
        );
        assert!(parts[2].starts_with("sockperf: [Total Run]") && !parts[2].contains("Summary"));
        let rows: Vec<&str> = parts[3].lines().collect();
        assert_eq!(rows[0], "packet, txTime(sec), rxTime(sec), latency(usec)");
        assert_eq!(rows[1], "0, 1.000000000, 1.000010000, 5.000");
        assert_eq!(rows.len(), 1 + 100);
        assert!(parts[4].starts_with("histogram was built"), "{}", parts[4]);
        assert!(parts[5].starts_with("bin (usec)"), "{}", parts[5]);
        assert_eq!(parts.len(), 7);
    }

    #[test]
    fn round_trips_are_named() {
        let options = pp_options("-n 100 --full-rtt --full-log x");
        let run = sample_run(&options);
        let statistics = Statistics::new(&run.valid.round_trips, true, 99).unwrap();
        let mut bytes = Vec::new();
        write(&mut bytes, &run, &statistics, &options).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("--burst=1 --msg-size=14 --number-of-packets=100 --full-rtt\n"));
        assert!(text.contains("rxTime(sec), rtt(usec)\n0, 1.000000000, 1.000010000, 10.000\n"));
    }
}
