//! `compare A B`: two runs that `--json` has saved, percentile by percentile.
//!
//! Samples of one moment resemble each other, so their number says little about how sure a
//! difference is. The intervals of a run are nearer to independent: the confidence of a ratio comes
//! from how the intervals' percentiles differ among themselves (Welch's t for the logarithms).

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, cannot_open};
use crate::output::html::comparison;

/// The numbers that are compared: name, place in the statistics, place in an interval.
const ROWS: [(&str, &str, Option<&str>); 9] = [
    ("mean", "/mean_usec", Some("mean_usec")),
    ("min", "/min_usec", None),
    ("p25", "/percentiles_usec/p25", None),
    ("p50", "/percentiles_usec/p50", Some("p50_usec")),
    ("p90", "/percentiles_usec/p90", Some("p90_usec")),
    ("p99", "/percentiles_usec/p99", Some("p99_usec")),
    ("p99.9", "/percentiles_usec/p99.9", Some("p999_usec")),
    ("p99.99", "/percentiles_usec/p99.99", None),
    ("max", "/max_usec", Some("max_usec")),
];

/// Compares two files. What is also wanted as a page is written to the file `html`.
pub fn files(first: &Path, second: &Path, html: Option<&Path>) -> Result<String, Error> {
    let read = |path: &Path| {
        let text = fs::read(path).map_err(|error| cannot_open(path, &error))?;
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::Input(format!("{}: {error}", path.display())))?;
        let is_ours = value["schema"] == "sockperf-rs/1";
        is_ours
            .then_some(value)
            .ok_or_else(|| Error::Input(format!("{}: not a document of --json", path.display())))
    };
    let (a, b) = (read(first)?, read(second)?);
    let text = documents(&a, &b)?;
    if let Some(file) = html {
        let names = [first, second].map(|path| path.display().to_string());
        let page = comparison::page([&names[0], &names[1]], [&a, &b], &text);
        fs::write(file, page).map_err(|error| cannot_open(file, &error))?;
    }
    Ok(text)
}

/// Compares two documents.
pub fn documents(first: &Value, second: &Value) -> Result<String, Error> {
    if first["mode"] != second["mode"] {
        return Err(Error::Input(format!(
            "the runs are of different modes: {} and {}",
            first["mode"], second["mode"]
        )));
    }
    if let (Some(first), Some(second)) = (rate(first), rate(second)) {
        return Ok(format!(
            "messages per second: A {first:.0}, B {second:.0}, B/A {:.3}\n",
            second / first
        ));
    }
    let quantities = [first, second].map(|it| it["result"]["quantity"].as_str().unwrap_or(""));
    if quantities[0] != quantities[1] || quantities[0].is_empty() {
        return Err(Error::Input(
            "the runs do not measure the same: one latency, one round trip, or one nothing"
                .to_owned(),
        ));
    }
    let mut text = format!(
        "{} in usec     A          B      B/A   95% confidence of B/A\n",
        quantities[0]
    );
    for (name, place, interval) in ROWS {
        let value = |document: &Value| document["result"]["statistics"].pointer(place)?.as_f64();
        let (Some(a), Some(b)) = (value(first), value(second)) else {
            continue;
        };
        let confidence = interval
            .and_then(|key| ratio_error(&series(first, key), &series(second, key)))
            .map(|factor| (b / a / factor, b / a * factor))
            .map_or_else(|| "-".to_owned(), describe);
        text += &format!(
            "{name:>7} {a:>12.3} {b:>10.3} {:>8.3}   {confidence}\n",
            b / a
        );
    }
    let counts = [first, second].map(|document| series(document, "p50_usec").len());
    text += &format!(
        "intervals: A {}, B {}; with 3 or more on both sides the ratio has a confidence\n",
        counts[0], counts[1]
    );
    Ok(text)
}

fn describe((low, high): (f64, f64)) -> String {
    let verdict = if low > 1.0 {
        "B is slower"
    } else if high < 1.0 {
        "B is faster"
    } else {
        "no difference shown"
    };
    format!("{low:.3} to {high:.3}: {verdict}")
}

fn rate(document: &Value) -> Option<f64> {
    document["result"]["messages_per_sec"].as_f64()
}

fn series(document: &Value, key: &str) -> Vec<f64> {
    let intervals = document["intervals"].as_array();
    intervals
        .into_iter()
        .flatten()
        .filter_map(|interval| interval["latency"][key].as_f64())
        .filter(|&value| value > 0.0)
        .collect()
}

/// By which factor the ratio of two runs may be wrong, at 95 %: what their intervals say of the
/// ratio of their geometric means. `None` with fewer than three values on a side.
fn ratio_error(first: &[f64], second: &[f64]) -> Option<f64> {
    const COUNT_MIN: usize = 3;
    if first.len().min(second.len()) < COUNT_MIN {
        return None;
    }
    let (square_a, square_b) = (squared_error(first), squared_error(second));
    let square = square_a + square_b;
    if square == 0.0 {
        return Some(1.0);
    }
    let part = |square: f64, count: usize| square * square / (count as f64 - 1.0);
    let freedom = square * square / (part(square_a, first.len()) + part(square_b, second.len()));
    Some((student_975(freedom) * square.sqrt()).exp())
}

/// The square of the standard error of the logarithms' mean.
fn squared_error(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let logs = || values.iter().map(|value| value.ln());
    let mean = logs().sum::<f64>() / count;
    let squares: f64 = logs().map(|log| (log - mean) * (log - mean)).sum();
    squares / (count - 1.0) / count
}

/// The 97.5 % quantile of Student's t: the normal one with the terms of Cornish and Fisher, which
/// is within 1 % from 2 degrees of freedom on.
fn student_975(freedom: f64) -> f64 {
    const Z: f64 = 1.959_964;
    let (z3, z5, z7, z9) = (Z.powi(3), Z.powi(5), Z.powi(7), Z.powi(9));
    let terms = [
        (z3 + Z) / 4.0,
        (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / 96.0,
        (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / 384.0,
        (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * Z) / 92_160.0,
    ];
    let mut power = 1.0;
    terms.iter().fold(Z, |sum, term| {
        power *= freedom.max(1.0);
        sum + term / power
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(scale: f64, intervals: usize) -> Value {
        let interval = |index: usize| {
            let wobble = [1.0, 1.02, 0.98, 1.01, 0.99][index % 5];
            let usec = 10.0 * scale * wobble;
            json!({"latency": {"mean_usec": usec, "p50_usec": usec, "p90_usec": usec,
                "p99_usec": usec, "p999_usec": usec, "max_usec": usec}})
        };
        json!({
            "schema": "sockperf-rs/1",
            "mode": "ping-pong",
            "result": {"quantity": "latency", "statistics": {
                "mean_usec": 10.0 * scale, "min_usec": 5.0, "max_usec": 100.0,
                "percentiles_usec": {"p50": 10.0 * scale, "p99": 30.0 * scale}}},
            "intervals": (0..intervals).map(interval).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn a_difference_is_shown_when_there_is_one() {
        let text = documents(&document(1.0, 10), &document(1.2, 10)).unwrap();
        let line = text.lines().find(|line| line.contains("p50")).unwrap();
        assert!(line.contains("10.000     12.000    1.200"), "{text}");
        assert!(line.ends_with("B is slower"), "{text}");
        let text = documents(&document(1.0, 10), &document(1.001, 10)).unwrap();
        assert!(text.contains("no difference shown"), "{text}");
        let text = documents(&document(1.0, 2), &document(0.5, 10)).unwrap();
        assert!(text.contains("0.500   -\n"), "{text}");
    }

    /// The tail of a whole run is not the mean of its intervals' tails.
    #[test]
    fn the_bounds_are_around_the_ratio() {
        let mut longer = document(1.0, 10);
        longer["result"]["statistics"]["percentiles_usec"]["p50"] = 15.0.into();
        let text = documents(&document(1.0, 10), &longer).unwrap();
        let line = text.lines().find(|line| line.contains("p50")).unwrap();
        let numbers: Vec<f64> = line
            .split([' ', ':'])
            .filter_map(|it| it.parse().ok())
            .collect();
        let [_, _, ratio, low, high] = numbers[..] else {
            panic!("{line}");
        };
        assert!(low < ratio && ratio < high, "{line}");
    }

    #[test]
    fn a_page_is_written_where_it_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second, page] =
            ["a.json", "b.json", "c.html"].map(|it| directory.path().join(it));
        fs::write(&first, document(1.0, 5).to_string()).unwrap();
        fs::write(&second, document(1.2, 5).to_string()).unwrap();
        let text = files(&first, &second, Some(&page)).unwrap();
        let page = fs::read_to_string(page).unwrap();
        assert!(
            page.contains("a.json") && page.contains("B is slower"),
            "{page}"
        );
        assert!(text.contains("B is slower"), "{text}");
        let nowhere = directory.path().join("none/c.html");
        assert!(files(&first, &second, Some(&nowhere)).is_err());
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let mut other = document(1.0, 3);
        other["mode"] = "under-load".into();
        assert!(documents(&document(1.0, 3), &other).is_err());
        let mut other = document(1.0, 3);
        other["result"]["quantity"] = "rtt".into();
        assert!(documents(&document(1.0, 3), &other).is_err());
        let error = files(Path::new("/nonexistent"), Path::new("/nonexistent"), None).unwrap_err();
        assert_eq!(error.exit_code(), 4);
    }

    #[test]
    fn student_quantiles_match_tables() {
        for (freedom, expected) in [(3.0, 3.182), (5.0, 2.571), (10.0, 2.228), (100.0, 1.984)] {
            let actual = student_975(freedom);
            assert!(
                (actual / expected - 1.0).abs() < 0.01,
                "{freedom}: {actual}"
            );
        }
    }
}
