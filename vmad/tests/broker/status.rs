//! What the broker says of itself.

use std::time::Duration;

use serde_json::Value;
use testkit::{eventually, or_skip};

use crate::lab::Lab;
use crate::{SIGKILL, SIGSTOP, SIGTERM, end};

/// It is written once a second.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn status_says_who_has_what_and_who_was_refused() {
    let mut lab = or_skip!(Lab::new("allow user 65533"));
    let mut server = lab.server(7001);
    let _refused = lab.server_of(65532, 7002);
    lab.datagrams(7002, 1);
    let mut status = Value::Null;
    let is_whole = eventually(SOON, || {
        status = lab.status_document();
        let broker = &status["broker"];
        broker["refusals"].as_u64() > Some(0) && ports_of(&client(broker)).len() == 2
    });
    assert!(is_whole, "{status:#}");
    assert!(status["daemon"].is_null(), "{status:#}");
    let broker = &status["broker"];
    assert_eq!(broker["interfaces"][0]["name"], "vb", "{status:#}");
    let client = client(broker);
    assert_eq!(client["pid"], server.process().pid(), "{status:#}");
    assert_eq!(client["user"], 0, "{status:#}");
    assert_eq!(client["program"], "python3", "{status:#}");
    assert!(client["frames_to_send"].as_u64() > Some(0), "{status:#}");
    let ports = ports_of(&client);
    assert!(
        ports[0].starts_with("tcp ") && ports[1].starts_with("udp "),
        "{ports:?}"
    );
    assert!(ports.iter().all(|it| it.ends_with(":7001")), "{ports:?}");
    let refused = &broker["refused"][0];
    assert_eq!(refused["user"], 65532, "{status:#}");
    assert_eq!(refused["interface"], "vb", "{status:#}");
    let why = refused["why"].as_str().unwrap();
    assert!(why.contains("user 65532 may not have vb"), "{why}");

    // The same in words.
    let text = lab.status(&[]);
    for part in [
        "vb (index",
        "python3",
        "udp 10.",
        ":7001",
        "of user 65532 at vb",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }

    server.process().signal(SIGKILL).unwrap();
    let is_gone = eventually(SOON, || {
        status = lab.status_document();
        client_count(&status["broker"]) == 0
    });
    assert!(is_gone, "{status:#}");
    end(lab.broker.take().unwrap(), SIGTERM);
    let text = lab.status(&[]);
    assert!(text.contains("no broker"), "{text}");
}

/// What has not been read is told as the process's own.
#[test]
fn frames_of_a_stopped_process_are_told() {
    let lab = or_skip!(Lab::new(""));
    let mut stopped = lab.server(7001);
    lab.datagrams(7001, 5);
    assert!(stopped.packets() > 0, "{:?}", stopped.sockets());
    stopped.process().signal(SIGSTOP).unwrap();
    lab.flood(7001, 200);
    let mut status = Value::Null;
    let is_told = eventually(SOON, || {
        status = lab.status_document();
        client(&status["broker"])["frames_received"].as_u64() > Some(50)
    });
    stopped.process().signal(SIGKILL).unwrap();
    assert!(is_told, "{status:#}");
}

fn client(broker: &Value) -> Value {
    broker["interfaces"][0]["clients"][0].clone()
}

fn client_count(broker: &Value) -> usize {
    broker["interfaces"][0]["clients"]
        .as_array()
        .map_or(0, Vec::len)
}

fn ports_of(client: &Value) -> Vec<String> {
    let ports = client["ports"].as_array().into_iter().flatten();
    ports.map(|it| it.as_str().unwrap().to_owned()).collect()
}
