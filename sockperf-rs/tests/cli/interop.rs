//! The original on either side. Skipped where it is not installed.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use testkit::panic_unless_paused;

use crate::harness::{
    Server, at_the_same_time, has_original, number_after, original, ours, output, plain, stderr,
    stdout,
};

#[test]
fn our_ping_pong_with_the_original_server() {
    panic_unless_paused(|| {
        if !has_original() {
            return;
        }
        let variants = [
            "",
            "-m 1472 --data-integrity",
            "-b 5 -m 200 -r 100",
            "--nonblocked",
        ];
        at_the_same_time(variants, |arguments| {
            let server = Server::original("");
            let output = output(ours(&format!(
                "pp -i 127.0.0.1 -p {} -t 1 --json - {arguments}",
                server.port
            )));
            assert_eq!(
                output.status.code(),
                Some(0),
                "{arguments}: {}",
                stderr(&output)
            );
            let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
            let total = &json["result"]["total"];
            let sent = total["sent_messages"].as_u64().unwrap();
            assert!(sent > 100, "{json}");
            let received = total["received_messages"].as_u64().unwrap();
            let dropped = json["result"]["valid"]["dropped"].as_u64().unwrap();
            assert!(
                received >= sent - dropped - 5,
                "{arguments}: {received} of {sent}"
            );
            for key in ["duplicated", "unexpected", "malformed"] {
                assert_eq!(json["result"]["replies"][key], 0, "{key}");
            }
            let (_, text) = server.end(Signal::INT);
            assert_eq!(
                number_after(&text, "sockperf: Total "),
                sent as f64,
                "{text}"
            );
        });
    });
}

#[test]
fn original_ping_pong_with_our_server() {
    panic_unless_paused(|| {
        if !has_original() {
            return;
        }
        let variants = [
            "",
            "-m 1472 --data-integrity",
            "-b 5 -m 200",
            "--nonblocked",
        ];
        at_the_same_time(variants, |arguments| {
            let server = Server::ours("");
            let command = original(&format!(
                "pp -i 127.0.0.1 -p {} -t 1 {arguments}",
                server.port
            ));
            let text = plain(&stdout(&output(command)));
            assert!(
                text.contains("# dropped messages = 0; # duplicated messages = 0; "),
                "{text}"
            );
            assert!(text.contains("sockperf: Summary: "), "{text}");
            let sent = number_after(&text, "SentMessages=");
            let (code, text) = server.end(Signal::INT);
            assert_eq!(code, Some(0));
            assert_eq!(number_after(&text, "sockperf: Total "), sent, "{text}");
            assert!(!text.contains("malformed"), "{text}");
        });
    });
}

/// What a client of `throughput` has sent, the server has received, in order.
fn everything_arrives(server: Server, client: fn(&str) -> Command) {
    let command = client(&format!(
        "tp -i 127.0.0.1 -p {} -t 1 --mps 2000 -m 300",
        server.port
    ));
    let sent = number_after(&stdout(&output(command)), "sockperf: Total of ");
    let (_, text) = server.end(Signal::INT);
    assert_eq!(number_after(&text, "sockperf: Total "), sent, "{text}");
    assert!(text.contains("Summary: Total Dropped/OOO: 0\n"), "{text}");
}

#[test]
fn our_throughput_with_the_original_server() {
    panic_unless_paused(|| {
        if !has_original() {
            return;
        }
        everything_arrives(Server::original("-g"), ours);
    });
}

#[test]
fn original_throughput_with_our_server() {
    panic_unless_paused(|| {
        if !has_original() {
            return;
        }
        everything_arrives(Server::ours("-g"), original);
    });
}

/// Lines with the same words in the same order, whatever the numbers.
#[test]
fn our_report_has_the_shape_of_the_original() {
    panic_unless_paused(|| {
        if !has_original() {
            return;
        }
        let shape = |text: &str| -> Vec<String> {
            text.lines()
                .map(|line| {
                    // 3.7 lacks the further statistics of later versions and has another version name.
                    let line = line
                        .split_once(", mean-ad=")
                        .map_or(line, |(start, _)| start);
                    let line = line
                        .split_once("== version")
                        .map_or(line, |(start, _)| start);
                    let line = line.trim_end_matches(')');
                    let mut words = String::new();
                    for character in line.chars().filter(|c| !matches!(c, '.' | ' ')) {
                        let character = if character.is_ascii_digit() {
                            '0'
                        } else {
                            character
                        };
                        if !(character == '0' && words.ends_with('0')) {
                            words.push(character);
                        }
                    }
                    words
                })
                .collect()
        };
        let variants = [
            ("pp", "-t 1"),
            ("pp", "-t 1 -b 3 --full-rtt"),
            ("tp", "-t 1 -m 4000"),
        ];
        at_the_same_time(variants, |(mode, arguments)| {
            let server = Server::ours("");
            let line = format!("{mode} -i 127.0.0.1 -p {} {arguments}", server.port);
            let theirs = plain(&stdout(&output(original(&line))));
            let mine = stdout(&output(ours(&line)));
            assert_eq!(shape(&mine), shape(&theirs), "{line}\n{mine}\n{theirs}");
        });
    });
}
