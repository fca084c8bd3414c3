//! A series for each socket: on request, for there may be thousands.

use stats::{FieldKind, ProcessInfo, SectionInfo, Statistics, Value};

use super::family::{Sum, labels, push_field, push_heading, push_sample};

/// Fields that tell the entries of a section apart. Sections that are not named have no metrics:
/// they hold words only, or entries that come and go with every look.
const LABELS: [(&str, &str, &[&str]); 7] = [
    ("sockets", "socket", &["fd", "local", "peer"]),
    ("rings", "ring", &["ifname"]),
    ("pools", "pool", &["slot"]),
    ("reasons", "reason", &["name"]),
    (
        "tcp_connections",
        "tcp_connection",
        &["fd", "local", "peer"],
    ),
    ("multiplexers", "multiplexer", &["kind", "epfd"]),
    ("queues", "queue", &["ifname", "queue"]),
];

/// The metrics of several processes.
pub(crate) fn format(processes: &[(ProcessInfo, Statistics)]) -> String {
    let mut text = String::new();
    push_heading(
        &mut text,
        "vma_process_info",
        "gauge",
        "processes that publish statistics",
    );
    for (process, _) in processes {
        let labels = labels_of(process, &[("version", process.library_version.clone())]);
        push_sample(&mut text, "vma_process_info", &labels, 1.0);
    }
    let rows: Vec<_> = processes
        .iter()
        .map(|(process, statistics)| (process, statistics, statistics.rows()))
        .collect();
    for (name, singular, identity) in LABELS {
        let Some(section) = stats::SECTIONS.iter().find(|section| section.name == name) else {
            continue;
        };
        for (index, field) in section.fields.iter().enumerate() {
            if field.kind == FieldKind::Identity {
                continue;
            }
            let samples = rows.iter().flat_map(|(process, statistics, sections)| {
                let rows = sections
                    .iter()
                    .filter(|(other, _)| other.kind == section.kind)
                    .flat_map(|(_, rows)| rows.iter().enumerate());
                rows.filter_map(move |(place, row)| {
                    let labels = labels_of(process, &entry_labels(section, identity, place, row));
                    Some((labels, Sum::of(row.get(index)?, statistics)?))
                })
            });
            let samples: Vec<_> = samples.collect();
            let samples = samples.iter().map(|(labels, sum)| (labels.as_str(), sum));
            push_field(&mut text, singular, field, samples);
        }
    }
    text
}

fn entry_labels(
    section: &SectionInfo,
    identity: &'static [&'static str],
    place: usize,
    row: &[Value],
) -> Vec<(&'static str, String)> {
    let value = |name: &'static str| {
        let index = section.fields.iter().position(|field| field.name == name);
        let value = index.and_then(|index| row.get(index));
        (
            name,
            value.map_or_else(|| place.to_string(), Value::to_string),
        )
    };
    identity.iter().copied().map(value).collect()
}

fn labels_of(process: &ProcessInfo, more: &[(&str, String)]) -> String {
    let first = [
        ("pid", process.pid.to_string()),
        ("program", process.program.clone()),
    ];
    labels(&[&first, more].concat())
}
