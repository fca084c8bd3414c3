//! `--prometheus`: the text format of Prometheus, once or over HTTP on a local address.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use stats::{FieldInfo, FieldKind, ProcessInfo, SectionInfo, Statistics, Value};

use crate::message::tell;

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
    push_family(
        &mut text,
        "vma_process_info",
        "gauge",
        "processes that publish statistics",
    );
    for (process, _) in processes {
        let labels = labels_of(process, &[("version", process.library_version.clone())]);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "vma_process_info{{{labels}}} 1");
    }
    let rows: Vec<_> = processes
        .iter()
        .map(|(process, statistics)| (process, statistics.rows()))
        .collect();
    for (name, singular, identity) in LABELS {
        let Some(section) = stats::SECTIONS.iter().find(|section| section.name == name) else {
            continue;
        };
        for (index, field) in section.fields.iter().enumerate() {
            if field.kind == FieldKind::Identity {
                continue;
            }
            let samples = rows.iter().flat_map(|(process, sections)| {
                let rows = sections
                    .iter()
                    .filter(|(other, _)| other.kind == section.kind)
                    .flat_map(|(_, rows)| rows.iter().enumerate());
                rows.map(move |(place, row)| {
                    let labels = labels_of(process, &entry_labels(section, identity, place, row));
                    (labels, row.get(index))
                })
            });
            let samples: Vec<_> = samples
                .filter_map(|(labels, value)| Some((labels, value?.clone())))
                .collect();
            push_field(&mut text, singular, field, &samples);
        }
    }
    text
}

fn push_family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// One field of all entries. Nothing where there is no entry.
fn push_field(text: &mut String, singular: &str, field: &FieldInfo, samples: &[(String, Value)]) {
    if samples.is_empty() {
        return;
    }
    // Prometheus wants base units.
    let (base, scale) = match field.name.strip_suffix("_usec") {
        Some(base) => (format!("vma_{singular}_{base}_seconds"), 1e-6),
        None => (format!("vma_{singular}_{}", field.name), 1.0),
    };
    let is_times = matches!(samples.first(), Some((_, Value::Times(_))));
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
    push_family(text, &name, kind, field.help);
    for (labels, value) in samples {
        match value {
            Value::Times(times) => {
                let (mut count, mut sum) = (0_u64, 0.0);
                for (from, to, found) in times.buckets() {
                    count += found;
                    sum += (from + to) as f64 / 2e9 * found as f64;
                    let bound = to as f64 / 1e9;
                    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
                }
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
                let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
                let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
            }
            Value::Reasons(counts) => {
                for (code, count) in counts.iter() {
                    let _ = writeln!(text, "{name}{{{labels},reason=\"{code}\"}} {count}");
                }
            }
            other => {
                if let Some(number) = other.number() {
                    let _ = writeln!(text, "{name}{{{labels}}} {}", number * scale);
                }
            }
        }
    }
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
    let labels = first.iter().chain(more).map(|(name, value)| {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    labels.collect::<Vec<_>>().join(",")
}

/// How long a client may take for its request, or for taking the answer.
const CLIENT_TIME: Duration = Duration::from_secs(2);
/// Lines of a request that are read.
const REQUEST_LINES_MAX: usize = 64;

/// Answers every scrape with what `metrics` says then. Does not return but for an error.
pub(crate) fn serve(address: SocketAddr, metrics: impl Fn() -> String) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    tell(format_args!(
        "metrics on http://{}/metrics",
        listener.local_addr()?
    ));
    for client in listener.incoming() {
        // A client that goes away, or sends nothing, is no reason to stop.
        let _ = client.and_then(|client| answer(client, &metrics));
    }
    Ok(())
}

fn answer(client: TcpStream, metrics: &impl Fn() -> String) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIME))?;
    client.set_write_timeout(Some(CLIENT_TIME))?;
    let mut lines = BufReader::new(io::Read::take(&client, 16 * 1024)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines.take(REQUEST_LINES_MAX) {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = request.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => ("200 OK", metrics()),
        (Some("GET"), _) => ("404 Not Found", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    write!(
        &client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::sample::tests::Fixture;

    fn metrics() -> String {
        let fixture = Fixture::new();
        let socket = fixture.segment.claim_socket();
        socket.fd.set(5);
        socket.local.set("10.0.0.1:80".parse().unwrap());
        socket.rx_packets.add(7);
        socket.rx_queue_packets.set(2);
        socket.rx_os_reasons.count(18);
        socket.rx_latency.record(1000);
        let ring = fixture.segment.claim_ring();
        ring.ifname.set("eth\"0");
        let connection = fixture.segment.claim_tcp_connection();
        connection.fd.set(9);
        connection.srtt_usec.set(1500);
        let sample = fixture.sample();
        format(&[(fixture.reader.process().clone(), sample.statistics)])
    }

    #[test]
    fn metrics_have_values_labels_and_base_units() {
        let text = metrics();
        let pid = std::process::id();
        for line in [
            format!(
                "vma_socket_rx_packets_total{{pid=\"{pid}\",program=\"feed\",fd=\"5\",local=\"10.0.0.1:80\",peer=\"\"}} 7\n"
            ),
            "# TYPE vma_socket_rx_packets_total counter\n".to_owned(),
            "# TYPE vma_socket_rx_queue_packets gauge\n".to_owned(),
            "# TYPE vma_socket_rx_latency_seconds histogram\n".to_owned(),
            ",le=\"0.000001024\"} 1\n".to_owned(),
            ",reason=\"18\"} 1\n".to_owned(),
            ",ifname=\"eth\\\"0\"} 0\n".to_owned(),
            "vma_tcp_connection_srtt_seconds{".to_owned(),
            "} 0.0015\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }

    /// What `promtool check metrics` looks at.
    #[test]
    fn metrics_are_well_formed() {
        let text = metrics();
        let (mut families, mut seen, mut current) =
            (BTreeSet::new(), BTreeSet::new(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                current = rest.split(' ').next().unwrap().to_owned();
                assert!(families.insert(current.clone()), "{current} twice");
                assert!(rest.len() > current.len() + 1, "{current} has no help");
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, current);
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = series.split('{').next().unwrap();
            assert!(name.starts_with(&current), "{line} is not of {current}");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte))
            );
            assert!(seen.insert(series.to_owned()), "{series} twice");
        }
    }

    /// Prometheus's own tool, where it is installed.
    #[test]
    fn promtool_finds_nothing() {
        testkit::or_skip!(testkit::needs::require(&["promtool"]));
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = promtool.stdin.take().unwrap();
        input.write_all(metrics().as_bytes()).unwrap();
        drop(input);
        let output = promtool.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&said)
        );
        assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }

    #[test]
    fn scrapes_are_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ask = |request: &str| {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            let (served, _) = listener.accept().unwrap();
            answer(served, &|| "vma_x 1\n".to_owned()).unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            text
        };
        let text = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nvma_x 1\n"));
        assert!(ask("GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }
}
