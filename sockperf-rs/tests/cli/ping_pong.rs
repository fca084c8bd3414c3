use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use testkit::panic_unless_paused;

use crate::harness::{
    FakeServer, Server, echo, number_after, ours, output, pid, skipped, stderr, stdout,
};

fn pp(port: u16, arguments: &str) -> std::process::Output {
    output(ours(&format!("pp -i 127.0.0.1 -p {port} {arguments}")))
}

/// The JSON document of a run that succeeds.
#[track_caller]
fn json(port: u16, arguments: &str) -> Value {
    let output = pp(port, &format!("{arguments} --json -"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn timed_test_reports_the_window() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let output = pp(server.port, "-t 1");
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        // On a busy machine it says that it is.
        let is_noise = |line: &str| line.contains("WARNING: noisy machine");
        assert!(stderr(&output).lines().all(is_noise), "{}", stderr(&output));
        assert!(
            text.contains("\nsockperf: Warmup stage (sending a few dummy messages)...\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "\nsockperf: Starting test...\nsockperf: Test end (interrupted by timer)\n"
            )
        );
        let total = number_after(&text, "[Total Run] RunTime=");
        assert!((1.0..1.2).contains(&total), "{text}");
        let valid = number_after(&text, "[Valid Duration] RunTime=");
        assert!((0.45..=0.60).contains(&valid), "{text}");
        assert!(!text.contains('\x1b'), "colours in a pipe");
        for line in [
            "<MAX> observation",
            "percentile 99.999",
            "percentile 50.000",
            "<MIN> observation",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(number_after(&text, "percentile 50.000 =") > 0.5, "{text}");
    });
}

#[test]
fn window_is_the_same_with_the_monotonic_clock() {
    panic_unless_paused(|| {
        let server = Server::ours("--no-rdtsc");
        let json = json(server.port, "-t 1 --no-rdtsc");
        assert_eq!(json["clock"]["source"], "monotonic");
        let valid = json["result"]["valid"]["run_time_sec"].as_f64().unwrap();
        assert!((0.45..=0.60).contains(&valid), "{valid}");
    });
}

#[test]
fn paced_test_keeps_its_rate() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let json = json(server.port, "-t 1 --mps 1000 --full-rtt");
        let sent = json["result"]["total"]["sent_messages"].as_u64().unwrap();
        assert!((900..=1001).contains(&sent), "{sent}");
        assert_eq!(json["result"]["quantity"], "rtt");
        assert_eq!(json["result"]["rate_too_high"], false);
    });
}

#[test]
fn packets_test_sends_8000_and_1000_more() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let output = pp(server.port, "-n 5000");
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(text.contains("sockperf: RunTime Estimate="), "{text}");
        assert!(
            text.contains("sockperf: Test end (reached packet number)\n"),
            "{text}"
        );
        assert!(
            text.contains("Warm up packets=8000; SentMessages=14000; "),
            "{text}"
        );
        assert!(text.contains("sec; SentMessages=5000; "), "{text}");
    });
}

#[test]
fn bursts_ranges_and_integrity() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let burst = json(server.port, "-t 1 -b 8 -m 100 -r 50");
        assert_eq!(burst["result"]["end"], "timer");
        assert!(
            burst["result"]["total"]["sent_messages"]
                .as_u64()
                .unwrap()
                .is_multiple_of(8)
        );
        assert_eq!(burst["result"]["replies"]["malformed"], 0);
        let integrity = json(
            server.port,
            "-t 1 -m 1000 -r 900 --data-integrity --nonblocked",
        );
        assert!(
            integrity["result"]["valid"]["received_messages"]
                .as_u64()
                .unwrap()
                > 100
        );
        let (_, text) = server.end(Signal::INT);
        assert!(!text.contains("malformed"), "{text}");
    });
}

#[test]
fn lost_replies_are_counted_and_do_not_stall() {
    panic_unless_paused(|| {
        // Every 20th message gets no reply.
        let server = FakeServer::start(|number, message| {
            if number.is_multiple_of(20) {
                vec![]
            } else {
                vec![echo(message)]
            }
        });
        let json = json(server.port, "-t 2 --timeout 40");
        let valid = &json["result"]["valid"];
        let [sent, received, dropped] = ["sent_messages", "received_messages", "dropped"]
            .map(|key| valid[key].as_u64().unwrap());
        assert!(dropped > 10, "{json}");
        assert_eq!(sent, received + dropped);
        assert!(
            (15..=21).contains(&(sent / dropped)),
            "{sent} sent, {dropped} dropped"
        );
        assert_eq!(json["result"]["replies"]["duplicated"], 0);
        // The loss is not a sample: no round trip took as long as the timeout and the loss together.
        assert!(
            json["result"]["statistics"]["percentiles_usec"]["p50"]
                .as_f64()
                .unwrap()
                < 5000.0
        );
    });
}

#[test]
fn lost_replies_do_not_stall_a_spinning_client() {
    panic_unless_paused(|| {
        let server = FakeServer::start(|number, message| {
            if number.is_multiple_of(2) {
                vec![]
            } else {
                vec![echo(message)]
            }
        });
        let json = json(server.port, "-t 1 --timeout 5 --nonblocked");
        assert!(
            json["result"]["valid"]["dropped"].as_u64().unwrap() > 10,
            "{json}"
        );
    });
}

#[test]
fn duplicates_strays_and_garbage_are_told_apart() {
    panic_unless_paused(|| {
        let server = FakeServer::start(|_, message| {
            let reply = echo(message);
            let mut unexpected = reply.clone();
            unexpected[..8].copy_from_slice(&u64::MAX.to_be_bytes());
            let mut from_a_client = reply.clone();
            from_a_client[9] = 3;
            vec![
                vec![1, 2, 3],
                unexpected,
                from_a_client,
                reply.clone(),
                reply,
            ]
        });
        let json = json(server.port, "-t 1 --mps 500");
        let replies = &json["result"]["replies"];
        let received = replies["received"].as_u64().unwrap();
        assert!(received > 100, "{json}");
        // The duplicate of the last reply may come after the end.
        for (key, least) in [
            ("duplicated", received - 1),
            ("unexpected", received),
            ("malformed", received),
        ] {
            let count = replies[key].as_u64().unwrap();
            assert!((least..=received + 1).contains(&count), "{key}: {replies}");
        }
        assert_eq!(json["result"]["valid"]["dropped"], 0);
        assert_eq!(replies["late"], 0);
    });
}

#[test]
fn late_replies_stay_dropped() {
    panic_unless_paused(|| {
        // The reply to each tenth message comes together with the next one.
        let mut held: Option<Vec<u8>> = None;
        let server = FakeServer::start(move |number, message| {
            if number.is_multiple_of(10) {
                held = Some(echo(message));
                return vec![];
            }
            held.take().into_iter().chain([echo(message)]).collect()
        });
        let json = json(server.port, "-t 1 --timeout 10");
        let late = json["result"]["replies"]["late"].as_u64().unwrap();
        assert!(late > 5, "{json}");
        assert!(json["result"]["valid"]["dropped"].as_u64().unwrap() <= late);
        assert_eq!(json["result"]["replies"]["duplicated"], 0);
    });
}

#[test]
fn overtaking_replies_are_out_of_order() {
    panic_unless_paused(|| {
        // The replies to each pair of messages come in the wrong order.
        let mut held: Option<Vec<u8>> = None;
        let server = FakeServer::start(move |_, message| match held.take() {
            None => {
                held = Some(echo(message));
                vec![]
            }
            Some(first) => vec![echo(message), first],
        });
        let output = pp(server.port, "-t 1 -b 2 --mps 2000");
        let text = stdout(&output);
        let out_of_order = number_after(&text, "# out-of-order messages = ");
        let sent = number_after(
            text.split_once("[Valid Duration]").unwrap().1,
            "SentMessages=",
        );
        assert!(
            out_of_order > 10.0 && (sent - 2.0 * out_of_order).abs() <= 2.0,
            "{text}"
        );
        assert!(
            text.contains("Summary: Latency of burst of 2 messages is "),
            "{text}"
        );
    });
}

#[test]
fn altered_reply_fails_the_integrity_test() {
    panic_unless_paused(|| {
        let server = FakeServer::start(|number, message| {
            let mut reply = echo(message);
            if number == 100 {
                reply[50] ^= 1;
            }
            vec![reply]
        });
        let output = pp(server.port, "-t 5 -m 64 --data-integrity");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("data integrity test failed: the reply to message 100 "));
    });
}

#[test]
fn silent_server_is_named_within_the_time() {
    panic_unless_paused(|| {
        let server = FakeServer::start(|_, _| vec![]);
        for arguments in [
            "-t 1",
            "-t 1 --timeout=-1",
            "-t 1 --timeout 5000",
            "-t 1 --nonblocked",
        ] {
            let start = Instant::now();
            let output = pp(server.port, arguments);
            assert_eq!(output.status.code(), Some(3), "{arguments}");
            assert!(
                stderr(&output)
                    .contains("No messages were received from the server. Is the server")
            );
            assert!(
                start.elapsed() < Duration::from_secs(4),
                "{arguments}: {:?}",
                start.elapsed()
            );
        }
    });
}

#[test]
fn packets_test_gives_up_on_a_server_that_falls_silent() {
    panic_unless_paused(|| {
        let server = FakeServer::start(|number, message| {
            if number > 8500 {
                vec![]
            } else {
                vec![echo(message)]
            }
        });
        let output = pp(server.port, "-n 5000 --timeout 50");
        assert_eq!(output.status.code(), Some(8), "{}", stderr(&output));
        assert!(
            stdout(&output).contains("Test ends uncompleted"),
            "{}",
            stdout(&output)
        );
    });
}

#[test]
fn test_too_short_for_the_window_has_no_result() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let mut child = ours(&format!("pp -i 127.0.0.1 -p {} -t 20", server.port))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Before the clock is calibrated, during the warm-up or in the first 400 ms: nothing counts.
        thread::sleep(Duration::from_millis(450));
        kill_process(pid(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3));
    });
}

#[test]
fn interrupted_test_reports_what_it_has() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let child = ours(&format!("pp -i 127.0.0.1 -p {} -t 50", server.port))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let id = pid(&child);
        thread::sleep(Duration::from_millis(2500));
        kill_process(id, Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = stdout(&output);
        assert!(
            text.contains("sockperf: Test end (interrupted by user)\n"),
            "{text}"
        );
        assert!(text.contains("Summary: Latency is "), "{text}");
    });
}

#[test]
fn full_log_and_histogram_agree_with_the_summary() {
    panic_unless_paused(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.csv");
        let server = Server::ours("");
        let arguments = format!(
            "-t 1 --mps 1000 --histogram 5:0:200 --full-log {}",
            path.display()
        );
        let text = stdout(&pp(server.port, &arguments));
        assert!(text.contains("sockperf: [Histogram] Display"), "{text}");
        let observations = number_after(&text, "sockperf: Total ");
        let count: u32 = format!("{observations:.0}").parse().unwrap();
        let log = std::fs::read_to_string(path).unwrap();
        let rows: Vec<Vec<f64>> = log
            .lines()
            .skip_while(|line| !line.starts_with("packet, "))
            .skip(1)
            .take_while(|line| !line.starts_with('-'))
            .map(|line| {
                line.split(", ")
                    .map(|field| field.parse().unwrap())
                    .collect()
            })
            .collect();
        assert_eq!(rows.len() as f64, observations);
        let mut latencies: Vec<f64> = rows.iter().map(|row| row[3]).collect();
        for row in &rows {
            assert!(
                ((row[2] - row[1]) * 1e6 / 2.0 - row[3]).abs() < 0.01,
                "{row:?}"
            );
        }
        latencies.sort_by(f64::total_cmp);
        // Nearest rank, and the resolution of the histogram.
        for percent in [25, 50, 75, 90, 99] {
            let rank = (50 + percent * count) / 100;
            let exact = latencies[usize::try_from(rank).unwrap() - 1];
            let printed = number_after(&text, &format!("percentile {percent}.000 ="));
            assert!(
                (printed - exact).abs() <= exact * 1e-3,
                "{percent}: {printed} is not {exact}"
            );
        }
        let mean = latencies.iter().sum::<f64>() / observations;
        assert!(
            (number_after(&text, "Latency is ") - mean).abs() < 0.002,
            "{text}"
        );
        let counts: f64 = log
            .lines()
            .skip_while(|line| !line.starts_with("bin (usec)"))
            .skip(1)
            .take_while(|line| !line.starts_with('-'))
            .map(|line| line[26..].parse::<f64>().unwrap())
            .sum();
        assert_eq!(counts, observations);
    });
}

#[test]
fn json_on_stdout_moves_the_text_to_stderr() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let output = pp(server.port, "-t 1 --json -");
        assert!(serde_json::from_str::<Value>(&stdout(&output)).is_ok());
        assert!(stderr(&output).contains("Summary: Latency is "));
    });
}

#[test]
fn client_binds_where_it_is_told() {
    panic_unless_paused(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let server = Server::ours("-g");
        let options = format!("-t 1 --mps 10 --client_ip 127.0.0.9 --client_port {port}");
        pp(server.port, &options);
        let (_, text) = server.end(Signal::INT);
        assert!(
            text.contains(&format!("Starting new session: [127.0.0.9:{port}]")),
            "{text}"
        );
    });
}

#[test]
fn ipv6_works_as_well() {
    panic_unless_paused(|| {
        if std::net::UdpSocket::bind("[::1]:0").is_err() {
            skipped("no IPv6 loopback address");
            return;
        }
        let socket = std::net::UdpSocket::bind("[::1]:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let mut server = ours(&format!("sr -i ::1 -p {port} --tos 8"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let output = output(ours(&format!(
            "pp -i ::1 -p {port} -t 1 --tos 8 --timeout 20"
        )));
        kill_process(pid(&server), Signal::TERM).unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(0));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    });
}

#[test]
fn one_receive_and_one_send_call_per_message() {
    panic_unless_paused(|| {
        if !Path::new("/usr/bin/strace").exists() {
            skipped("/usr/bin/strace is not installed");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calls");
        let server = Server::ours("");
        let program = ours(&format!(
            "pp -i 127.0.0.1 -p {} -t 1 --mps 1000",
            server.port
        ));
        let mut traced = Command::new("/usr/bin/strace");
        traced
            .args(["-f", "-o"])
            .arg(&path)
            .arg(program.get_program())
            .args(program.get_args());
        let output = output(traced);
        if output.status.code() != Some(0) && !stdout(&output).contains("Test ended") {
            skipped("strace cannot trace here");
            return;
        }
        let calls = std::fs::read_to_string(path).unwrap();
        // Only the test itself: from the first message to the last reply.
        let calls: Vec<&str> = calls
            .lines()
            .skip_while(|line| !line.contains("Starting test..."))
            .skip_while(|line| !line.contains("sendto("))
            .collect();
        let last = calls.iter().rposition(|line| line.contains("recvfrom("));
        let calls = &calls[..=last.unwrap()];
        let count = |name: &str| calls.iter().filter(|line| line.contains(name)).count();
        assert!(count("sendto(") > 50, "{} sends", count("sendto("));
        assert!(count("recvfrom(").abs_diff(count("sendto(")) <= 1);
        assert!(
            calls.len() - count("sendto(") - count("recvfrom(") < 20,
            "{:#?}",
            calls
        );
    });
}
