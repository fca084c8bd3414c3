//! `--csv`: one section as comma-separated values, a line for each entry and report.

use std::fmt::Write;
use std::time::UNIX_EPOCH;

use stats::{ProcessInfo, SectionInfo, Value};

use crate::sample::Report;

/// Names of the columns.
pub(crate) fn heading(section: &SectionInfo) -> String {
    let fields = section.fields.iter().map(|field| field.name);
    let names: Vec<_> = ["time_unix_sec", "pid"].into_iter().chain(fields).collect();
    names.join(",") + "\n"
}

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
        for value in row {
            text.push(',');
            text.push_str(&quoted(value));
        }
        text.push('\n');
    }
    text
}

/// As RFC 4180 has it, where it is needed.
fn quoted(value: &Value) -> String {
    let text = match value {
        Value::Flag(value) => u8::from(*value).to_string(),
        other => other.to_string(),
    };
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
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
            assert_eq!(columns, section.fields.len() + 2);
        }
    }
}
