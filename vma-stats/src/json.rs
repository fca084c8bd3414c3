//! `--json`: one document per report. `record` writes the same, and `replay` reads it.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use stats::{ProcessInfo, Statistics};

use crate::sample::{Report, Sample};

/// The report as one line. With differences, counters hold the whole change during `interval_sec`,
/// so that no digit is lost; a reader divides if it wants a rate.
pub(crate) fn format(process: &ProcessInfo, report: &Report) -> Result<String, serde_json::Error> {
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
        statistics: &report.values,
        overflowed_sockets: report.overflowed_sockets,
    };
    serde_json::to_string(&document).map(|line| line + "\n")
}

/// Reads back what [`format()`] has written of totals.
pub(crate) fn parse(line: &str) -> Result<(ProcessInfo, Sample), String> {
    let recorded: Recorded = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if recorded.details != "totals" {
        return Err("differences were recorded (-d 2), replay needs totals".to_owned());
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

#[derive(Serialize)]
struct Document<'a> {
    time_unix_sec: f64,
    process: &'a ProcessInfo,
    details: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_sec: Option<f64>,
    #[serde(flatten)]
    statistics: &'a Statistics,
    /// Sockets since the start of the process that found no room in the segment.
    overflowed_sockets: u64,
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
        let line = format(process, &report).unwrap();
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
        for section in stats::SECTIONS {
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
        let (process_read, sample) = parse(&line).unwrap();
        assert_eq!(process_read, *process);
        assert_eq!(
            sample.statistics, report.values,
            "what was recorded is read back"
        );
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
        let line = format(fixture.reader.process(), &report).unwrap();
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
        for section in stats::SECTIONS {
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
