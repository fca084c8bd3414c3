//! The original tool's views, in its columns and texts. Scripts read them.

use crate::rate::Rate;
use crate::sample::Report;

pub(crate) mod basic;
pub(crate) mod columns;
pub(crate) mod full;
pub(crate) mod groups;
pub(crate) mod medium;
pub(crate) mod multiplexing;
pub(crate) mod netstat;

/// What a table's reports are made of.
pub(crate) trait Columns {
    fn heading(&self, rate: Rate) -> String;

    /// Appends the lines of one report.
    fn lines(&self, text: &mut String, report: &Report);
}

/// Formats report after report and remembers when the heading is due again.
#[derive(Debug)]
pub(crate) struct Table<C> {
    columns: C,
    /// Lines since the heading; `None` before the first one.
    lines: Option<usize>,
}

impl<C: Columns> Table<C> {
    pub(crate) fn new(columns: C) -> Self {
        Self {
            columns,
            lines: None,
        }
    }

    pub(crate) fn format(&mut self, report: &Report) -> String {
        let mut text = String::new();
        self.columns.lines(&mut text, report);
        if !text.is_empty() {
            text.push_str(&"-".repeat(79));
            text.push('\n');
        }
        let lines = text.lines().count();
        match &mut self.lines {
            Some(printed) if *printed < SCREEN_LINES => *printed += lines,
            due => {
                *due = Some(lines);
                text.insert_str(0, &self.columns.heading(report.rate));
            }
        }
        text
    }
}

/// The heading is repeated after a screenful of lines.
const SCREEN_LINES: usize = 24;

/// The share of polls that found something; 0 when nothing was polled.
pub(crate) fn poll_percent(hit: u64, miss: u64) -> f64 {
    let polls = hit as f64 + miss as f64;
    if polls == 0.0 {
        0.0
    } else {
        hit as f64 / polls * 100.0
    }
}

/// Name of a protocol, as a word in a sentence.
pub(crate) fn protocol_name(number: u32) -> String {
    match number {
        stats::PROTOCOL_TCP => "tcp".to_owned(),
        stats::PROTOCOL_UDP => "udp".to_owned(),
        other => format!("protocol {other}"),
    }
}

#[cfg(test)]
mod tests;
