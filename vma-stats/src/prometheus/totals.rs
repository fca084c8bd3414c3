//! Sums by program, protocol, state and reason: as many series as there are of these, however many
//! sockets and processes come and go. Counters go on where a socket or a process has ended, for
//! what it has counted between two looks is added to what was there.

use std::collections::{BTreeMap, HashMap};

use stats::{FieldInfo, FieldKind, ProcessInfo, SectionInfo, SectionKind, Statistics, Value};

use super::family::{Sum, labels, push_field, push_heading, push_sample};
use crate::explain;
use crate::views::protocol_name;

/// Sections, and the fields by which their entries are told apart beside the program; sockets and
/// connections are by more.
const SECTIONS: [(SectionKind, &str, &[&str]); 7] = [
    (SectionKind::Sockets, "socket", &[]),
    (SectionKind::Rings, "ring", &["ifname"]),
    (SectionKind::Pools, "pool", &[]),
    (SectionKind::Reasons, "reason", &["name"]),
    (SectionKind::TcpConnections, "tcp_connection", &[]),
    (SectionKind::Multiplexers, "multiplexer", &["kind"]),
    (SectionKind::Queues, "queue", &["ifname", "queue"]),
];

/// Place among [`SECTIONS`], number of a field, labels.
type Series = (usize, usize, String);

/// What there was and is.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    counters: BTreeMap<Series, Sum>,
    /// By process id and start.
    earlier: HashMap<(u32, u64), Statistics>,
}

impl Totals {
    /// The metrics of these processes, and of what there was before.
    pub(super) fn look(&mut self, processes: &[(ProcessInfo, Statistics)]) -> String {
        let mut now = BTreeMap::new();
        let mut earlier = std::mem::take(&mut self.earlier);
        for (process, statistics) in processes {
            let key = (process.pid, process.start_time_ticks);
            let before = earlier.remove(&key).unwrap_or_default();
            let changes = statistics.since(&before);
            self.add(process, &changes, statistics, &mut now);
            let closed = Statistics {
                sockets: statistics.closed_since(&before),
                ..Statistics::default()
            };
            self.add(process, &closed, statistics, &mut BTreeMap::new());
            self.earlier.insert(key, statistics.clone());
        }
        let mut text = String::new();
        push_counts(&mut text, processes);
        for (place, (kind, singular, _)) in SECTIONS.into_iter().enumerate() {
            for (index, field) in fields(kind).iter().enumerate() {
                let from = match field.kind {
                    FieldKind::Counter => &self.counters,
                    _ => &now,
                };
                let range = (place, index, String::new())..(place, index + 1, String::new());
                let samples = from
                    .range(range)
                    .map(|((_, _, labels), sum)| (labels.as_str(), sum));
                push_field(&mut text, singular, field, samples);
            }
        }
        text
    }

    /// Counters are added to those of before, all else to what is `now`. What codes mean is in
    /// `words`.
    fn add(
        &mut self,
        process: &ProcessInfo,
        values: &Statistics,
        words: &Statistics,
        now: &mut BTreeMap<Series, Sum>,
    ) {
        for (section, rows) in values.rows() {
            let known = SECTIONS.iter().position(|(kind, ..)| *kind == section.kind);
            let Some(place) = known else {
                continue;
            };
            for row in &rows {
                let labels = labels_of(process, words, section, SECTIONS[place].2, row);
                for (index, field) in section.fields.iter().enumerate() {
                    let Some(sum) = row.get(index).and_then(|it| Sum::of(it, words)) else {
                        continue;
                    };
                    let series = (place, index, labels.clone());
                    match field.kind {
                        FieldKind::Identity => {}
                        FieldKind::Counter => add_to(&mut self.counters, series, &sum, Sum::add),
                        // Sums of round trip times, or of peaks, would say nothing.
                        FieldKind::Gauge if !field.name.ends_with("_usec") => {
                            add_to(now, series, &sum, Sum::add);
                        }
                        FieldKind::Gauge | FieldKind::Peak => {
                            add_to(now, series, &sum, Sum::raise_to);
                        }
                    }
                }
            }
        }
    }
}

fn add_to(sums: &mut BTreeMap<Series, Sum>, series: Series, sum: &Sum, how: fn(&mut Sum, &Sum)) {
    match sums.get_mut(&series) {
        Some(there) => how(there, sum),
        None => _ = sums.insert(series, sum.clone()),
    }
}

fn fields(kind: SectionKind) -> &'static [FieldInfo] {
    let section = stats::SECTIONS.iter().find(|it| it.kind == kind);
    section.map_or(&[], |it| it.fields)
}

/// The words by which the entries of a section are told apart.
fn labels_of(
    process: &ProcessInfo,
    words: &Statistics,
    section: &SectionInfo,
    names: &[&'static str],
    row: &[Value],
) -> String {
    let value = |name: &str| {
        let index = section.fields.iter().position(|field| field.name == name);
        index.and_then(|index| row.get(index))
    };
    let number = |name: &str| match value(name) {
        Some(Value::Unsigned(number)) => u32::try_from(*number).unwrap_or(0),
        Some(Value::Flag(flag)) => u32::from(*flag),
        _ => 0,
    };
    let mut told = vec![("program", process.program.clone())];
    match section.kind {
        SectionKind::Sockets => {
            let is_offloaded = number("offloaded") != 0;
            let reason = (!is_offloaded).then(|| number("reason"));
            told.extend(of_socket(words, number("protocol"), reason));
        }
        SectionKind::TcpConnections => {
            told.push(("state", stats::tcp_state(number("state")).to_owned()));
        }
        _ => {}
    }
    let named = names.iter().map(|name| {
        (
            *name,
            value(name).map_or_else(String::new, Value::to_string),
        )
    });
    told.extend(named);
    labels(&told)
}

/// With the reason why it is the kernel's, if it is.
fn of_socket(
    words: &Statistics,
    protocol: u32,
    reason: Option<u32>,
) -> [(&'static str, String); 3] {
    let state = match reason {
        Some(_) => "kernel",
        None => "offloaded",
    };
    let reason = reason.map_or_else(String::new, |code| explain::reason(words, code));
    [
        ("protocol", protocol_name(protocol)),
        ("state", state.to_owned()),
        ("reason", reason),
    ]
}

/// How many processes, sockets and connections there are.
fn push_counts(text: &mut String, processes: &[(ProcessInfo, Statistics)]) {
    let mut counts: [BTreeMap<String, u32>; 3] = Default::default();
    for (process, statistics) in processes {
        let program = ("program", process.program.clone());
        let mut count = |family: usize, more: &[(&'static str, String)]| {
            let labels = labels(&[std::slice::from_ref(&program), more].concat());
            *counts[family].entry(labels).or_default() += 1;
        };
        count(0, &[("version", process.library_version.clone())]);
        for socket in &statistics.sockets {
            let reason = (!socket.offloaded).then_some(socket.reason);
            count(1, &of_socket(statistics, socket.protocol, reason));
        }
        for socket in &statistics.kernel_sockets {
            count(
                1,
                &of_socket(statistics, socket.protocol, Some(socket.reason)),
            );
        }
        for connection in &statistics.tcp_connections {
            count(
                2,
                &[("state", stats::tcp_state(connection.state).to_owned())],
            );
        }
    }
    let families = [
        ("vma_processes", "processes that publish statistics"),
        ("vma_sockets", "sockets that are open"),
        ("vma_tcp_connections", "TCP connections in user space"),
    ];
    for ((name, help), counts) in families.into_iter().zip(&counts) {
        push_heading(text, name, "gauge", help);
        for (labels, count) in counts {
            push_sample(text, name, labels, f64::from(*count));
        }
    }
}
