use proptest::prelude::*;

use crate::rules::{RuleFile, Statement};

fn printed(text: &str) -> String {
    let file = RuleFile::parse(text);
    assert_eq!(file.errors, [], "{text:?}");
    file.to_string()
}

#[test]
fn statements_are_read_in_every_form_that_the_manual_shows() {
    for (line, meaning) in [
        ("application-id tcp-lat B1", "application-id tcp-lat B1"),
        ("application-id * *", "application-id * *"),
        ("application-id  db2*\t7 # seven", "application-id db2* 7"),
        ("application-id a#b c#d", "application-id a#b c#d"),
        ("use os tcp_server *:5001", "use os tcp_server *:5001"),
        (
            "use vma tcp_client 192.168.1.0/24:*:*:*",
            "use vma tcp_client 192.168.1.0/24:*:*:*",
        ),
        ("use os udp_connect *:53", "use os udp_connect *:53"),
        (
            "use os tcp_server [2001:DB8:0:0::1]:80",
            "use os tcp_server [2001:db8::1]:80",
        ),
        (
            "use os tcp_client [fd77::]/16:*:[::]/0:1-9",
            "use os tcp_client [fd77::]/16:*:[::]/0:1-9",
        ),
        (
            "use os udp_connect *:53:10.0.0.1:1-9",
            "use os udp_connect *:53:10.0.0.1:1-9",
        ),
        (
            "use sdp udp_sender 224.0.0.0/4:*",
            "use sdp udp_sender 224.0.0.0/4:*",
        ),
        (
            "use sa udp_receiver 1.2.3.4/32:0",
            "use sa udp_receiver 1.2.3.4:0",
        ),
        (
            "use * udp_receiver 255.255.255.255/0:65535",
            "use * udp_receiver 255.255.255.255/0:65535",
        ),
        (
            "use os udp_receiver *:0-65536",
            "use os udp_receiver *:0-65535",
        ),
        ("use os udp_receiver *:7-7", "use os udp_receiver *:7"),
        // Blanks between any two tokens, comments behind any.
        (
            "\t use\tos  udp_receiver 10 . 0.0.1 / 8 : 7 - 9#why\r",
            "use os udp_receiver 10.0.0.1/8:7-9",
        ),
        ("use*udp_receiver*:*", "use * udp_receiver *:*"),
        ("log", "log"),
        (
            "log destination ystderr min-level 3",
            "log destination stderr min-level 3",
        ),
        (
            "log min-level 9 destination yfile a#b",
            "log destination file a#b min-level 9",
        ),
        (
            "log destination file vma.log",
            "log destination file vma.log",
        ),
        (
            "log destination syslog # twice: the last counts",
            "log destination syslog",
        ),
    ] {
        assert_eq!(printed(line), format!("{meaning}\n"), "{line}");
    }
    for blank in [
        "",
        "\n\n",
        "   \t",
        "# comment",
        "  # use os\n#",
        "\r\n\r\n",
    ] {
        assert_eq!(printed(blank), "", "{blank:?}");
    }
}

/// Each line, and what is said about it.
const ERRORS: &str = r#"
ues os udp_sender *:1            | 1: expected a statement (use, application-id or log), found "ues"
Use os udp_sender *:1            | 1: expected a statement (use, application-id or log), found "Use"
*                                | 1: expected a statement (use, application-id or log), found "*"
used os udp_sender *:1           | 1: expected a statement (use, application-id or log), found "used"
application-id                   | 15: expected the name of a program, or *, found the end of the line
application-id prog # id         | 21: expected a user-defined id, or *, found a comment
application-id prog id more      | 24: expected the end of the line, found "more"
use                              | 4: expected a transport (vma, os, sdp, sa or *), found the end of the line
use ib tcp_server *:1            | 5: expected a transport (vma, os, sdp, sa or *), found "ib"
use os server *:1                | 8: expected a role (tcp_server, tcp_client, udp_sender, udp_receiver or udp_connect), found "server"
use os udp_sender                | 18: expected an address (a.b.c.d, a.b.c.d/prefix, [IPv6], [IPv6]/prefix or *), found the end of the line
use os udp_sender host:1         | 19: expected an address (a.b.c.d, a.b.c.d/prefix, [IPv6], [IPv6]/prefix or *), found "host"
use os udp_sender ::1:1          | 19: expected an address (a.b.c.d, a.b.c.d/prefix, [IPv6], [IPv6]/prefix or *), found ":"
use os udp_sender [::1:1         | 25: expected an IPv6 address and "]", found the end of the line
use os udp_sender 256.0.0.1:1    | 19: expected an address (a.b.c.d, a.b.c.d/prefix, [IPv6], [IPv6]/prefix or *), found "256.0.0.1"
use os udp_sender 10.0.1:1       | 25: expected "." and the rest of the address, found ":1"
use os udp_sender 10.0.0.300:1   | 26: expected a number from 0 to 255, found "300"
use os udp_sender 10.0.0.01:1    | 26: expected a number from 0 to 255, found "01"
use os udp_sender 10.0.0.0/33:1  | 28: expected a prefix length from 0 to 32, found "33"
use os udp_sender 10.0.0.0/:1    | 28: expected a prefix length from 0 to 32, found ":1"
use os udp_sender 10.0.0.0/08:1  | 28: expected a prefix length from 0 to 32, found "08"
use os udp_sender */8:1          | 20: expected ":" and the ports, found "/8"
use os udp_sender *              | 20: expected ":" and the ports, found the end of the line
use os udp_sender *:             | 21: expected a port, a range of ports or *, found the end of the line
use os udp_sender *:http         | 21: expected a port, a range of ports or *, found "http"
use os udp_sender *:-5           | 21: expected a port, a range of ports or *, found "-5"
use os udp_sender *:65536        | 21: expected a port from 0 to 65535, found "65536"
use os udp_sender *:5-4          | 23: expected a port that is not below the first of the range, up to 65536, found "4"
use os udp_sender *:5-65537      | 23: expected a port that is not below the first of the range, up to 65536, found "65537"
use os udp_sender *:5-           | 23: expected a port that is not below the first of the range, up to 65536, found the end of the line
use os udp_sender *:99999999999  | 21: expected a port from 0 to 65535, found "99999999999"
use os udp_sender *:5 6          | 23: expected the end of the line: this role has one address only, found "6"
use os udp_sender *:5:*:*        | 22: expected the end of the line: this role has one address only, found ":*"
use os udp_connect *:5;          | 23: expected the end of the line, or ":" and the local address, found ";"
use os udp_connect *:5:*         | 25: expected ":" and the ports, found the end of the line
use os udp_connect *:5:*:*:*     | 27: expected the end of the line, found ":*"
use os udp_sender é:1            | 19: expected an address (a.b.c.d, a.b.c.d/prefix, [IPv6], [IPv6]/prefix or *), found "é"
log destination                  | 16: expected a destination (stderr, syslog or file), found the end of the line
log destination paper            | 17: expected a destination (stderr, syslog or file), found "paper"
log destination file             | 21: expected the name of a file, found the end of the line
log min-level many               | 15: expected a number from 0 to 4294967295, found "many"
log loud                         | 5: expected destination, min-level or the end of the line, found "loud"
"#;

#[test]
fn errors_say_where_and_what_was_expected() {
    for case in ERRORS.trim().lines() {
        let (line, message) = case.split_once(" | ").unwrap();
        let file = RuleFile::parse(&format!("\n{}\n", line.trim_end()));
        assert_eq!(file.statements, [], "{line}");
        let said: Vec<_> = file.errors.iter().map(ToString::to_string).collect();
        assert_eq!(said, [format!("2:{message}")], "{line}");
    }
}

#[test]
fn errors_cannot_drive_a_terminal_and_stay_short() {
    let text = format!("use \x1b[2J{}", "x".repeat(1000));
    let error = RuleFile::parse(&text).errors[0].to_string();
    assert!(error.contains(r#"found "\u{1b}[2Jxxx"#), "{error}");
    assert!(
        error.ends_with(r#"..."#) || error.ends_with(r#"...""#),
        "{error}"
    );
    assert!(error.len() < 150, "{error}");
}

#[test]
fn lines_around_an_error_stay_in_force() {
    let file = RuleFile::parse(
        "use os udp_sender *:1\n\
         use os udp_sender *:x\n\
         use os udp_sender *:3\n\
         application-id onlyone\n\
         use os udp_sender *:5\n\
         use os udp_sender y:6\n\
         application-id good *\n\
         use os udp_sender *:8",
    );
    let kept: Vec<_> = file
        .statements
        .iter()
        .map(|located| (located.line, located.statement.to_string()))
        .collect();
    let expected = [
        (1, "use os udp_sender *:1"),
        (3, "use os udp_sender *:3"),
        // Nobody knows whose line 5 is.
        (7, "application-id good *"),
        (8, "use os udp_sender *:8"),
    ];
    assert_eq!(kept, expected.map(|(line, text)| (line, text.to_owned())));
    let lines: Vec<_> = file.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 4, 6]);
}

#[test]
fn the_file_that_is_installed_leaves_dns_to_the_kernel() {
    let file = RuleFile::parse(include_str!("../../../../../libvma/libvma.conf"));
    assert_eq!(file.errors, []);
    assert_eq!(
        file.to_string(),
        "application-id * *\nuse os udp_connect *:53\n"
    );
}

proptest! {
    #[test]
    fn printing_and_reading_again_changes_nothing(text in "([a-z0-9_*:./# \\-]|use (os|vma) (udp_sender|tcp_client) |application-id |log |[*]:|10[.]0[.]0[.]1|\n){0,60}") {
        let file = RuleFile::parse(&text);
        let again = RuleFile::parse(&file.to_string());
        prop_assert_eq!(&again.errors, &[]);
        let statements = |file: &RuleFile| -> Vec<Statement> {
            file.statements.iter().map(|located| located.statement.clone()).collect()
        };
        prop_assert_eq!(statements(&again), statements(&file));
    }

    #[test]
    fn what_was_read_does_not_depend_on_what_follows(text in "([a-z0-9*:./# -]|use os |udp_sender |[*]:1|\n){0,60}") {
        let whole = RuleFile::parse(&text);
        for (end, _) in text.match_indices('\n') {
            let part = RuleFile::parse(&text[..end]);
            prop_assert!(whole.statements.starts_with(&part.statements));
            prop_assert!(whole.errors.starts_with(&part.errors));
        }
    }
}
