//! The report of `compare --html`: two runs beside each other.

use std::fmt::Write;

use serde_json::Value;

use super::chart::{Chart, Series};
use super::{STYLE, escape, nines};

const COLORS: [&str; 2] = ["#2a6fbb", "#c0392b"];
/// Of the tail, in the course of the test.
const PALER: [&str; 2] = ["#8fb8e0", "#e6a39b"];

/// The page: two documents of `--json`, their names, and what the comparison says of them.
pub fn page(names: [&str; 2], documents: [&Value; 2], comparison: &str) -> String {
    let title = escape(&format!("{} and {}", names[0], names[1]));
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>\n"
    );
    for (letter, (name, document)) in ["A", "B"].into_iter().zip(names.into_iter().zip(documents)) {
        let facts = escape(&facts(name, document));
        // Writing to a string cannot fail, here and below.
        writeln!(text, "<dt>{letter}</dt><dd>{facts}</dd>").ok();
    }
    write!(
        text,
        "</dl>\n<h2>Comparison</h2>\n<pre>{}</pre>\n",
        escape(comparison)
    )
    .ok();
    let charts = [
        ("Distribution", distribution(documents)),
        ("In the course of the test", course(documents)),
        ("Messages per second", rates(documents)),
    ];
    for (heading, chart) in charts {
        if chart.series.iter().any(|series| series.points.len() > 1) {
            write!(text, "<h2>{heading}</h2>\n{}", chart.svg()).ok();
        }
    }
    text + "</body>\n</html>\n"
}

/// Where and with what it was measured.
fn facts(name: &str, document: &Value) -> String {
    let word = |place: &str| {
        document
            .pointer(place)
            .and_then(Value::as_str)
            .unwrap_or("")
    };
    let warnings = match document["libvma"].is_null() {
        true => "without libvma",
        false => "with libvma",
    };
    format!(
        "{name}: {} on {}, {}; {}, sockperf-rs {}; {warnings}",
        word("/mode"),
        word("/host/hostname"),
        word("/host/kernel"),
        word("/host/cpu_model"),
        word("/version"),
    )
}

/// A line for each run.
fn lines(documents: [&Value; 2], points: impl Fn(&Value) -> Vec<(f64, f64)>) -> Vec<Series> {
    let names = ["A", "B"].into_iter().zip(COLORS);
    names
        .zip(documents)
        .map(|((name, color), document)| Series {
            name: name.to_owned(),
            color,
            points: points(document),
        })
        .collect()
}

/// The percentiles over the number of nines.
fn distribution(documents: [&Value; 2]) -> Chart {
    let points = |document: &Value| {
        let percentiles = document["result"]["statistics"]["percentiles_usec"].as_object();
        let mut points: Vec<(f64, f64)> = percentiles
            .into_iter()
            .flatten()
            .filter_map(|(name, usec)| {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                (percent < 100.0).then_some((nines(percent / 100.0), usec.as_f64()?))
            })
            .collect();
        points.sort_by(|(first, _), (second, _)| first.total_cmp(second));
        points
    };
    let ticks = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    Chart {
        series: lines(documents, points),
        x_label: "percentile".to_owned(),
        y_label: "microseconds".to_owned(),
        x_ticks: ticks
            .map(|quantile| (nines(quantile), format!("{}", quantile * 100.0)))
            .to_vec(),
    }
}

fn of_intervals(document: &Value, value: impl Fn(&Value) -> Option<f64>) -> Vec<(f64, f64)> {
    let intervals = document["intervals"].as_array();
    intervals
        .into_iter()
        .flatten()
        .filter_map(|interval| Some((interval["end_sec"].as_f64()?, value(interval)?)))
        .collect()
}

fn course(documents: [&Value; 2]) -> Chart {
    let of = |key: &'static str| {
        move |document: &Value| of_intervals(document, |interval| interval["latency"][key].as_f64())
    };
    let mut series = Vec::new();
    for (name, key, colors) in [("p50", "p50_usec", COLORS), ("p99", "p99_usec", PALER)] {
        for (line, color) in lines(documents, of(key)).into_iter().zip(colors) {
            series.push(Series {
                name: format!("{} {name}", line.name),
                color,
                ..line
            });
        }
    }
    Chart {
        series,
        x_label: "seconds".to_owned(),
        y_label: "microseconds".to_owned(),
        x_ticks: Vec::new(),
    }
}

fn rates(documents: [&Value; 2]) -> Chart {
    let rate = |interval: &Value| {
        let time = interval["end_sec"].as_f64()? - interval["start_sec"].as_f64()?;
        Some(interval["sent"].as_f64()? / time).filter(|it| it.is_finite())
    };
    Chart {
        series: lines(documents, |document| of_intervals(document, rate)),
        x_label: "seconds".to_owned(),
        y_label: "messages per second".to_owned(),
        x_ticks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(scale: f64) -> Value {
        let interval = |end: u32| {
            json!({"start_sec": end - 1, "end_sec": end, "sent": 100.0 * scale,
                "latency": {"p50_usec": scale, "p99_usec": 3.0 * scale}})
        };
        json!({
            "mode": "ping-pong", "version": "1.2.3",
            "host": {"hostname": "<one>", "kernel": "6.1", "cpu_model": "x"},
            "libvma": null,
            "result": {"statistics": {"percentiles_usec": {"p50": scale, "p99": 3.0 * scale, "p99.9": 9.0 * scale}}},
            "intervals": [interval(1), interval(2)],
        })
    }

    #[test]
    fn both_runs_are_in_each_chart() {
        let (first, second) = (document(1.0), document(2.0));
        let text = page(["a.json", "b&b.json"], [&first, &second], "p50 1 < 2\n");
        for part in [
            "<title>a.json and b&amp;b.json</title>",
            "p50 1 &lt; 2",
            "on &lt;one&gt;, 6.1",
            ">A p99<",
            ">B p50<",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches("<svg").count(), 3);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let rates_only = json!({"mode": "throughput", "result": {}, "intervals": []});
        let text = page(["a", "b"], [&rates_only, &rates_only], "");
        assert_eq!(text.matches("<svg").count(), 0);
    }
}
