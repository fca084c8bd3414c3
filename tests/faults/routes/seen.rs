//! What a receiver of datagrams reports.

use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) datagrams: u64,
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Source address and time to live of the last.
    pub(crate) headers: String,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// By sender and device.
    rows: HashMap<(usize, String), Row>,
    /// Missing and doubled ones so far, by sender.
    pub(crate) streams: HashMap<usize, (u64, u64)>,
}

impl Seen {
    pub(crate) fn parse(text: &str) -> Self {
        let mut seen = Self::default();
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["row", port, device, datagrams, first, last, headers] => {
                    let key = (port.parse().unwrap(), device.to_owned());
                    let row = Row {
                        datagrams: datagrams.parse().unwrap(),
                        first: first.parse().unwrap(),
                        last: last.parse().unwrap(),
                        headers: headers.to_owned(),
                    };
                    seen.rows.insert(key, row);
                }
                ["stream", port, "missing", missing, "again", again, ..] => {
                    let numbers = (missing.parse().unwrap(), again.parse().unwrap());
                    seen.streams.insert(port.parse().unwrap(), numbers);
                }
                _ => {}
            }
        }
        seen
    }

    pub(crate) fn row(&self, sender: usize, device: &str) -> Row {
        let row = self.rows.get(&(sender, device.to_owned()));
        row.cloned().unwrap_or_default()
    }
}
