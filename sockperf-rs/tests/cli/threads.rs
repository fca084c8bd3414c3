//! Many threads and flows, and both directions.

use rustix::process::Signal;
use serde_json::Value;
use testkit::panic_unless_paused;

use crate::harness::{Server, at_the_same_time, number_after, ours, output, stderr, stdout};

#[track_caller]
fn result(arguments: &str) -> Value {
    let output = output(ours(&format!("{arguments} --json -")));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments}: {}",
        stderr(&output)
    );
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn threads_measure_together() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let port = server.port;
        let variants = [
            ("ul -t 1 --mps 1500 --reply-every 3 --threads 3", 3),
            (
                "pp -t 1 --mps 500 --threads 2 --flows 5 -F p --timeout 5000",
                5,
            ),
            ("ul -t 1 --mps 500 --reply-every 2 --flows 4", 4),
        ];
        at_the_same_time(variants, |(arguments, flows)| {
            let json = result(&format!(
                "{arguments} -i 127.0.0.1 -p {port} --interval 0.2"
            ));
            let total = &json["result"]["total"];
            let sent = total["sent_messages"].as_u64().unwrap();
            assert!((300..=1510).contains(&sent), "{arguments}: {json}");
            let valid = &json["result"]["valid"];
            assert_eq!(valid["dropped"], 0, "{arguments}: {json}");
            for key in ["duplicated", "unexpected", "malformed"] {
                assert_eq!(json["result"]["replies"][key], 0, "{arguments}: {json}");
            }
            let count = |interval: &Value| interval["latency"]["count"].as_u64();
            let intervals = json["intervals"].as_array().unwrap();
            let samples: u64 = intervals.iter().filter_map(count).sum();
            let received = total["received_messages"].as_u64().unwrap();
            assert!(samples > received / 2 && samples <= received, "{json}");
            assert_eq!(json["options"]["flows"], flows);
        });
        let (code, text) = server.end(Signal::INT);
        assert_eq!(code, Some(0));
        // Each thread numbers its own messages, so that the server sees no gaps where it has one
        // flow.
        assert!(text.matches("; lost=0;").count() >= 3, "{text}");
    });
}

#[test]
fn every_thread_s_messages_arrive() {
    panic_unless_paused(|| {
        let server = Server::ours("--tcp");
        let line = format!(
            "tp -i 127.0.0.1 -p {} --tcp -t 1 --mps 2000 --threads 4 -m 100",
            server.port
        );
        let text = stdout(&output(ours(&line)));
        let sent = number_after(&text, "sockperf: Total of ");
        assert!((1900.0..=2010.0).contains(&sent), "{text}");
        // The server is still at the last messages.
        std::thread::sleep(std::time::Duration::from_millis(200));
        let (_, text) = server.end(Signal::INT);
        assert_eq!(number_after(&text, "sockperf: Total "), sent, "{text}");
    });
}

#[test]
fn both_directions_are_reported() {
    panic_unless_paused(|| {
        at_the_same_time(["", "--tcp"], |options| {
            let server = Server::ours(options);
            let line = format!(
                "tp -i 127.0.0.1 -p {} {options} -t 1 --mps 1000 -m 200 --bidir",
                server.port
            );
            let json = result(&line);
            let sent = json["result"]["sent_messages"].as_u64().unwrap();
            assert!((500..=1010).contains(&sent), "{json}");
            let returned = &json["result"]["returned"];
            assert_eq!(returned["received_messages"].as_u64(), Some(sent), "{json}");
            assert_eq!(returned["received_bytes"].as_u64(), Some(sent * 200));
            assert_eq!(returned["missing_messages"], 0, "{json}");
            let text = stdout(&output(ours(&line)));
            let back = number_after(&text, "Return Message Rate is ");
            assert!((500.0..=1010.0).contains(&back), "{text}");
            assert!(
                text.contains("# messages that did not come back = 0 (0.000 %)"),
                "{text}"
            );
            let (code, _) = server.end(Signal::INT);
            assert_eq!(code, Some(0));
        });
    });
}
