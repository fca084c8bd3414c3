use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use testkit::panic_unless_paused;

use crate::harness::{Server, has, number_after, ours, output, pid, skipped, stderr, stdout};

pub(crate) fn pp(port: u16, arguments: &str) -> std::process::Output {
    output(ours(&format!("pp -i 127.0.0.1 -p {port} {arguments}")))
}

/// The JSON document of a run that succeeds.
#[track_caller]
pub(crate) fn json(port: u16, arguments: &str) -> Value {
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
        // On a busy machine it says that it is, or that the start was slower.
        let is_noise = |line: &str| line.contains("WARNING: ");
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
fn test_too_short_for_the_window_has_no_result() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let mut child = ours(&format!("pp -i 127.0.0.1 -p {} -t 20", server.port))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Before the clock is calibrated, during the warm-up or in the first 400 ms: nothing
        // counts.
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
        thread::sleep(Duration::from_millis(1600));
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
        if !has("strace") {
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
            // What interrupts a blocked call, a few times a second.
            .filter(|line| {
                !["SIGURG", "rt_sigreturn(", "ERESTART"]
                    .iter()
                    .any(|it| line.contains(it))
            })
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
