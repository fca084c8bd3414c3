//! Ping-pong with a server that loses, repeats, delays, alters or invents replies.

use std::time::{Duration, Instant};

use testkit::panic_unless_paused;

use crate::harness::{FakeServer, at_the_same_time, echo, number_after, stderr, stdout};
use crate::ping_pong::{json, pp};

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
        let json = json(server.port, "-t 1 --timeout 15");
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
        // The loss is not a sample: no round trip took as long as the timeout and the loss
        // together.
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
        let variants = [
            "-t 1",
            "-t 1 --timeout=-1",
            "-t 1 --timeout 5000",
            "-t 1 --nonblocked",
        ];
        at_the_same_time(variants, |arguments| {
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
        });
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
