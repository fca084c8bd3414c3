use rustix::process::Signal;
use serde_json::Value;
use testkit::panic_unless_paused;

use crate::harness::{Server, number_after, ours, output, stderr, stdout};

#[test]
fn unpaced_test_reports_rate_and_bandwidth() {
    panic_unless_paused(|| {
        let server = Server::ours("");
        let output = output(ours(&format!(
            "tp -i 127.0.0.1 -p {} -t 1 -m 100",
            server.port
        )));
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            text.contains("sockperf[CLIENT] send on:\n[ 0] IP = 127.0.0.1 "),
            "{text}"
        );
        let sent = number_after(&text, "sockperf: Total of ");
        let seconds = number_after(&text, "messages sent in ");
        let rate = number_after(&text, "Message Rate is ");
        let bandwidth = number_after(&text, "BandWidth is ");
        assert!((1.0..1.2).contains(&seconds), "{text}");
        assert!((rate - sent / seconds).abs() <= rate * 1e-3, "{text}");
        assert!(
            (bandwidth - rate * 100.0 / f64::from(1 << 20)).abs() <= 0.001,
            "{text}"
        );
        let (_, text) = server.end(Signal::INT);
        let received = number_after(&text, "sockperf: Total ");
        assert!(received > 0.0 && received <= sent, "{received} of {sent}");
    });
}

#[test]
fn paced_test_loses_nothing_and_keeps_its_rate() {
    panic_unless_paused(|| {
        let server = Server::ours("-g");
        let arguments = "-t 1 --mps 1000 -b 10 -m 500 -r 100 --json -";
        let output = output(ours(&format!(
            "tp -i 127.0.0.1 -p {} {arguments}",
            server.port
        )));
        let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let sent = json["result"]["sent_messages"].as_u64().unwrap();
        assert!((900..=1010).contains(&sent), "{json}");
        let mean_len = json["result"]["sent_bytes"].as_u64().unwrap() / sent;
        assert!((490..=510).contains(&mean_len), "{json}");
        assert!(stderr(&output).contains("using average msg-size=500 (+/-100), mps=1000."));
        let (_, text) = server.end(Signal::INT);
        assert_eq!(number_after(&text, "sockperf: Total "), sent as f64);
        assert!(text.contains("Summary: Total Dropped/OOO: 0\n"), "{text}");
    });
}
