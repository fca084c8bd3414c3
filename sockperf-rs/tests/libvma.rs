//! Under libvma: the report says what was offloaded, and warns when it was not.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Finished, Namespace, Namespaces, Pair, Running, libvma_path, or_skip, preloaded};

const SOON: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_sockperf-rs");

/// Both ends on a pair of namespaces, each with the library and these rules. Returns the output of
/// the server and of the client, and the client's document.
fn ping_pong(pair: &Pair, name: &str, rules: Option<&Path>) -> ([Finished; 2], Value) {
    ping_pong_with(pair, name, rules, "")
}

/// The same with further options of both ends.
fn ping_pong_with(
    pair: &Pair,
    name: &str,
    rules: Option<&Path>,
    options: &str,
) -> ([Finished; 2], Value) {
    let target = format!("-i {} -p 7811 {options}", Pair::ADDRESS_A);
    let mut server = start(&pair.a, &format!("sr {target}"), rules);
    let is_ready = server.wait_for_output("to block on socket(s)", SOON);
    assert!(is_ready, "{}", server.stderr());
    let json = scratch(&format!("{name}.json"));
    let line = format!("pp {target} -t 2 --json {}", json.display());
    let client = start(&pair.b, &line, rules).wait(SOON).unwrap();
    let server = server.stop(Signal::INT.as_raw(), SOON).unwrap();
    let text = fs::read_to_string(&json).unwrap_or_else(|_| panic!("{client:?}"));
    fs::remove_file(&json).unwrap();
    ([server, client], serde_json::from_str(&text).unwrap())
}

fn start(namespace: &Namespace, line: &str, rules: Option<&Path>) -> Running {
    let mut command = preloaded(namespace, Path::new(PROGRAM)).unwrap();
    command.args(line.split_whitespace()).env_remove("SEED");
    if let Some(rules) = rules {
        command.env("VMA_CONFIG_FILE", rules);
    }
    Running::start(command).unwrap()
}

/// The number behind `label` in the line about libvma.
#[track_caller]
fn number(text: &str, label: &str) -> u64 {
    let line = text
        .lines()
        .find(|line| line.starts_with("sockperf: libvma "));
    let rest = line.and_then(|line| line.split_once(label));
    let number = rest.and_then(|(_, rest)| rest.split([';', '\n']).next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no {label:?} in:\n{text}"))
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

const WARNING: &str = "WARNING: libvma is loaded, but ";

#[test]
fn offloaded_messages_are_counted_without_a_warning() {
    let pair = or_skip!(Namespaces::pair());
    libvma_path().unwrap();
    let (ends, json) = ping_pong(&pair, "offloaded", None);
    for end in ends {
        let context = format!("{}\n{}", end.stdout, end.stderr);
        assert_eq!(end.status.code(), Some(0), "{context}");
        let [received, sent] = ["Rx offloaded=", "Tx offloaded="].map(|it| number(&end.stdout, it));
        let [received_os, sent_os] = ["Rx OS=", "Tx OS="].map(|it| number(&end.stdout, it));
        assert!(received > 1000 && sent > 1000, "{context}");
        assert!(
            received_os + sent_os <= (received + sent) / 100,
            "{context}"
        );
        assert!(end.stdout.contains("sockperf: libvma ring "), "{context}");
        assert!(!end.stderr.contains(WARNING), "{context}");
    }
    let total = json["result"]["total"]["received_messages"]
        .as_u64()
        .unwrap();
    let offload = &json["libvma"];
    assert!(
        offload["rx_packets"].as_u64().unwrap() + 100 >= total,
        "{json}"
    );
    assert!(
        offload["rings"][0]["tx_packets"].as_u64().unwrap() + 100 >= total,
        "{json}"
    );
}

#[test]
fn messages_are_received_where_the_library_has_them() {
    let pair = or_skip!(Namespaces::pair());
    libvma_path().unwrap();
    for options in ["--zcopyread -m 500", "--zcopyread --tcp -m 500"] {
        let (ends, _) = ping_pong_with(&pair, "zero_copy", None, options);
        for end in ends {
            let context = format!("{options}: {}\n{}", end.stdout, end.stderr);
            assert_eq!(end.status.code(), Some(0), "{context}");
            assert!(number(&end.stdout, "Rx offloaded=") > 1000, "{context}");
            assert!(!end.stderr.contains("ERROR"), "{context}");
        }
    }
    // What the kernel has is copied.
    let target = "-i 127.0.0.1 -p 7812 --zcopyread";
    let mut server = start(&pair.a, &format!("sr {target}"), None);
    assert!(server.wait_for_output("to block on socket(s)", SOON));
    let client = start(&pair.a, &format!("pp {target} -t 1 --data-integrity"), None)
        .wait(SOON)
        .unwrap();
    drop(server);
    assert_eq!(client.status.code(), Some(0), "{}", client.stderr);
}

#[test]
fn messages_are_answered_where_the_library_shows_them() {
    let pair = or_skip!(Namespaces::pair());
    libvma_path().unwrap();
    let (feed, json) = (scratch("filters.feed"), scratch("filters.json"));
    let begin = |namespace: &Namespace, line: &str| {
        let mut command = preloaded(namespace, Path::new(PROGRAM)).unwrap();
        command.args(line.split_whitespace()).env_remove("SEED");
        Running::start(command).unwrap()
    };
    for (kind, multiplexer) in [("U", "r"), ("T", "r"), ("U", "e"), ("T", "e"), ("U", "p")] {
        let addresses = [7817, 7818].map(|port| format!("{kind}:{}:{port}\n", Pair::ADDRESS_A));
        fs::write(&feed, addresses.concat()).unwrap();
        let line = format!(
            "sr -f {} -F {multiplexer} --rxfiltercb --json {}",
            feed.display(),
            json.display()
        );
        let mut server = begin(&pair.a, &line);
        let is_ready = server.wait_for_output("to block on socket(s)", SOON);
        assert!(is_ready, "{}", server.stderr());
        let line = format!("pp -f {} -F e -t 2 -m 300 --data-integrity", feed.display());
        let client = begin(&pair.b, &line).wait(SOON).unwrap();
        let server = server.stop(Signal::INT.as_raw(), SOON).unwrap();
        for end in [client, server] {
            let context = format!("{line}: {}\n{}", end.stdout, end.stderr);
            assert_eq!(end.status.code(), Some(0), "{context}");
            assert!(number(&end.stdout, "Rx offloaded=") > 50, "{context}");
        }
        let told: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let count = |name: &str| told["result"][name].as_u64().unwrap_or(0);
        let (all, in_callback) = (count("handled"), count("handled_in_callback"));
        // What came before the socket was past the kernel is received.
        assert!(
            in_callback > 50 && in_callback + 100 >= all,
            "{line}: {told}"
        );
    }
    fs::remove_file(&feed).unwrap();
    fs::remove_file(&json).unwrap();
    // What the kernel has is received.
    let target = "-i 127.0.0.1 -p 7819";
    let mut server = start(&pair.a, &format!("sr {target} --rxfiltercb"), None);
    assert!(server.wait_for_output("to block on socket(s)", SOON));
    let client = start(&pair.a, &format!("pp {target} -t 1"), None)
        .wait(SOON)
        .unwrap();
    drop(server);
    assert_eq!(client.status.code(), Some(0), "{}", client.stderr);
}

#[test]
fn messages_are_taken_by_rings() {
    let pair = or_skip!(Namespaces::pair());
    let feed = scratch("rings.feed");
    let begin = |namespace: &Namespace, line: &str, is_xtreme: &str| {
        let mut command = preloaded(namespace, Path::new(PROGRAM)).unwrap();
        command.args(line.split_whitespace()).env_remove("SEED");
        command.env("VMA_SOCKETXTREME", is_xtreme);
        Running::start(command).unwrap()
    };
    let target = format!("-f {} -F x", feed.display());
    for kind in ["U", "T"] {
        let addresses = [7814, 7815].map(|port| format!("{kind}:{}:{port}\n", Pair::ADDRESS_A));
        fs::write(&feed, addresses.concat()).unwrap();
        let mut server = begin(&pair.a, &format!("sr {target}"), "1");
        let is_ready = server.wait_for_output("using socketxtreme()", SOON);
        assert!(is_ready, "{}", server.stderr());
        let line = format!("pp {target} -t 2 -m 300 --client_ip {}", Pair::ADDRESS_B);
        let client = begin(&pair.b, &line, "1").wait(SOON).unwrap();
        let server = server.stop(Signal::INT.as_raw(), SOON).unwrap();
        for end in [client, server] {
            let context = format!("{kind}: {}\n{}", end.stdout, end.stderr);
            assert_eq!(end.status.code(), Some(0), "{context}");
            // Both ends poll, and others may have a CPU.
            assert!(number(&end.stdout, "Rx offloaded=") > 50, "{context}");
        }
    }
    // A socket has no ring, or the library was not told that packets are taken by rings.
    for (address, is_xtreme, message) in [
        (std::net::Ipv4Addr::LOCALHOST, "1", "has no ring"),
        (Pair::ADDRESS_A, "0", "needs VMA_SOCKETXTREME=1"),
    ] {
        fs::write(&feed, format!("U:{address}:7816\n")).unwrap();
        let server = begin(&pair.a, &format!("sr {target}"), is_xtreme);
        let server = server.wait(SOON).unwrap();
        assert_eq!(
            server.status.code(),
            Some(1),
            "{address}: {}",
            server.stdout
        );
        assert!(
            server.stderr.contains(message),
            "{address}: {}",
            server.stderr
        );
    }
    fs::remove_file(&feed).unwrap();
}

#[test]
fn the_library_is_loaded_without_being_preloaded() {
    let pair = or_skip!(Namespaces::pair());
    let library = libvma_path().unwrap();
    let target = format!(
        "-i {} -p 7813 --load-vma={}",
        Pair::ADDRESS_A,
        library.display()
    );
    let begin = |namespace: &Namespace, line: &str| {
        let mut command = namespace.command(PROGRAM);
        command.args(line.split_whitespace()).env_remove("SEED");
        Running::start(command).unwrap()
    };
    let mut server = begin(&pair.a, &format!("sr {target}"));
    let is_ready = server.wait_for_output("to block on socket(s)", SOON);
    assert!(is_ready, "{}", server.stderr());
    let client = begin(&pair.b, &format!("pp {target} -t 2"));
    let client = client.wait(SOON).unwrap();
    let server = server.stop(Signal::INT.as_raw(), SOON).unwrap();
    for end in [client, server] {
        let context = format!("{}\n{}", end.stdout, end.stderr);
        assert_eq!(end.status.code(), Some(0), "{context}");
        assert!(number(&end.stdout, "Rx offloaded=") > 1000, "{context}");
    }
}

#[test]
fn messages_that_a_rule_leaves_to_the_kernel_are_warned_of() {
    let pair = or_skip!(Namespaces::pair());
    let rules = scratch("left.conf");
    fs::write(
        &rules,
        "application-id * *\nuse os udp_receiver *:*\nuse os udp_sender *:*\n",
    )
    .unwrap();
    let (ends, json) = ping_pong(&pair, "left", Some(&rules));
    fs::remove_file(&rules).unwrap();
    for end in ends {
        let context = format!("{}\n{}", end.stdout, end.stderr);
        assert_eq!(end.status.code(), Some(0), "{context}");
        assert_eq!(number(&end.stdout, "Rx offloaded="), 0, "{context}");
        assert!(end.stderr.contains(WARNING), "{context}");
        assert!(
            end.stderr.contains("messages went through the kernel ("),
            "{context}"
        );
    }
    let reasons = json["libvma"]["reasons"].to_string();
    assert!(
        reasons.contains("libvma.conf") || reasons.contains("rule"),
        "{reasons}"
    );
}

#[test]
fn a_transport_that_is_not_accelerated_is_warned_of() {
    let pair = or_skip!(Namespaces::pair());
    let target = "-i 127.0.0.1 -p 7811";
    let mut server = start(&pair.a, &format!("sr {target}"), None);
    assert!(
        server.wait_for_output("to block on socket(s)", SOON),
        "{}",
        server.stderr()
    );
    let client = start(&pair.a, &format!("pp {target} -t 1"), None)
        .wait(SOON)
        .unwrap();
    drop(server);
    let context = format!("{}\n{}", client.stdout, client.stderr);
    assert_eq!(client.status.code(), Some(0), "{context}");
    assert!(client.stderr.contains(WARNING), "{context}");
}

/// A client with the library sends to a server on the kernel. Returns what both say.
fn send_to_server(pair: &Pair, line: &str) -> [Finished; 2] {
    let target = format!("-i {} -p 7811", Pair::ADDRESS_A);
    let mut command = pair.a.command(PROGRAM);
    command.args(format!("sr {target}").split_whitespace());
    let mut server = Running::start(command).unwrap();
    let is_ready = server.wait_for_output("to block on socket(s)", SOON);
    assert!(is_ready, "{}", server.stderr());
    let client = start(&pair.b, &format!("{line} {target}"), None);
    let client = client.wait(SOON).unwrap();
    let server = server.stop(Signal::INT.as_raw(), SOON).unwrap();
    assert_eq!(client.status.code(), Some(0), "{client:?}");
    [server, client]
}

#[test]
fn a_rate_limit_bounds_what_leaves() {
    let pair = or_skip!(Namespaces::pair());
    // 825 frames a second, and a send buffer of them in the beginning.
    let [server, client] = send_to_server(&pair, "tp -t 2 -m 1472 --rate-limit 1250000");
    let received = number_behind(&server.stdout, "Total ");
    assert!((1500..2000).contains(&received), "{server:?} {client:?}");
}

#[test]
fn dummy_sends_send_nothing() {
    let pair = or_skip!(Namespaces::pair());
    let [server, client] = send_to_server(&pair, "ul -t 1 --mps 1000 --dummy-send=50000");
    let received = number_behind(&server.stdout, "Total ");
    assert!((900..2500).contains(&received), "{server:?} {client:?}");
    let line = format!("pp -i {} -p 7811 --mps 10 --dummy-send", Pair::ADDRESS_A);
    let mut command = pair.b.command(PROGRAM);
    command.args(line.split_whitespace());
    let refused = Running::start(command).unwrap().wait(SOON).unwrap();
    assert!(
        refused.stderr.contains("--dummy-send needs libvma"),
        "{refused:?}"
    );
}

/// The first number behind `label`.
#[track_caller]
fn number_behind(text: &str, label: &str) -> u64 {
    let rest = text.split_once(label).map(|(_, rest)| rest);
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no {label:?} in:\n{text}"))
}
