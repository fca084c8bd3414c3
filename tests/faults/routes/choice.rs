//! Which of several ways packets take, and what becomes of them while a neighbour is looked for.

use std::time::Duration;

use testkit::{SOON, or_skip, panic_unless_paused};

use crate::routes::seen::Seen;
use crate::routes::stage::{DEVICES, FAR, Program, Stage};

const FIRST_PORT: u16 = 7640;
const FLOWS: u16 = 8;

/// The interface of host `a` by which each flow comes.
fn ways(stage: &Stage, is_preloaded: bool, connected: &str) -> Vec<Vec<&'static str>> {
    let (first_port, flows) = (FIRST_PORT.to_string(), FLOWS.to_string());
    let mut arguments = vec!["receive", &first_port, &flows];
    arguments.extend(DEVICES);
    let mut receiver = Program::start(&stage.pair.a, false, &arguments);
    let far = FAR.to_string();
    let senders: Vec<_> = (0..FLOWS)
        .map(|flow| format!("0.0.0.0,{connected},{}", 7660 + flow))
        .collect();
    let mut arguments = vec!["send", &far, &first_port];
    arguments.extend(senders.iter().map(String::as_str));
    let sender = Program::start(&stage.pair.b, is_preloaded, &arguments);
    // The first ones may have waited for neighbours.
    std::thread::sleep(Duration::from_millis(50));
    receiver.ask("mark");
    std::thread::sleep(Duration::from_millis(50));
    let seen = Seen::parse(&receiver.ask("report"));
    if is_preloaded {
        let (past, through) = sender.packets();
        assert!(
            past > 5 * through,
            "{past} past the kernel, {through} through it"
        );
    }
    let devices = |flow| {
        let is_used = |name: &&str| seen.row(usize::from(flow), name).datagrams > 0;
        DEVICES.into_iter().filter(is_used).collect()
    };
    (0..FLOWS).map(devices).collect()
}

#[test]
fn each_flow_takes_the_way_that_the_kernel_chooses() {
    panic_unless_paused(|| {
        let stage = or_skip!(Stage::new());
        stage.change("route replace 10.99.0.0/24 nexthop via 10.77.0.1 nexthop via 10.78.0.1");
        let set = |policy: &str| {
            let path = "/proc/sys/net/ipv4/fib_multipath_hash_policy";
            stage.pair.b.enter(|| std::fs::write(path, policy)).unwrap();
        };
        for policy in ["0", "1"] {
            set(policy);
            for connected in ["0", "1"] {
                let expected = ways(&stage, false, connected);
                let seen = ways(&stage, true, connected);
                assert_eq!(seen, expected, "policy {policy}, connected {connected}");
                assert!(
                    expected.iter().all(|devices| devices.len() == 1),
                    "{expected:?}"
                );
            }
        }
        set("0");
        stage.change(
            "route replace 10.99.0.0/24 via 10.77.0.1; route add 10.99.0.0/24 via 10.78.0.1 table 100; \
             rule add ipproto udp dport 7643 lookup 100 priority 10; \
             rule add ipproto udp sport 7665 lookup 100 priority 11",
        );
        let expected = ways(&stage, false, "0");
        assert_eq!((&*expected[2], &*expected[3]), (&["va"][..], &["wa"][..]));
        assert_eq!((&*expected[4], &*expected[5]), (&["va"][..], &["wa"][..]));
        assert_eq!(ways(&stage, true, "0"), expected);
    });
}

#[test]
fn a_burst_waits_for_its_neighbour_and_keeps_its_order() {
    panic_unless_paused(|| {
        let stage = or_skip!(Stage::new());
        for is_preloaded in [false, true] {
            let port = FIRST_PORT.to_string();
            let mut arguments = vec!["receive", &port, "1"];
            arguments.extend(DEVICES);
            let mut receiver = Program::start(&stage.pair.a, false, &arguments);
            let mut sender = Program::start(
                &stage.pair.b,
                is_preloaded,
                &["burst", &FAR.to_string(), &port],
            );
            for round in 1..=10 {
                // Unlike `del` it finds nothing wrong where the last burst was gone before the
                // library heard that it has no neighbour.
                stage.change("neigh flush to 10.77.0.1 dev vb");
                let said = sender.ask("report");
                assert!(said.contains(" failed 0 "), "{said}");
                let arrived = testkit::eventually(SOON, || {
                    let seen = Seen::parse(&receiver.ask("report"));
                    seen.row(0, "va").datagrams == 60 * round
                });
                let seen = receiver.ask("report");
                assert!(arrived, "round {round}: {seen}");
                assert!(
                    seen.contains("missing 0 again 0 late 0"),
                    "round {round}: {seen}"
                );
            }
            let (past, through) = sender.packets();
            assert_eq!(past > 0 && through > 0, is_preloaded, "{past} {through}");
        }
    });
}
