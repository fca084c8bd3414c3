//! `--json`: one document per report. `record` writes the same, and `replay` reads it.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use stats::{
    KernelSocketSnapshot, ProcessInfo, ReasonCounts, SECTIONS, SectionKind, SocketSnapshot,
    Statistics,
};

use crate::explain;
use crate::sample::{Report, Sample};

/// Sections that hardly ever change, and are most of a document. Where one is as in the document
/// before, only its name is there.
const SELDOM: [SectionKind; 6] = [
    SectionKind::Reasons,
    SectionKind::Settings,
    SectionKind::Rules,
    SectionKind::ClosedSockets,
    SectionKind::Notes,
    SectionKind::Events,
];

/// Formats one report after the other.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    earlier: Option<Statistics>,
}

impl Documents {
    /// The report as one line.
    pub(crate) fn format(
        &mut self,
        process: &ProcessInfo,
        report: &Report,
    ) -> Result<String, serde_json::Error> {
        let mut earlier = Statistics::default();
        for kind in SELDOM {
            earlier.take_section(kind, &report.values);
        }
        let earlier = self.earlier.replace(earlier);
        format(process, report, earlier.as_ref())
    }
}

/// With differences, counters hold the whole change during `interval_sec`, so that no digit is
/// lost; a reader divides if it wants a rate.
fn format(
    process: &ProcessInfo,
    report: &Report,
    earlier: Option<&Statistics>,
) -> Result<String, serde_json::Error> {
    let is_unchanged = |kind| earlier.is_some_and(|it| report.values.is_unchanged(kind, it));
    let document = Document {
        time_unix_sec: report
            .time
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64()),
        process,
        details: if report.covers().is_some() {
            "deltas"
        } else {
            "totals"
        },
        interval_sec: report.covers().map(|time| time.as_secs_f64()),
        overflowed_sockets: report.overflowed_sockets,
        unchanged: SELDOM.into_iter().filter(|it| is_unchanged(*it)).collect(),
        statistics: &report.values,
    };
    serde_json::to_string(&document).map(|line| line + "\n")
}

/// Reads back what [`Documents::format`] has written of totals, after `earlier`.
pub(crate) fn parse(
    line: &str,
    earlier: Option<&Statistics>,
) -> Result<(ProcessInfo, Sample), String> {
    let mut recorded: Recorded = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if recorded.details != "totals" {
        return Err("differences were recorded (-d 2), replay needs totals".to_owned());
    }
    for section in SECTIONS {
        if recorded.unchanged.iter().any(|name| name == section.name) {
            let earlier = earlier.ok_or("the document before it is missing")?;
            let statistics = &mut recorded.statistics;
            statistics.take_section(section.kind, earlier);
        }
    }
    let time = Duration::try_from_secs_f64(recorded.time_unix_sec)
        .map_err(|_| "the time is not one".to_owned())?;
    let sample = Sample {
        taken: time,
        time: UNIX_EPOCH + time,
        statistics: recorded.statistics,
        overflowed_sockets: recorded.overflowed_sockets,
    };
    Ok((recorded.process, sample))
}

struct Document<'a> {
    time_unix_sec: f64,
    process: &'a ProcessInfo,
    details: &'static str,
    interval_sec: Option<f64>,
    /// Sockets since the start of the process that found no room in the segment.
    overflowed_sockets: u64,
    /// Sections that are left out.
    unchanged: Vec<SectionKind>,
    statistics: &'a Statistics,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.statistics;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time_unix_sec", &self.time_unix_sec)?;
        map.serialize_entry("process", self.process)?;
        map.serialize_entry("details", self.details)?;
        if let Some(time) = self.interval_sec {
            map.serialize_entry("interval_sec", &time)?;
        }
        map.serialize_entry("overflowed_sockets", &self.overflowed_sockets)?;
        let sections = SECTIONS.iter();
        let unchanged = sections.filter(|it| self.unchanged.contains(&it.kind));
        let unchanged: Vec<_> = unchanged.map(|it| it.name).collect();
        if !unchanged.is_empty() {
            map.serialize_entry("unchanged", &unchanged)?;
        }
        let socket = |it| InWords::socket(values, it);
        map.serialize_entry("sockets", &Rows(&values.sockets, socket))?;
        if !self.unchanged.contains(&SectionKind::ClosedSockets) {
            map.serialize_entry("closed_sockets", &Rows(&values.closed_sockets, socket))?;
        }
        let of_kernel = |it| InWords::kernel_socket(values, it);
        map.serialize_entry("kernel_sockets", &Rows(&values.kernel_sockets, of_kernel))?;
        values.serialize_into(&mut map, |kind| {
            !self.unchanged.contains(&kind) && !WITH_WORDS.contains(&kind)
        })?;
        map.end()
    }
}

/// Sections whose entries have reasons.
const WITH_WORDS: [SectionKind; 3] = [
    SectionKind::Sockets,
    SectionKind::ClosedSockets,
    SectionKind::KernelSockets,
];

/// Entries as an array, each with its words.
struct Rows<'a, E, W>(&'a [E], W);

impl<'a, E, W, O> Serialize for Rows<'a, E, W>
where
    W: Fn(&'a E) -> O,
    O: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(&self.1))
    }
}

/// An entry, and what its codes stand for.
#[derive(Serialize)]
struct InWords<'a, E> {
    #[serde(flatten)]
    entry: &'a E,
    /// Why the kernel has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    /// Why the kernel carried packets, and how many.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rx_os_why: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tx_os_why: BTreeMap<String, u64>,
}

impl<'a> InWords<'a, SocketSnapshot> {
    fn socket(values: &Statistics, entry: &'a SocketSnapshot) -> Self {
        let why = match entry.offloaded {
            true => String::new(),
            false => explain::why(values, entry),
        };
        let words = |counts: &ReasonCounts| {
            let words = |(code, count)| (explain::reason(values, code), count);
            counts.iter().map(words).collect()
        };
        Self {
            why,
            rx_os_why: words(&entry.rx_os_reasons),
            tx_os_why: words(&entry.tx_os_reasons),
            entry,
        }
    }
}

impl<'a> InWords<'a, KernelSocketSnapshot> {
    fn kernel_socket(values: &Statistics, entry: &'a KernelSocketSnapshot) -> Self {
        Self {
            why: explain::reason(values, entry.reason),
            rx_os_why: BTreeMap::new(),
            tx_os_why: BTreeMap::new(),
            entry,
        }
    }
}

#[derive(Deserialize)]
struct Recorded {
    time_unix_sec: f64,
    process: ProcessInfo,
    details: String,
    #[serde(flatten)]
    statistics: Statistics,
    #[serde(default)]
    overflowed_sockets: u64,
    #[serde(default)]
    unchanged: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::Fixture;

    #[test]
    fn document_has_every_section_on_one_line() {
        let fixture = Fixture::new();
        let socket = fixture.segment.claim_socket();
        socket.fd.set(5);
        socket.local.set("10.0.0.1:80".parse().unwrap());
        socket.rx_packets.add(u64::MAX);
        socket.tx_os_reasons.count(18);
        let ring = fixture.segment.claim_ring();
        ring.ifname.set("eth\"0");
        let _pool = fixture.segment.claim_pool();
        fixture.segment.reason_names(&["fork"]);
        let setting = stats::Setting {
            name: "VMA_SPEC",
            value: "latency",
            origin: "environment",
        };
        fixture.segment.settings([setting].into_iter());
        fixture
            .segment
            .describe_rule(1, "use os udp_sender *:1", "/etc/libvma.conf:7");
        fixture.segment.remember_closed(&socket);
        let of_kernel = fixture.segment.claim_kernel_socket();
        of_kernel.fd.set(8);
        fixture.segment.note("vb", "vlan", "tags are stripped");
        socket.rx_latency.record(700);
        fixture
            .segment
            .event("offload", "fd 5", "runs in user space");
        let multiplexer = fixture.segment.claim_multiplexer();
        multiplexer.kind.set("epoll");
        let _queue = fixture.segment.claim_queue();
        let group = fixture.segment.claim_group();
        group.group.set("224.7.7.7:0".parse().unwrap());
        let connection = fixture.segment.claim_tcp_connection();
        connection.fd.set(11);
        let process = fixture.reader.process();
        let mut report = fixture.sample().totals();
        report.time = UNIX_EPOCH + Duration::from_millis(1500);
        let mut documents = Documents::default();
        let line = documents.format(process, &report).unwrap();
        assert_eq!(line.find('\n'), Some(line.len() - 1));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["time_unix_sec"], 1.5);
        assert_eq!(value["process"]["program"], "feed");
        assert_eq!(value["details"], "totals");
        assert!(value.get("interval_sec").is_none());
        assert_eq!(value["sockets"][0]["fd"], 5);
        assert_eq!(value["sockets"][0]["local"], "10.0.0.1:80");
        assert!(value["sockets"][0]["peer"].is_null());
        assert_eq!(value["sockets"][0]["rx_packets"], u64::MAX);
        assert_eq!(value["sockets"][0]["tx_os_reasons"]["18"], 1);
        assert_eq!(value["rings"][0]["ifname"], "eth\"0");
        assert_eq!(value["pools"][0]["frames"], 0);
        assert_eq!(value["reasons"][0]["name"], "fork");
        assert_eq!(value["settings"][0]["name"], "VMA_SPEC");
        assert_eq!(value["settings"][0]["value"], "latency");
        assert_eq!(value["settings"][0]["origin"], "environment");
        assert_eq!(value["rules"][0]["rule"], "use os udp_sender *:1");
        assert_eq!(value["rules"][0]["origin"], "/etc/libvma.conf:7");
        assert_eq!(value["closed_sockets"][0]["fd"], 5);
        assert_eq!(value["closed_sockets"][0]["closed"], 1);
        assert_eq!(value["kernel_sockets"][0]["fd"], 8);
        assert_eq!(value["notes"][0]["subject"], "vb");
        assert_eq!(value["notes"][0]["topic"], "vlan");
        assert_eq!(value["notes"][0]["text"], "tags are stripped");
        assert_eq!(value["overflowed_sockets"], 0);
        for section in SECTIONS {
            let rows = value[section.name].as_array().unwrap();
            for field in section.fields {
                assert!(
                    rows.iter().all(|row| row.get(field.name).is_some()),
                    "{}.{} is not in the document",
                    section.name,
                    field.name
                );
            }
        }
        assert_eq!(value["sockets"][0]["tx_os_why"]["reason 18"], 1);
        let (process_read, first) = parse(&line, None).unwrap();
        assert_eq!(process_read, *process);
        assert_eq!(
            first.statistics, report.values,
            "what was recorded is read back"
        );
        // What is as before is named only, and read back all the same.
        fixture
            .segment
            .event("control", "", "something has happened");
        let report = fixture.sample().totals();
        let second = documents.format(process, &report).unwrap();
        assert!(second.len() < line.len() - 500, "{second}");
        let value: serde_json::Value = serde_json::from_str(&second).unwrap();
        let unchanged = ["reasons", "settings", "rules", "closed_sockets", "notes"];
        assert_eq!(value["unchanged"], serde_json::json!(unchanged));
        assert!(value.get("reasons").is_none() && value.get("events").is_some());
        let (_, read) = parse(&second, Some(&first.statistics)).unwrap();
        assert_eq!(read.statistics, report.values);
        assert!(parse(&second, None).is_err());
    }

    #[test]
    fn reasons_are_there_in_words() {
        let fixture = Fixture::new();
        let segment = &fixture.segment;
        segment.reason_names(&["offloaded", "SO_REUSEPORT is set", "TCP is the kernel's"]);
        let slow = segment.claim_socket();
        slow.fd.set(5);
        slow.set_not_offloaded(1, 0);
        slow.rx_os_reasons.count(1);
        let fast = segment.claim_socket();
        fast.fd.set(6);
        fast.set_offloaded();
        let listed = segment.claim_kernel_socket();
        listed.fd.set(7);
        listed.reason.set(2);
        let report = fixture.sample().totals();
        let line = format(fixture.reader.process(), &report, None).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["sockets"][0]["why"], "SO_REUSEPORT is set");
        assert_eq!(value["sockets"][0]["rx_os_why"]["SO_REUSEPORT is set"], 1);
        assert!(value["sockets"][1].get("why").is_none());
        assert_eq!(value["kernel_sockets"][0]["why"], "TCP is the kernel's");
    }

    #[test]
    fn document_of_deltas_tells_the_interval() {
        let fixture = Fixture::new();
        let socket = fixture.segment.claim_socket();
        socket.fd.set(5);
        let earlier = fixture.sample();
        socket.rx_packets.add(10);
        let report = fixture
            .sample()
            .deltas(&earlier)
            .over(Duration::from_millis(2500));
        let line = format(fixture.reader.process(), &report, None).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (value["details"].as_str(), value["interval_sec"].as_f64()),
            (Some("deltas"), Some(2.5))
        );
        assert_eq!(
            value["sockets"][0]["rx_packets"], 10,
            "the whole change, not a rate"
        );
    }

    /// Whatever the tables declare, JSON shows.
    #[test]
    fn document_has_every_field_of_every_section() {
        let statistics = Statistics {
            sockets: vec![Default::default()],
            rings: vec![Default::default()],
            pools: vec![Default::default()],
            reasons: vec![Default::default()],
            settings: vec![Default::default()],
            rules: vec![Default::default()],
            closed_sockets: vec![Default::default()],
            kernel_sockets: vec![Default::default()],
            notes: vec![Default::default()],
            tcp_connections: vec![Default::default()],
            multiplexers: vec![Default::default()],
            queues: vec![Default::default()],
            groups: vec![Default::default()],
            events: vec![Default::default()],
        };
        let document = serde_json::to_value(&statistics).unwrap();
        for section in SECTIONS {
            for field in section.fields {
                let shown = document[section.name][0].get(field.name);
                assert!(
                    shown.is_some(),
                    "{}.{} is not shown",
                    section.name,
                    field.name
                );
            }
        }
    }
}
