use std::net::SocketAddr;

use crate::rules::{ProcessRules, Role, RuleFile};

const FILE: &str = "\
use os udp_receiver *:1
application-id feed A
use os udp_receiver *:2
application-id feed *
use os udp_receiver *:3
application-id * *
use os udp_receiver *:4
application-id feed A
use vma udp_receiver *:5
";

fn rules_of(text: &str, program: &str, id: &str) -> ProcessRules {
    let file = RuleFile::parse(text);
    assert_eq!(file.errors, []);
    ProcessRules::new(&file, "/etc/libvma.conf", program, id)
}

fn lines(rules: &ProcessRules) -> Vec<String> {
    rules.iter().map(|rule| rule.origin()).collect()
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

#[test]
fn a_process_follows_the_first_group_that_matches_it_and_its_continuations() {
    let without_general = FILE.split_once('\n').unwrap().1;
    for (text, program, id, expected) in [
        // Rules above every application-id are for all: nobody gets further.
        (FILE, "feed", "A", &["1", "7"][..]),
        (FILE, "other", "B", &["1", "7"]),
        (without_general, "feed", "A", &["2", "8"]),
        (without_general, "feed", "*", &["2", "8"]),
        (without_general, "feed", "B", &["4"]),
        (without_general, "other", "A", &["6"]),
        (
            "application-id feed A\nuse os udp_receiver *:1",
            "other",
            "A",
            &[],
        ),
        (
            "application-id feed A\napplication-id * *\nuse os udp_receiver *:1",
            "feed",
            "A",
            &[],
        ),
        ("", "feed", "A", &[]),
    ] {
        let expected: Vec<_> = expected
            .iter()
            .map(|line| format!("/etc/libvma.conf:{line}"))
            .collect();
        assert_eq!(
            lines(&rules_of(text, program, id)),
            expected,
            "{program} {id}"
        );
    }
}

#[test]
fn the_first_rule_of_the_role_that_matches_decides() {
    let rules = rules_of(
        "use os udp_sender *:7\n\
         use vma udp_receiver 10.0.0.0/24:*\n\
         use os udp_receiver 10.0.0.0/8:*\n\
         use * udp_receiver *:8\n\
         use os udp_receiver *:8-9\n",
        "any",
        "any",
    );
    let decides = |address: &str| {
        let rule = rules.find(Role::UdpReceiver, address.parse().unwrap(), None);
        rule.map(|rule| (rule.number, rule.leaves_to_os()))
    };
    assert_eq!(decides("10.0.0.1:7"), Some((2, false)));
    assert_eq!(decides("10.0.1.1:7"), Some((3, true)));
    assert_eq!(decides("11.0.0.1:8"), Some((4, false)));
    assert_eq!(decides("11.0.0.1:9"), Some((5, true)));
    assert_eq!(decides("11.0.0.1:10"), None, "accelerated");
    assert!(rules.find(Role::TcpServer, any(7), None).is_none());
}

#[test]
fn rules_of_other_libraries_say_nothing() {
    let rules = rules_of(
        "use sdp udp_receiver *:*\nuse sa udp_receiver *:*\nuse os udp_receiver *:1",
        "any",
        "any",
    );
    assert_eq!(
        rules.find(Role::UdpReceiver, any(1), None).unwrap().number,
        3
    );
    assert!(rules.find(Role::UdpReceiver, any(2), None).is_none());
}

#[test]
fn all_of_a_role_is_left_to_the_kernel_only_if_no_rule_before_says_otherwise() {
    for (text, number) in [
        ("use os udp_sender *:*", Some(1)),
        ("use os udp_sender *:1\nuse os udp_sender *:*", Some(2)),
        ("use sdp udp_sender *:*\nuse os udp_sender *:*", Some(2)),
        ("use vma udp_sender *:1\nuse os udp_sender *:*", None),
        ("use vma udp_receiver *:1\nuse os udp_sender *:*", Some(2)),
        ("use os udp_receiver *:*", None),
        ("use os udp_sender *:1-65535", None),
    ] {
        let rules = rules_of(text, "any", "any");
        let found = rules.leaves_all_to_os(Role::UdpSender);
        assert_eq!(found.map(|rule| rule.number), number, "{text}");
    }
}

#[test]
fn added_rules_come_first() {
    let rules = rules_of("use os udp_sender *:*", "any", "any");
    let rules = rules.with_first("use vma udp_sender *:1 # mine").unwrap();
    let rules = rules
        .with_first("use os udp_sender *:1-2\nuse vma udp_sender *:2\n")
        .unwrap();
    let decides = |port| {
        let rule = rules.find(Role::UdpSender, any(port), None).unwrap();
        (rule.number, rule.to_string())
    };
    assert_eq!(
        decides(1),
        (
            3,
            "\"use os udp_sender *:1-2\" (added by the program)".to_owned()
        )
    );
    assert_eq!(decides(2).0, 4);
    assert_eq!(
        decides(3),
        (
            1,
            "\"use os udp_sender *:*\" (/etc/libvma.conf:1)".to_owned()
        )
    );
}

#[test]
fn a_text_with_an_error_adds_nothing() {
    let rules = rules_of("use os udp_sender *:*", "any", "any");
    for (text, message) in [
        ("use os udp_sender *:1\nuse os", "2:7: expected a role"),
        (
            "application-id * *",
            "1:1: expected a rule (use ...), found \"application-id * *\"",
        ),
        ("log", "1:1: expected a rule (use ...), found \"log\""),
    ] {
        let error = rules.with_first(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    assert_eq!(rules.with_first(" # nothing").unwrap(), rules);
}
