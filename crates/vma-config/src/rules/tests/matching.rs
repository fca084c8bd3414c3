use std::net::SocketAddr;

use crate::rules::matching::glob_matches;
use crate::rules::{Rule, RuleFile, Statement};

fn rule(text: &str) -> Rule {
    let mut file = RuleFile::parse(text);
    match file.statements.pop().map(|located| located.statement) {
        Some(Statement::Use(rule)) => rule,
        _ => panic!("{text}: {:?}", file.errors),
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn patterns_match_programs_as_the_shell_matches_files() {
    for (pattern, yes, no) in [
        ("*", &["", "a", "redis-server"][..], &[][..]),
        ("", &[""], &["a"]),
        ("db2*", &["db2", "db2sysc"], &["db", "adb2"]),
        ("t?cp", &["ttcp", "tecp"], &["tcp", "ttccp"]),
        (
            "*-server",
            &["redis-server", "-server", "a-server-server"],
            &["redis-servers"],
        ),
        ("a*b*c", &["abc", "aXbYc", "abcbc"], &["ab", "acb"]),
        ("**a", &["a", "ba"], &["b"]),
        ("[abc]d", &["ad", "cd"], &["dd", "d"]),
        ("[a-c-]x", &["bx", "-x"], &["dx"]),
        ("[!a-c]x", &["dx"], &["ax", "x"]),
        ("[^a]x", &["bx"], &["ax"]),
        ("[]a]x", &["]x", "ax"], &["bx"]),
        ("[a", &["[a"], &["a"]),
        ("\\*x", &["*x"], &["ax", "\\*x"]),
        ("x\\", &[], &["x", "x\\"]),
        ("[\\]]", &["]"], &["\\"]),
        ("?", &["é"], &["", "ab"]),
    ] {
        for text in yes {
            assert!(glob_matches(pattern, text), "{pattern} {text}");
        }
        for text in no {
            assert!(!glob_matches(pattern, text), "{pattern} {text}");
        }
    }
}

#[test]
fn hostile_patterns_end_soon() {
    let stars = "*a".repeat(1000) + "b";
    assert!(!glob_matches(&stars, &"a".repeat(2000)));
    assert!(!glob_matches(&"[".repeat(20_000), &"[".repeat(200)));
}

#[test]
fn prefixes_and_port_ranges_have_exact_edges() {
    for (text, yes, no) in [
        ("*:*", &["0.0.0.0:0", "255.255.255.255:65535"][..], &[][..]),
        ("10.0.0.1:*", &["10.0.0.1:0"], &["10.0.0.0:0", "10.0.0.2:0"]),
        ("10.0.0.1/32:*", &["10.0.0.1:9"], &["10.0.0.0:9"]),
        (
            "10.0.0.7/31:*",
            &["10.0.0.6:9", "10.0.0.7:9"],
            &["10.0.0.5:9", "10.0.0.8:9"],
        ),
        (
            "10.0.0.77/24:*",
            &["10.0.0.0:1", "10.0.0.255:1"],
            &["10.0.1.0:1", "9.255.255.255:1"],
        ),
        (
            "128.0.0.0/1:*",
            &["128.0.0.0:1", "255.0.0.0:1"],
            &["127.255.255.255:1"],
        ),
        ("1.2.3.4/0:*", &["0.0.0.0:1", "255.255.255.255:1"], &[]),
        ("*:0", &["1.1.1.1:0"], &["1.1.1.1:1"]),
        (
            "*:7000-7010",
            &["1.1.1.1:7000", "1.1.1.1:7010"],
            &["1.1.1.1:6999", "1.1.1.1:7011"],
        ),
        ("*:65535-65536", &["1.1.1.1:65535"], &["1.1.1.1:65534"]),
        (
            "10.0.0.0/8:53",
            &["10.9.9.9:53"],
            &["10.9.9.9:54", "11.0.0.0:53"],
        ),
        ("*:80", &["[2001:db8::1]:80"], &["[2001:db8::1]:81"]),
        (
            "0.0.0.0/0:*",
            &["0.0.0.0:1"],
            &["[::]:1", "[2001:db8::1]:1"],
        ),
        ("[::]/0:*", &["[::1]:1"], &["0.0.0.0:1"]),
        (
            "[fd77::1]:*",
            &["[fd77::1]:1"],
            &["[fd77::]:1", "[fd77::3]:1"],
        ),
        (
            "[fd77::7]/127:*",
            &["[fd77::6]:1", "[fd77::7]:1"],
            &["[fd77::5]:1", "[fd77::8]:1", "[fd77:0:0:1::6]:1"],
        ),
    ] {
        let rule = rule(&format!("use os udp_sender {text}"));
        for peer in yes {
            assert!(rule.is_for(address(peer), None), "{text} {peer}");
        }
        for peer in no {
            assert!(!rule.is_for(address(peer), None), "{text} {peer}");
        }
    }
}

#[test]
fn both_ends_of_a_connection_must_match() {
    let rule = rule("use os udp_connect 10.0.0.0/8:53:192.168.0.1:1000-2000");
    let is_for = |peer, local| rule.is_for(address(peer), Some(address(local)));
    assert!(is_for("10.1.1.1:53", "192.168.0.1:1500"));
    assert!(!is_for("11.1.1.1:53", "192.168.0.1:1500"));
    assert!(!is_for("10.1.1.1:53", "192.168.0.1:2001"));
    assert!(!is_for("10.1.1.1:53", "192.168.0.2:1500"));
    assert!(rule.is_for(address("10.1.1.1:53"), None));
}

#[test]
fn only_wildcards_are_for_all() {
    for (text, all) in [
        ("use os udp_sender *:*", true),
        ("use os udp_sender 0.0.0.0/0:*", false),
        ("use os udp_sender *:1", false),
        ("use os udp_connect *:*", true),
        ("use os udp_connect *:*:*:*", true),
        ("use os udp_connect *:*:*:1", false),
    ] {
        assert_eq!(rule(text).is_for_all(), all, "{text}");
    }
}
