//! What Prometheus reads.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Stdio};

use super::*;
use crate::sample::tests::Fixture;

/// A series for each socket, and sums.
fn metrics() -> [String; 2] {
    let fixture = Fixture::new();
    let socket = fixture.segment.claim_socket();
    socket.fd.set(5);
    socket.local.set("10.0.0.1:80".parse().unwrap());
    socket.rx_packets.add(7);
    socket.rx_queue_packets.set(2);
    socket.rx_os_reasons.count(18);
    socket.tx_os_reasons.count(18);
    socket.rx_latency.record(1000);
    let ring = fixture.segment.claim_ring();
    ring.ifname.set("eth\"0");
    let connection = fixture.segment.claim_tcp_connection();
    connection.fd.set(9);
    connection.srtt_usec.set(1500);
    let _pool = fixture.segment.claim_pool();
    let _queue = fixture.segment.claim_queue();
    let sample = fixture.sample();
    let processes = [(fixture.reader.process().clone(), sample.statistics)];
    [format(&processes), Totals::default().look(&processes)]
}

#[test]
fn metrics_have_values_labels_and_base_units() {
    let [text, _] = metrics();
    let pid = std::process::id();
    for line in [
        format!(
            "vma_socket_rx_packets_total{{pid=\"{pid}\",program=\"feed\",fd=\"5\",local=\"10.0.0.1:80\",peer=\"\"}} 7\n"
        ),
        "# TYPE vma_socket_rx_packets_total counter\n".to_owned(),
        "# TYPE vma_socket_rx_queue_packets gauge\n".to_owned(),
        "# TYPE vma_socket_rx_latency_seconds histogram\n".to_owned(),
        ",le=\"0.000001024\"} 1\n".to_owned(),
        ",why=\"reason 18\"} 1\n".to_owned(),
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
    metrics().iter().for_each(|text| assert_well_formed(text));
}

fn assert_well_formed(text: &str) {
    let (mut families, mut seen, mut current) = (BTreeSet::new(), BTreeSet::new(), String::new());
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
    metrics().iter().for_each(|text| ask_promtool(text));
}

fn ask_promtool(text: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
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
        answer(served, &mut || "vma_x 1\n".to_owned()).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    };
    let text = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nvma_x 1\n"));
    assert!(ask("GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
}

/// The sums of a process that goes on.
struct Watched {
    fixture: Fixture,
    totals: Totals,
}

impl Watched {
    fn look(&mut self) -> String {
        let process = self.fixture.reader.process().clone();
        self.totals
            .look(&[(process, self.fixture.sample().statistics)])
    }
}

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(
        text.lines().any(|it| it == line),
        "{line} is not in\n{text}"
    );
}

#[test]
fn sums_are_by_program_protocol_state_and_reason() {
    let mut watched = Watched {
        fixture: Fixture::new(),
        totals: Totals::default(),
    };
    let sockets = [(true, 3, 1), (true, 4, 2), (false, 5, 4)].map(|(offloaded, fd, packets)| {
        let socket = watched.fixture.segment.claim_socket();
        socket.fd.set(fd);
        socket.protocol.set(stats::PROTOCOL_UDP);
        socket.offloaded.set(offloaded);
        socket.reason.set(if offloaded { 0 } else { 18 });
        socket.rx_packets.add(packets);
        socket.rx_queue_packets.set(packets);
        socket.rx_queue_packets_max.raise_to(packets);
        socket
    });
    let text = watched.look();
    let offloaded = "program=\"feed\",protocol=\"udp\",state=\"offloaded\",reason=\"\"";
    let kernel = "program=\"feed\",protocol=\"udp\",state=\"kernel\",reason=\"reason 18\"";
    assert_line(&text, &format!("vma_sockets{{{offloaded}}} 2"));
    assert_line(&text, &format!("vma_sockets{{{kernel}}} 1"));
    assert_line(
        &text,
        &format!("vma_socket_rx_packets_total{{{offloaded}}} 3"),
    );
    assert_line(&text, &format!("vma_socket_rx_packets_total{{{kernel}}} 4"));
    assert_line(
        &text,
        &format!("vma_socket_rx_queue_packets{{{offloaded}}} 3"),
    );
    assert_line(
        &text,
        &format!("vma_socket_rx_queue_packets_max{{{offloaded}}} 2"),
    );
    assert!(!text.contains("fd=") && !text.contains("pid="), "{text}");
    drop(sockets);
}

#[test]
fn sums_go_on_when_sockets_close_and_counters_begin_anew() {
    let mut watched = Watched {
        fixture: Fixture::new(),
        totals: Totals::default(),
    };
    let open = |watched: &Watched, inode| {
        let socket = watched.fixture.segment.claim_socket();
        socket.fd.set(3);
        socket.inode.set(inode);
        socket.protocol.set(stats::PROTOCOL_UDP);
        socket.offloaded.set(true);
        socket
    };
    let line = |packets: u32| {
        format!(
            "vma_socket_rx_packets_total{{program=\"feed\",protocol=\"udp\",state=\"offloaded\",reason=\"\"}} {packets}"
        )
    };
    let socket = open(&watched, 77);
    socket.rx_packets.add(10);
    assert_line(&watched.look(), &line(10));
    assert_line(&watched.look(), &line(10));
    // What comes between the last look and the end counts, once.
    socket.rx_packets.add(5);
    watched.fixture.segment.remember_closed(&socket);
    drop(socket);
    assert_line(&watched.look(), &line(15));
    assert_line(&watched.look(), &line(15));
    // One that no look has seen.
    let socket = open(&watched, 78);
    socket.rx_packets.add(3);
    watched.fixture.segment.remember_closed(&socket);
    drop(socket);
    assert_line(&watched.look(), &line(18));
    let socket = open(&watched, 79);
    socket.rx_packets.add(4);
    assert_line(&watched.look(), &line(22));
    watched.fixture.segment.zero();
    socket.rx_packets.add(1);
    assert_line(&watched.look(), &line(23));
    // The process has ended.
    assert_line(&watched.totals.look(&[]), &line(23));
}

fn broker() -> BrokerStatus {
    BrokerStatus {
        interfaces: vec![stats::BrokerInterface {
            name: "eth1".to_owned(),
            namespace: 4,
            clients: [3, 4]
                .map(|ports_held| stats::BrokerClient {
                    program: "feed".to_owned(),
                    ports_held,
                    ..Default::default()
                })
                .to_vec(),
            ..Default::default()
        }],
        refusals: 9,
        ..BrokerStatus::default()
    }
}

#[test]
fn the_broker_is_told_of_by_program() {
    let mut text = String::new();
    broker::push(&mut text, &broker());
    let labels = "ifname=\"eth1\",namespace=\"4\",program=\"feed\",user=\"0\"";
    assert_line(&text, &format!("vma_broker_clients{{{labels}}} 2"));
    assert_line(&text, &format!("vma_broker_ports{{{labels}}} 7"));
    assert_line(&text, "vma_broker_refused_total{version=\"\"} 9");
    assert_well_formed(&text);
}

/// Each expression of the dashboard is about metrics that there are, by labels that they have.
#[test]
fn the_dashboard_names_what_there_is() {
    let dashboard = include_str!("../../../packaging/grafana/vma.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let [_, mut text] = metrics();
    broker::push(&mut text, &broker());
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let mut count = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let words = expression.split(|it| !is_part(it));
            for word in words.filter(|it| it.starts_with("vma_")) {
                count += 1;
                let opening = format!("\n{word}{{");
                assert!(
                    text.contains(&opening),
                    "{word} of {} is no metric",
                    panel["title"]
                );
            }
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                assert!(text.contains(&format!("{label}=\"")), "{label} is no label");
                assert!(expression.contains(label), "{legend}: {expression}");
            }
        }
    }
    assert!(count > 20, "{count}");
}
