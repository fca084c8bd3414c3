use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{eventually, panic_unless_paused};

use crate::harness::{
    FakeServer, Server, echo, number_after, ours, output, skipped, stderr, stdout,
};

#[test]
fn under_load_keeps_its_rate_and_counts_every_reply() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let line = format!(
            "ul -i 127.0.0.1 -p {} -t 2 --mps 1000 --reply-every 10",
            server.port
        );
        let output = output(ours(&line));
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let sent = number_after(&text, "SentMessages=");
        assert!((1990.0..=2001.0).contains(&sent), "{text}");
        let received = number_after(&text, "ReceivedMessages=");
        assert_eq!(received, (sent / 10.0).floor(), "{text}");
        assert!(text.contains("# dropped messages = 0;"), "{text}");
        assert!(
            text.contains("Corrected for coordinated omission: p50 = "),
            "{text}"
        );
        // 2 s less 400 ms and 50 ms.
        let (_, valid) = text.split_once("[Valid Duration]").unwrap();
        let seconds = number_after(valid, "RunTime=");
        assert!((1.4..=1.6).contains(&seconds), "{text}");
    });
}

#[test]
fn under_load_counts_what_is_lost_repeated_and_late() {
    panic_unless_paused(|| {
        let server = FakeServer::start(|number, message| match number % 10 {
            3 => vec![],
            5 => vec![echo(message), echo(message)],
            _ => vec![echo(message)],
        });
        let line = format!(
            "ul -i 127.0.0.1 -p {} -t 1 --mps 1000 --reply-every 1 --json -",
            server.port
        );
        let output = output(ours(&line));
        let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let valid = &json["result"]["valid"];
        let (sent, dropped) = (&valid["sent_messages"], &valid["dropped"]);
        let (sent, dropped) = (sent.as_f64().unwrap(), dropped.as_f64().unwrap());
        assert!((dropped - sent / 10.0).abs() <= 2.0, "{json}");
        let duplicated = json["result"]["replies"]["duplicated"].as_u64().unwrap();
        assert!((90..=110).contains(&duplicated), "{json}");
    });
}

#[test]
fn a_client_that_stands_still_shows_in_the_corrected_times() {
    panic_unless_paused(|| {
        // The server takes 20 ms for one message in 200; those sent meanwhile arrive, too.
        let server = FakeServer::start(|number, message| {
            if number.is_multiple_of(200) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            vec![echo(message)]
        });
        let line = format!(
            "pp -i 127.0.0.1 -p {} -t 1 --mps 1000 --full-rtt --json -",
            server.port
        );
        let output = output(ours(&line));
        let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
        // Ping-pong has no schedule that it could keep to while it waits.
        assert!(json["result"]["corrected"].is_null(), "{json}");
        let p99 = &json["result"]["statistics"]["percentiles_usec"]["p99.9"];
        assert!(p99.as_f64().unwrap() >= 20_000.0, "{json}");
    });
}

#[test]
fn playback_sends_what_the_file_says() {
    panic_unless_paused(|| {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data.csv");
        let log = directory.path().join("log.csv");
        fs::write(&data, "0.1, 14\n0.2, 1000\n0.3,64000\n0.7, 14\n").unwrap();
        let server = Server::ours("");
        let line = format!(
            "pb -i 127.0.0.1 -p {} --data-file {} --reply-every 1 --full-log {}",
            server.port,
            data.display(),
            log.display()
        );
        let text = stdout(&output(ours(&line)));
        assert!(!text.contains("interrupted by timer"), "{text}");
        assert!(
            text.contains("SentMessages=4; ReceivedMessages=4\n"),
            "{text}"
        );
        let log = fs::read_to_string(log).unwrap();
        let sent: Vec<f64> = log
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
            .map(|line| line.split(", ").nth(1).unwrap().parse().unwrap())
            .collect();
        let after: Vec<f64> = sent.iter().map(|time| time - sent[0]).collect();
        for (after, expected) in after.iter().zip([0.0, 0.1, 0.2, 0.6]) {
            assert!((after - expected).abs() < 0.05, "{after} {expected}");
        }
        server.end(Signal::INT);
    });
}

#[test]
fn intervals_go_to_every_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (csv, json, hgrm, html) = (file("csv"), file("json"), file("hgrm"), file("html"));
    let hlog = file("hlog");
    let server = Server::ours("");
    let line = format!(
        "ul -i 127.0.0.1 -p {} -t 2 --mps 5000 --reply-every 2 --interval 0.25 --csv {csv} \
         --json {json} --hgrm {hgrm} --html {html} --hlog {hlog}",
        server.port
    );
    let output = output(ours(&line));
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines = text.lines().filter(|line| line.contains(" sec] ")).count();
    // The first may come before the first message, on a busy machine.
    assert!((4..=14).contains(&lines), "{text}");
    let rows = fs::read_to_string(csv).unwrap();
    assert_eq!(rows.lines().count(), lines + 1, "{rows}");
    let json: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let intervals = json["intervals"].as_array().unwrap();
    assert_eq!(intervals.len(), lines);
    let samples: u64 = intervals
        .iter()
        .filter_map(|interval| interval["latency"]["count"].as_u64())
        .sum();
    let received = json["result"]["total"]["received_messages"]
        .as_u64()
        .unwrap();
    assert!(samples > received / 2 && samples <= received, "{json}");
    assert!(json["result"]["corrected"]["percentiles_usec"]["p99"].is_f64());
    assert!(fs::read_to_string(hgrm).unwrap().contains("#[Mean "));
    let hlog = fs::read_to_string(hlog).unwrap();
    let logged = hlog.lines().filter(|line| line.contains(",HISTFAA"));
    let with_samples = intervals.iter().filter(|it| !it["latency"].is_null());
    assert_eq!(logged.count(), with_samples.count(), "{hlog}");
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("<polyline points=\""), "{html}");
    server.end(Signal::INT);
}

#[test]
fn under_the_name_of_the_original_nothing_else_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("sockperf");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sockperf-rs"), &program).unwrap();
    let server = Server::ours("");
    let line = format!("ul -i 127.0.0.1 -p {} -t 1 --mps 1000", server.port);
    let mut command = std::process::Command::new(program);
    command.args(line.split_whitespace());
    let text = stdout(&output(command));
    assert!(text.contains("\x1b[2;35m====> avg-latency="), "{text}");
    assert!(!text.contains("Corrected"), "{text}");
}

/// Ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Somebody else wants the only CPU.
#[test]
fn under_the_name_of_the_original_nobody_is_warned_of_noise() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("sockperf");
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_sockperf-rs"));
    std::os::unix::fs::symlink(own, &link).unwrap();
    let on_one_cpu = || {
        let mut command = std::process::Command::new("taskset");
        command.args(["--cpu-list", "0"]);
        command
    };
    let busy = ["sh", "-c", "while :; do :; done"];
    let busy = Ended(on_one_cpu().args(busy).spawn().unwrap());
    let server = Server::ours("");
    let said = |program: &std::path::Path| {
        let line = format!("pp -i 127.0.0.1 -p {} -t 1", server.port);
        let mut command = on_one_cpu();
        command.arg(program).args(line.split_whitespace());
        stderr(&output(command))
    };
    let (warned, strict) = (said(own), said(&link));
    drop(busy);
    assert!(warned.contains("noisy machine"), "{warned}");
    assert!(!strict.contains("WARNING"), "{strict}");
}

#[test]
fn rates_are_swept_and_searched() {
    let server = Server::ours("");
    let line = format!(
        "ul -i 127.0.0.1 -p {} -t 1 --reply-every 10 --json - --sweep 500:1500:500",
        server.port
    );
    let output = output(ours(&line));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let rates = json["result"]["rates"].as_array().unwrap();
    let planned: Vec<_> = rates
        .iter()
        .map(|it| it["planned_per_sec"].as_u64())
        .collect();
    assert_eq!(planned, [Some(500), Some(1000), Some(1500)]);
    let text = stderr(&output);
    assert!(text.contains("Summary: "), "{text}");
    server.end(Signal::INT);
}

#[test]
fn udp_lat_measures_against_its_server() {
    let server = Server::ours("");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_udp_lat"));
    command.args(["-c", "-i", "127.0.0.1", "-p", &server.port.to_string()]);
    let text = stdout(&output(command));
    let start = format!(
        "udp_lat: [CLIENT] send on: 127.0.0.1 port {}\nudp_lat: Client Start sending ...\n\
         client_sig_handler:client_counter=",
        server.port
    );
    assert!(text.starts_with(&start), "{text}");
    assert!(number_after(&text, "latency=") > 1.0, "{text}");
}

#[test]
fn each_thread_runs_on_the_cpus_named_for_it() {
    let cpus = sockperf_rs::sys::affinity::current_cpus();
    let [first, second, ..] = cpus[..] else {
        skipped("there is one CPU only");
        return;
    };
    let server = Server::ours("");
    let line = format!(
        "ul -i 127.0.0.1 -p {} -t 60 --mps 100 --sender-affinity {first} --receiver-affinity {second}",
        server.port
    );
    let mut child = ours(&line)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id();
    let allowed = |task: u32| {
        let status = fs::read_to_string(format!("/proc/{id}/task/{task}/status")).ok()?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(list.trim().to_owned())
    };
    let found = eventually(std::time::Duration::from_secs(20), || {
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let (main, others): (Vec<u32>, Vec<u32>) = tasks.partition(|&task: &u32| task == id);
        let is_on = |task: &u32, cpu: usize| allowed(*task) == Some(cpu.to_string());
        main.iter().all(|task| is_on(task, first)) && others.iter().any(|task| is_on(task, second))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found, "the threads are not where they should be");
}
