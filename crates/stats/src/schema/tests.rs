use std::collections::BTreeSet;

use super::*;
use crate::cache_line::CACHE_LINE_BYTES;
use crate::field::FieldKind;
use crate::field::reasons::ReasonCounts;
use crate::sections::{PLANNED, SECTIONS};
use crate::statistics::Statistics;

/// Every section with its number, and every field with its type and place.
fn format() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        text.push_str(&format!("{} {}\n", section.kind as u32, section.name));
        for field in section.fields {
            text.push_str(&format!(
                "  {} {} {}\n",
                field.offset, field.type_name, field.name
            ));
        }
    }
    text
}

/// The whole format as text: a change of order or type shows here, and asks for a new version.
#[test]
fn schema_offsets_are_the_published_format() {
    if std::env::var_os("UPDATE_FORMAT").is_some() {
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/format-1.7.txt"),
            format(),
        )
        .unwrap();
        return;
    }
    assert_eq!(
        format(),
        include_str!("format-1.7.txt"),
        "the layout differs from version 1.7: if fields or sections were appended, raise LAYOUT_MINOR and write the text \
         of the new format (UPDATE_FORMAT=1); anything else breaks readers"
    );
}

/// What an older reader, or an older file, has keeps its place.
#[test]
fn schema_fields_of_the_previous_layout_are_where_they_were() {
    let entries = [
        ("socket", "sockets"),
        ("ring", "rings"),
        ("pool", "pools"),
        ("reason", "reasons"),
        ("setting", "settings"),
        ("rule", "rules"),
        ("kernel_socket", "kernel_sockets"),
        ("note", "notes"),
    ];
    for line in include_str!("format-1.3.txt").lines() {
        let (field, offset) = line.split_once(' ').unwrap();
        let (entry, field) = field.split_once('.').unwrap();
        let (_, section) = entries.iter().find(|(name, _)| *name == entry).unwrap();
        let section = SECTIONS.iter().find(|it| it.name == *section).unwrap();
        let found = section.fields.iter().find(|it| it.name == field);
        let offset: usize = offset.parse().unwrap();
        assert_eq!(found.map(|field| field.offset), Some(offset), "{line}");
    }
}

#[test]
fn schema_fields_are_described_and_unique() {
    let mut kinds = BTreeSet::new();
    for section in SECTIONS {
        assert!(kinds.insert(section.kind as u32), "{} twice", section.name);
        assert!(
            !section.help.is_empty() && section.help.is_ascii(),
            "{}",
            section.name
        );
        for (index, field) in section.fields.iter().enumerate() {
            assert!(
                !field.help.is_empty() && field.help.is_ascii(),
                "{}",
                field.name
            );
            assert!(
                section
                    .fields
                    .iter()
                    .skip(index + 1)
                    .all(|other| other.name != field.name),
                "{} twice",
                field.name
            );
            let counts = field.kind != FieldKind::Identity;
            assert!(
                !counts || !field.unit.is_empty(),
                "counter {} has no unit",
                field.name
            );
        }
    }
}

#[test]
fn planned_fields_exist() {
    for (section, field, why) in PLANNED {
        let section = SECTIONS.iter().find(|it| it.name == *section).unwrap();
        let exists = field.is_empty() || section.fields.iter().any(|it| it.name == *field);
        assert!(exists && !why.is_empty(), "{} {field}", section.name);
    }
}

/// JSON and whatever goes over all fields shows each of them.
#[test]
fn statistics_have_the_values_of_every_field() {
    let statistics = Statistics {
        sockets: vec![SocketSnapshot::default()],
        events: vec![EventSnapshot::default()],
        ..Statistics::default()
    };
    for (section, rows) in statistics.rows() {
        assert!(
            rows.iter().all(|row| row.len() == section.fields.len()),
            "{}",
            section.name
        );
    }
    let shown: usize = statistics.rows().iter().map(|(_, rows)| rows.len()).sum();
    assert_eq!(shown, 2);
}

#[test]
fn schema_receive_and_send_counters_share_no_cache_line() {
    for fields in [SocketStats::FIELDS, RingStats::FIELDS] {
        let lines = |prefix: &str| -> Vec<usize> {
            let counts = |field: &&FieldInfo| field.kind != FieldKind::Identity;
            let of_side = fields.iter().filter(|field| field.name.starts_with(prefix));
            of_side
                .filter(counts)
                .map(|field| field.offset / CACHE_LINE_BYTES)
                .collect()
        };
        let (rx, tx) = (lines("rx_"), lines("tx_"));
        assert!(!rx.is_empty() && !tx.is_empty());
        assert!(
            rx.iter().all(|line| !tx.contains(line)),
            "rx lines {rx:?}, tx lines {tx:?}"
        );
    }
}

#[test]
fn entry_reset_clears_every_field() {
    let entry = SocketStats::default();
    let fresh = shown(&entry);
    entry.fd.set(7);
    entry.inode.set(9);
    entry.rx_packets.add(5);
    entry.rx_queue_bytes.set(5);
    entry.tx_os_errors.add(5);
    entry.rx_os_reasons.count(2);
    entry.tx_os_reasons.count(63);
    entry.rx_latency.record(700);
    entry.set_not_offloaded(3, 4);
    let used = shown(&entry);
    assert_eq!(
        fresh
            .lines()
            .zip(used.lines())
            .filter(|(fresh, used)| fresh != used)
            .count(),
        10
    );
    entry.local.set("10.0.0.1:5".parse().unwrap());
    entry.peer.set("10.0.0.2:5".parse().unwrap());
    entry.reset();
    assert_eq!(shown(&entry), fresh);
    assert_eq!((entry.local.value(), entry.peer.value()), (None, None));
}

/// All fields but the addresses, which keep the copy that is not current.
fn shown(entry: &SocketStats) -> String {
    let text = format!("{entry:#?}");
    let (in_front, rest) = text.split_once("local:").unwrap();
    let (_, behind) = rest.split_once("rx:").unwrap();
    format!("{in_front}{behind}")
}

#[test]
fn entry_zero_begins_counts_anew_and_keeps_the_rest() {
    let entry = SocketStats::default();
    entry.fd.set(7);
    entry.rx_packets.add(5);
    entry.rx_queue_packets.set(3);
    entry.rx_queue_packets_max.raise_to(9);
    entry.rx_os_reasons.count(2);
    entry.rx_latency.record(700);
    entry.zero();
    assert_eq!(
        entry.rx_packets.value() + entry.rx_queue_packets_max.value(),
        0
    );
    assert_eq!(entry.rx_os_reasons.value(), ReasonCounts::default());
    assert_eq!(entry.rx_latency.value().count(), 0);
    assert_eq!((entry.fd.value(), entry.rx_queue_packets.value()), (7, 3));
}
