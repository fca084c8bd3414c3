//! The report of `--html`: one file with the results and two charts, which needs nothing else.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::client::run::Run;
use crate::measure::host::Host;
use crate::measure::intervals::Interval;
use crate::measure::offload::Offload;
use crate::measure::round_trips::RoundTrips;
use crate::measure::statistics::{Sorted, Statistics};
use crate::options::ClientOptions;
use crate::output::json::Circumstances;
use crate::output::report::{self, usec_divisor};
use crate::terminal::Style;

pub mod chart;
pub mod comparison;

use chart::{Chart, Series};

/// The page.
pub fn page(
    options: &ClientOptions,
    run: &Run,
    statistics: &Statistics,
    circumstances: &Circumstances,
) -> String {
    let intervals = &circumstances.intervals;
    let title = escape(&report::title(options));
    let quantity = if options.results.full_rtt {
        "round trip"
    } else {
        "latency"
    };
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    text += &facts(run, circumstances);
    text += &numbers(run, statistics);
    write!(
        text,
        "<h2>Distribution of the {quantity}</h2>\n{}",
        distribution(run, options.results.full_rtt).svg()
    )
    .ok();
    if intervals.len() > 1 {
        write!(
            text,
            "<h2>The {quantity} in the course of the test</h2>\n{}\
             <h2>Messages per second</h2>\n{}",
            course(intervals).svg(),
            rates(intervals).svg()
        )
        .ok();
    }
    let lines = report::latency(run, statistics, options, Style::PLAIN);
    text + &format!(
        "<h2>Report</h2>\n<pre>{}</pre>\n</body>\n</html>\n",
        escape(&lines)
    )
}

/// Where, when and how it was measured, what libvma did, and what makes it doubtful.
fn facts(run: &Run, circumstances: &Circumstances) -> String {
    let host = Host::observe();
    let command: Vec<_> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let cpu = host.cpu_model.unwrap_or_default();
    let cpus = host.cpu_count.unwrap_or_default();
    let offload = circumstances.offload.as_ref();
    let messages = run.sending.sent + run.replies.received;
    let warnings = [
        circumstances
            .disturbance
            .warning(run.sending.run_time_nsec as f64 / 1e6),
        offload.and_then(|offload| offload.warning(messages)),
    ];
    let mut text = String::from("<dl>\n");
    for (name, value) in [
        (
            "host",
            format!("{}, {}, {cpus} CPUs, {cpu}", host.hostname, host.kernel),
        ),
        (
            "date",
            since.map_or_else(|_| String::new(), |it| date(it.as_secs())),
        ),
        ("command", command.join(" ")),
        ("libvma", offload.map_or_else(String::new, Offload::lines)),
    ] {
        if !value.is_empty() {
            let value = escape(value.trim_end());
            // Writing to a string cannot fail.
            writeln!(text, "<dt>{name}</dt><dd>{value}</dd>").ok();
        }
    }
    for warning in warnings.into_iter().flatten() {
        let warning = escape(&warning);
        writeln!(
            text,
            "<dt class=\"warning\">warning</dt><dd class=\"warning\">{warning}</dd>"
        )
        .ok();
    }
    text + "</dl>\n"
}

/// A time of day in UTC, by the rules of the Gregorian calendar.
fn date(unix_sec: u64) -> String {
    let (days, second) = (unix_sec / 86_400, unix_sec % 86_400);
    // Years that begin in March have their leap day last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!(
        "{:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        year + era * 400 + next,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;max-width:60em;margin:2em auto;\
    padding:0 1em;color:#222}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}\
    div{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.2em .6em .2em 0;text-align:right}\
    pre{background:#f5f5f5;padding:1em;overflow-x:auto}svg{width:100%;height:auto}\
    svg text{font:12px system-ui,sans-serif;fill:#444}dt{font-weight:bold;float:left;width:6em}\
    dd{margin-left:7em;white-space:pre-wrap}.warning{color:#c0392b}\
    @media(prefers-color-scheme:dark){body{background:#181a1b;color:#ddd}pre{background:#26292b}\
    svg text{fill:#bbb}svg path{stroke:#3a3d40}.warning{color:#ff7b6b}}";

fn numbers(run: &Run, statistics: &Statistics) -> String {
    let mut heads = String::new();
    let mut cells = String::new();
    let mut add = |name: &str, value: String| {
        write!(heads, "<th>{name}</th>").ok();
        write!(cells, "<td>{value}</td>").ok();
    };
    add("samples", statistics.observations.to_string());
    add("dropped", run.valid.dropped.to_string());
    add("min", format!("{:.3}", statistics.min_usec));
    for (percent, usec) in statistics.percentiles_usec.0.iter().rev() {
        add(&format!("p{percent}"), format!("{usec:.3}"));
    }
    add("max", format!("{:.3}", statistics.max_usec));
    format!(
        "<p>Times in microseconds.</p>\n<div><table><tr>{heads}</tr><tr>{cells}</tr></table></div>\n"
    )
}

/// Over the number of nines, which gives the tail room.
fn distribution(run: &Run, full_rtt: bool) -> Chart {
    let mut series = vec![curve(
        "measured",
        "#2a6fbb",
        &run.valid.round_trips,
        full_rtt,
    )];
    if let Some(corrected) = &run.valid.corrected {
        series.push(curve(
            "from when it should have been sent",
            "#c0392b",
            corrected,
            full_rtt,
        ));
    }
    let ticks = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    Chart {
        series,
        x_label: "percentile".to_owned(),
        y_label: "microseconds".to_owned(),
        x_ticks: ticks
            .map(|quantile| (nines(quantile), format!("{}", quantile * 100.0)))
            .to_vec(),
    }
}

fn curve(name: &str, color: &'static str, times: &RoundTrips, full_rtt: bool) -> Series {
    const STEPS: u32 = 200;
    // Beyond 1 - 1/n every percentile is the maximum.
    let last = (times.count.max(2) as f64).log10().min(6.0);
    let sorted = Sorted::new(times);
    let points = (0..=STEPS).map(|step| {
        let x = last * f64::from(step) / f64::from(STEPS);
        let quantile = 1.0 - 10f64.powf(-x);
        let nsec = sorted.percentile_nsec(quantile * 100.0);
        let nsec = nsec.unwrap_or(times.min_nsec as f64);
        (x, nsec / usec_divisor(full_rtt))
    });
    Series {
        name: name.to_owned(),
        color,
        points: points.collect(),
    }
}

fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

fn course(intervals: &[Interval]) -> Chart {
    let series =
        |name: &str, color, value: fn(&crate::measure::intervals::IntervalLatency) -> f64| Series {
            name: name.to_owned(),
            color,
            points: intervals
                .iter()
                .filter_map(|it| Some((it.end_sec, value(it.latency.as_ref()?))))
                .collect(),
        };
    Chart {
        series: vec![
            series("p50", "#2a6fbb", |it| it.p50_usec),
            series("p99", "#e67e22", |it| it.p99_usec),
            series("p99.9", "#c0392b", |it| it.p999_usec),
        ],
        x_label: "seconds".to_owned(),
        y_label: "microseconds".to_owned(),
        x_ticks: Vec::new(),
    }
}

fn rates(intervals: &[Interval]) -> Chart {
    let points = intervals.iter().map(|it| (it.end_sec, it.rate()));
    Chart {
        series: vec![Series {
            name: "sent".to_owned(),
            color: "#27864b",
            points: points.collect(),
        }],
        x_label: "seconds".to_owned(),
        y_label: "messages per second".to_owned(),
        x_ticks: Vec::new(),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::environment::Disturbance;
    use crate::output::report::tests::{pp_options, sample_run};

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_sec, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_795_843_199, "2026-11-28 05:19:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(unix_sec), expected);
        }
    }

    #[test]
    fn page_has_numbers_and_charts() {
        let options = pp_options("-i <host>");
        let run = sample_run(&options);
        let statistics = Statistics::new(&run.valid.round_trips, false, 99).unwrap();
        let interval = |end_sec| Interval {
            start_sec: end_sec - 1.0,
            end_sec,
            sent: 5,
            sent_bytes: 70,
            received: 5,
            dropped: 0,
            out_of_order: 0,
            latency: None,
        };
        let circumstances = |intervals| Circumstances {
            disturbance: Disturbance {
                steal_msec: Some(1e9),
                ..Disturbance::default()
            },
            offload: None,
            intervals,
        };
        let seen = circumstances(vec![interval(1.0), interval(2.0)]);
        let text = page(&options, &run, &statistics, &seen);
        for expected in [
            "<dt>host</dt>",
            "<dt>date</dt><dd>20",
            "<dt>command</dt>",
            "noisy machine",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(text.contains("prefers-color-scheme:dark"));
        assert!(
            text.contains("<title>ping-pong to &lt;host&gt; port"),
            "{text}"
        );
        assert!(text.contains("<th>p99.9</th>"), "{text}");
        assert_eq!(text.matches("<svg").count(), 3);
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let short = page(&options, &run, &statistics, &circumstances(Vec::new()));
        assert_eq!(short.matches("<svg").count(), 1);
    }
}
