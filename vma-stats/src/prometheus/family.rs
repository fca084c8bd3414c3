//! A family of series: the values of one field.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use stats::{FieldInfo, FieldKind, Statistics, Value};

use crate::explain;

/// The value of a series, or several that belong together.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sum {
    Number(f64),
    /// By the words of a reason.
    Reasons(BTreeMap<String, u64>),
    /// By the bounds of a bucket, nanoseconds.
    Times(BTreeMap<(u64, u64), u64>),
}

impl Sum {
    /// `None`: it is no number.
    pub(super) fn of(value: &Value, statistics: &Statistics) -> Option<Self> {
        Some(match value {
            Value::Times(times) => Self::Times(
                times
                    .buckets()
                    .map(|(from, to, it)| ((from, to), it))
                    .collect(),
            ),
            Value::Reasons(counts) => {
                let mut sums = BTreeMap::new();
                for (code, count) in counts.iter() {
                    *sums.entry(explain::reason(statistics, code)).or_default() += count;
                }
                Self::Reasons(sums)
            }
            other => Self::Number(other.number()?),
        })
    }

    pub(super) fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Number(sum), Self::Number(more)) => *sum += more,
            (Self::Reasons(sums), Self::Reasons(more)) => add_each(sums, more),
            (Self::Times(sums), Self::Times(more)) => add_each(sums, more),
            // A field has one type.
            _ => {}
        }
    }

    pub(super) fn raise_to(&mut self, other: &Self) {
        if let (Self::Number(highest), Self::Number(other)) = (self, other) {
            *highest = highest.max(*other);
        }
    }
}

fn add_each<K: Ord + Clone>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        let sum = sums.entry(key.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

pub(super) fn push_heading(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub(super) fn push_sample(text: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(text, "{name}{{{labels}}} {value}");
}

/// One field of all entries. Nothing where there is no entry.
pub(super) fn push_field<'a>(
    text: &mut String,
    singular: &str,
    field: &FieldInfo,
    samples: impl Iterator<Item = (&'a str, &'a Sum)>,
) {
    let mut samples = samples.peekable();
    let Some((_, first)) = samples.peek() else {
        return;
    };
    let is_times = matches!(first, Sum::Times(_));
    // Prometheus wants base units.
    let (base, scale) = match field.name.strip_suffix("_usec") {
        Some(base) => (format!("vma_{singular}_{base}_seconds"), 1e-6),
        None => (format!("vma_{singular}_{}", field.name), 1.0),
    };
    let name = match field.kind {
        _ if is_times => format!("{base}_seconds"),
        FieldKind::Counter if field.name == "count" => format!("vma_{singular}_sockets_total"),
        FieldKind::Counter => format!("{base}_total"),
        _ => base,
    };
    let kind = match field.kind {
        _ if is_times => "histogram",
        FieldKind::Counter => "counter",
        _ => "gauge",
    };
    push_heading(text, &name, kind, field.help);
    for (labels, value) in samples {
        match value {
            Sum::Number(number) => push_sample(text, &name, labels, number * scale),
            Sum::Times(times) => push_times(text, &name, labels, times),
            Sum::Reasons(counts) => {
                for (reason, count) in counts {
                    // `reason` is why the socket is the kernel's.
                    let why = label("why", reason);
                    let _ = writeln!(text, "{name}{{{labels},{why}}} {count}");
                }
            }
        }
    }
}

fn push_times(text: &mut String, name: &str, labels: &str, times: &BTreeMap<(u64, u64), u64>) {
    let (mut count, mut sum) = (0_u64, 0.0);
    for ((from, to), found) in times {
        count = count.saturating_add(*found);
        sum += (from + to) as f64 / 2e9 * *found as f64;
        let bound = *to as f64 / 1e9;
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
    let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
}

/// Labels as the format has them.
pub(super) fn labels(labels: &[(&str, String)]) -> String {
    let labels = labels.iter().map(|(name, value)| label(name, value));
    labels.collect::<Vec<_>>().join(",")
}

fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}
