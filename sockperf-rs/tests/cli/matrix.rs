//! {ours, the original} x {client, server} x {ping-pong, under-load, throughput, playback} x {UDP,
//! TCP, multicast}: the client has its result, and the server has received what was sent.

use std::fmt::Write;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use testkit::panic_unless_paused;

use crate::harness::{
    Server, at_the_same_time, free_port, has_original, number_after, original, ours, output, plain,
    stderr, stdout,
};

type Program = fn(&str) -> Command;

struct Transport {
    /// Options of both ends.
    options: &'static str,
    host: &'static str,
}

const UDP: Transport = Transport {
    options: "",
    host: "127.0.0.1",
};
const TCP: Transport = Transport {
    options: "--tcp",
    host: "127.0.0.1",
};
const MULTICAST: Transport = Transport {
    options: "--mc-rx-if 127.0.0.1 --mc-tx-if 127.0.0.1 --mc-loopback-enable",
    host: "224.77.88.99",
};

fn time_line(directory: &tempfile::TempDir) -> String {
    let path = directory.path().join("time_line.csv");
    let mut text = String::from("# 100 messages in half a second\n");
    for index in 1..=100 {
        writeln!(text, "{:.3}, {}", f64::from(index) * 0.005, 14 + index * 10).unwrap();
    }
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn both_ends_agree(transport: &Transport, server: Program, client: Program, names: &str) {
    let directory = tempfile::tempdir().unwrap();
    let data = time_line(&directory);
    let Transport { options, host } = transport;
    let modes = [
        // On a busy machine a reply may take long.
        ("pp", "-t 1 --mps 100 -m 64 --timeout 5000".to_owned(), 30.0),
        ("ul", "-t 1 --mps 500 --reply-every 10".to_owned(), 25.0),
        ("tp", "-t 1 --mps 500 -m 200".to_owned(), 0.0),
        ("pb", format!("--data-file {data} --reply-every 5"), 20.0),
    ];
    at_the_same_time(modes, |(mode, arguments, replies_min)| {
        let port = free_port();
        let server = Server::start(server(&format!("sr -i {host} -p {port} {options}")));
        let line = format!("{mode} -i {host} -p {port} {options} {arguments}");
        let output = output(client(&line));
        let text = plain(&stdout(&output));
        let context = format!("{names} {line}:\n{text}\n{}", stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{context}");
        // The server is still at the last messages.
        thread::sleep(Duration::from_millis(200));
        let (code, server_text) = server.end(Signal::INT);
        assert_eq!(code, Some(0), "{context}\n{server_text}");
        let sent = if mode == "tp" {
            number_after(&text, "sockperf: Total of ")
        } else {
            assert!(text.contains("# dropped messages = 0;"), "{context}");
            let replies = number_after(&text, "ReceivedMessages=");
            assert!(replies >= replies_min, "{context}");
            number_after(&text, "SentMessages=")
        };
        assert!(sent >= replies_min.max(30.0), "{context}");
        let handled = number_after(&server_text, "sockperf: Total ");
        assert_eq!(handled, sent, "{context}\n{server_text}");
    });
}

fn all_pairs(transport: &Transport) {
    let mut pairs: Vec<(Program, Program, &str)> = vec![(ours, ours, "our server, our client:")];
    if has_original() {
        pairs.push((ours, original, "our server, original client:"));
        pairs.push((original, ours, "original server, our client:"));
    }
    panic_unless_paused(|| {
        at_the_same_time(&pairs, |(server, client, names)| {
            both_ends_agree(transport, *server, *client, names);
        });
    });
}

#[test]
fn udp() {
    all_pairs(&UDP);
}

#[test]
fn tcp() {
    all_pairs(&TCP);
}

#[test]
fn multicast() {
    all_pairs(&MULTICAST);
}
