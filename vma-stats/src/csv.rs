//! `--csv`: one section as comma-separated values, a line for each entry and report.

use std::fmt::Write;
use std::time::UNIX_EPOCH;

use stats::{ProcessInfo, SectionInfo, Statistics, Value};

use crate::explain::reason;
use crate::sample::Report;

/// Names of the columns.
pub(crate) fn heading(section: &SectionInfo) -> String {
    let fields = section.fields.iter().flat_map(|field| {
        let times = TIMES
            .iter()
            .map(|(name, _)| format!("{}_{name}", field.name));
        match field.type_name {
            "Histogram" => [format!("{}_count", field.name)]
                .into_iter()
                .chain(times)
                .collect(),
            _ => vec![field.name.to_owned()],
        }
    });
    let first = ["time_unix_sec", "pid"].map(str::to_owned);
    let names: Vec<_> = first.into_iter().chain(fields).collect();
    names.join(",") + "\n"
}

/// The columns of times, in nanoseconds, and which share of the times each has.
const TIMES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// With differences, counters hold the whole change, as in JSON.
pub(crate) fn format(process: &ProcessInfo, report: &Report, section: &SectionInfo) -> String {
    let time = report.time.duration_since(UNIX_EPOCH);
    let time = time.map_or(0.0, |since| since.as_secs_f64());
    let mut text = String::new();
    let rows = report.values.rows();
    let rows = rows.iter().filter(|(other, _)| other.kind == section.kind);
    for row in rows.flat_map(|(_, rows)| rows) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{time:.3},{}", process.pid);
        for (field, value) in section.fields.iter().zip(row) {
            for cell in cells(&report.values, field.name, value) {
                text.push(',');
                text.push_str(&quoted(&cell));
            }
        }
        text.push('\n');
    }
    text
}

/// Of a value one, of times several. Reasons are words: nobody has their table here.
fn cells(statistics: &Statistics, field: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Flag(value) => vec![u8::from(*value).to_string()],
        Value::Times(times) => {
            let quantile = |(_, share): &(&str, f64)| {
                let time = times.quantile(*share);
                time.map_or_else(String::new, |time| time.to_string())
            };
            let count = [times.count().to_string()].into_iter();
            count.chain(TIMES.iter().map(quantile)).collect()
        }
        Value::Reasons(counts) => {
            let words = |(code, count)| format!("{}={count}", reason(statistics, code));
            vec![counts.iter().map(words).collect::<Vec<_>>().join("; ")]
        }
        Value::Unsigned(code) if field == "reason" => {
            vec![reason(statistics, u32::try_from(*code).unwrap_or(u32::MAX))]
        }
        other => vec![other.to_string()],
    }
}

/// As RFC 4180 has it, where it is needed.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::Fixture;

    #[test]
    fn every_field_has_a_column_and_texts_are_quoted() {
        let fixture = Fixture::new();
        fixture.segment.note("vb", "vlan", "tags, \"stripped\"");
        let notes = stats::SECTIONS
            .iter()
            .find(|it| it.name == "notes")
            .unwrap();
        assert_eq!(heading(notes), "time_unix_sec,pid,subject,topic,text\n");
        let mut report = fixture.sample().totals();
        report.time = UNIX_EPOCH + std::time::Duration::from_millis(1500);
        let pid = std::process::id();
        assert_eq!(
            format(fixture.reader.process(), &report, notes),
            format!("1.500,{pid},vb,vlan,\"tags, \"\"stripped\"\"\"\n")
        );
        for section in stats::SECTIONS {
            let columns = heading(section).split(',').count();
            let times = section
                .fields
                .iter()
                .filter(|it| it.type_name == "Histogram");
            assert_eq!(
                columns,
                section.fields.len() + 2 + times.count() * TIMES.len()
            );
        }
    }

    #[test]
    fn times_are_numbers_and_reasons_words() {
        let fixture = Fixture::new();
        fixture
            .segment
            .reason_names(&["offloaded", "SO_REUSEPORT is set"]);
        let socket = fixture.segment.claim_socket();
        socket.fd.set(5);
        socket.set_not_offloaded(1, 0);
        socket.rx_os_reasons.count(1);
        (0..99).for_each(|_| socket.rx_latency.record(1000));
        socket.rx_latency.record(1_000_000);
        let sockets = stats::SECTIONS
            .iter()
            .find(|it| it.name == "sockets")
            .unwrap();
        let report = fixture.sample().totals();
        let row = format(fixture.reader.process(), &report, sockets);
        let (heading, row) = (heading(sockets), row.trim_end());
        let columns: std::collections::HashMap<_, _> =
            heading.trim_end().split(',').zip(row.split(',')).collect();
        for (name, expected) in [
            ("reason", "SO_REUSEPORT is set"),
            ("rx_os_reasons", "SO_REUSEPORT is set=1"),
            ("rx_latency_count", "100"),
            ("rx_latency_p50", "1024"),
            ("rx_latency_p999", "1048576"),
        ] {
            assert_eq!(columns[name], expected, "{row}");
        }
    }
}
