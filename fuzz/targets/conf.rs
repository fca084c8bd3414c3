//! `libvma.conf`: any bytes. What is read can be printed and read again, errors lie inside the
//! text, and what comes later changes nothing of what came before.

#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use vma_config::rules::{ProcessRules, Role, RuleFile, Statement};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    // Half of the inputs are taken as they stand; the bytes of the others choose words, so that
    // most lines are nearly right.
    let text = match choice % 2 {
        0 => String::from_utf8_lossy(bytes).into_owned(),
        _ => bytes
            .iter()
            .map(|byte| WORDS[usize::from(*byte) % WORDS.len()])
            .collect(),
    };
    let file = RuleFile::parse(&text);
    errors_lie_inside(&file, &text);
    printing_and_reading_again_changes_nothing(&file);
    what_follows_changes_nothing(&file, &text, *choice / 2);
    every_decision_is_a_rule_of_the_file(&file);
});

const WORDS: &[&str] = &[
    "\nuse os udp_receiver ",
    "\nuse vma udp_sender ",
    "\nuse * udp_connect ",
    "\nuse sdp tcp_server ",
    "\nuse sa tcp_client ",
    "\nuse ",
    "os ",
    "udp_connect ",
    "10.0.0.1",
    "10.0.0.",
    "255.255.255.255",
    "224.",
    "*",
    ":",
    "/",
    "/0",
    "/1",
    "/31",
    "/32",
    "/33",
    ":*",
    ":53",
    ":0-",
    "65535",
    "65536",
    "-",
    "0",
    "1",
    "7",
    "00",
    "\napplication-id ",
    "redis-server ",
    "redis-* ",
    "B1 ",
    "* ",
    "[!a-z]",
    "\\*",
    "?",
    "\nlog ",
    "destination ",
    "stderr ",
    "syslog ",
    "file ",
    "min-level ",
    "4294967295",
    "4294967296",
    "#",
    " ",
    "\t",
    "\r",
    "\n",
    "\u{1b}",
    "\u{e9}",
    "\u{0}",
];

fn errors_lie_inside(file: &RuleFile, text: &str) {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut last = 0;
    for error in &file.errors {
        assert!(error.line > last, "one error a line, in order");
        last = error.line;
        let columns = lines[error.line as usize - 1].chars().count();
        assert!(error.column >= 1 && error.column as usize <= columns + 1);
        assert!(!error.to_string().contains(char::is_control));
    }
}

fn statements(file: &RuleFile) -> Vec<&Statement> {
    let located = file.statements.iter();
    located.map(|located| &located.statement).collect()
}

fn printing_and_reading_again_changes_nothing(file: &RuleFile) {
    let again = RuleFile::parse(&file.to_string());
    assert!(again.errors.is_empty(), "{:?}", again.errors);
    assert_eq!(statements(&again), statements(file));
}

fn what_follows_changes_nothing(file: &RuleFile, text: &str, choice: u8) {
    let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    let Some(end) = ends.get(usize::from(choice) % ends.len().max(1)) else {
        return;
    };
    let part = RuleFile::parse(&text[..*end]);
    assert!(file.statements.starts_with(&part.statements));
    assert!(file.errors.starts_with(&part.errors));
}

fn every_decision_is_a_rule_of_the_file(file: &RuleFile) {
    let rules = ProcessRules::new(file, "fuzz", "redis-server", "B1");
    let address = |last, port| SocketAddr::from(([10, 0, 0, last], port));
    for role in [
        Role::TcpServer,
        Role::TcpClient,
        Role::UdpReceiver,
        Role::UdpSender,
        Role::UdpConnect,
    ] {
        let found = rules.find(role, address(1, 53), Some(address(2, 7000)));
        if let Some(found) = found {
            assert!(found.rule.role == role);
            assert!(statements(file).contains(&&Statement::Use(found.rule.clone())));
        }
        if let Some(all) = rules.leaves_all_to_os(role) {
            let found = found.expect("a rule for everything is for this, too");
            assert!(found.leaves_to_os() && found.number <= all.number);
        }
    }
    let printed: String = rules
        .iter()
        .map(|rule| format!("{}\n", rule.rule))
        .collect();
    let added = ProcessRules::default()
        .with_first(&printed)
        .expect("these are rules");
    assert_eq!(added.iter().count(), rules.iter().count());
}
