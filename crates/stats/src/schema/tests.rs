use super::*;

/// The whole format as text: a change of order or type shows here, and asks for a new version.
#[test]
fn schema_offsets_are_the_published_format() {
    let list = |name: &str, fields: &[FieldInfo]| -> String {
        fields
            .iter()
            .map(|field| format!("{name}.{} {}\n", field.name, field.offset))
            .collect()
    };
    let format = [
        list("socket", SocketStats::FIELDS),
        list("ring", RingStats::FIELDS),
        list("pool", PoolStats::FIELDS),
        list("reason", ReasonStats::FIELDS),
        list("setting", SettingStats::FIELDS),
        list("rule", RuleStats::FIELDS),
        list("kernel_socket", KernelSocketStats::FIELDS),
        list("note", NoteStats::FIELDS),
    ]
    .concat();
    assert_eq!(
        format,
        include_str!("format-1.3.txt"),
        "the layout differs from version 1.3"
    );
}

#[test]
fn schema_fields_are_described_and_unique() {
    for fields in [
        SocketStats::FIELDS,
        RingStats::FIELDS,
        PoolStats::FIELDS,
        ReasonStats::FIELDS,
        SettingStats::FIELDS,
        RuleStats::FIELDS,
        KernelSocketStats::FIELDS,
        NoteStats::FIELDS,
    ] {
        for (index, field) in fields.iter().enumerate() {
            assert!(
                !field.help.is_empty() && field.help.is_ascii(),
                "{}",
                field.name
            );
            assert!(
                fields
                    .iter()
                    .skip(index + 1)
                    .all(|other| other.name != field.name),
                "{} twice",
                field.name
            );
            let counts = field.kind == FieldKind::Counter;
            assert!(
                !counts || !field.unit.is_empty(),
                "counter {} has no unit",
                field.name
            );
        }
    }
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
    entry.set_not_offloaded(3, 4);
    let used = shown(&entry);
    assert_eq!(
        fresh
            .lines()
            .zip(used.lines())
            .filter(|(fresh, used)| fresh != used)
            .count(),
        9
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
fn entry_generation_is_odd_while_in_use() {
    let head = Head::default();
    let generation = || head.generation.load(Ordering::Relaxed);
    assert_eq!(generation(), 0);
    head.open();
    assert_eq!(generation(), 1);
    head.close();
    assert_eq!(generation(), 2);
}
