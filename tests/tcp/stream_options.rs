//! Options of streams and listeners, on the kernel and with the library: those that leave a socket
//! past the kernel, and what the kernel's socket has of them.

use std::io::Write;
use std::path::PathBuf;

use testkit::{
    Comparison, FAR_ADDRESS, Namespaces, Running, SOON, THREADED_VARIANTS, echo_streams, far_host,
    or_skip, preloaded,
};

/// Where the C program finds a peer that accepts, and sends back what comes.
const PORT: u16 = 7103;

fn program() -> PathBuf {
    testkit::c_program("stream_options")
}

/// A case over IPv4 and IPv6. The library's logs of one more run over each.
fn compared(case: &str) -> Vec<String> {
    let mut logs = Vec::new();
    for made in [Comparison::new(), Comparison::over_real_ipv6()] {
        let stage = match made {
            Ok(stage) => stage,
            Err(reason) => {
                testkit::skip(reason);
                continue;
            }
        };
        echo_streams(&stage.pair.a, testkit::Pair::ADDRESS_A, PORT).unwrap();
        if logs.len() == 1 {
            echo_streams(&stage.pair.a, testkit::Pair::IPV6_ADDRESS_A, PORT).unwrap();
        }
        stage.assert_same(&program(), &[case], &THREADED_VARIANTS[..2]);
        let run = stage.preloaded(&program(), &[case], &[]).unwrap();
        assert!(run.stderr.contains("past the kernel"), "{}", run.stderr);
        logs.push(run.stderr);
    }
    logs
}

/// A case whose streams stay the library's.
fn kept(case: &str) {
    for log in compared(case) {
        assert!(!log.contains("back to the kernel"), "{log}");
    }
}

/// A case of which only the streams go to the kernel that are given to it: so many.
fn kept_but(case: &str, count: usize) {
    for log in compared(case) {
        assert_eq!(log.matches("back to the kernel").count(), count, "{log}");
    }
}

/// A case whose streams go to the kernel, so many at least.
fn given(case: &str, count: usize) {
    for log in compared(case) {
        let returns = log.matches("back to the kernel").count();
        assert!(returns >= count, "{returns} of {count}: {log}");
        assert!(!log.contains("lost") && !log.contains("reset"), "{log}");
    }
}

#[test]
fn a_client_is_bound_to_its_interface() {
    kept("device_of_client");
}

#[test]
fn connections_are_bound_as_their_listener() {
    kept("device_of_listener");
}

#[test]
fn what_is_bound_goes_to_the_kernel_whole() {
    given("device_handed_over", 4);
}

#[test]
fn what_is_bound_elsewhere_is_the_kernels() {
    given("device_is_another", 1);
}

#[test]
fn listeners_of_two_interfaces_share_a_port() {
    compared("device_of_each");
}

#[test]
fn octets_have_times_of_arrival() {
    kept_but("times", 1);
}

#[test]
fn each_receive_tells_what_is_left() {
    kept_but("unread", 1);
}

#[test]
fn segments_from_afar_are_dropped() {
    kept_but("from_afar", 1);
}

#[test]
fn the_segment_that_opens_a_connection_is_kept() {
    kept_but("opening_segment", 3);
}

#[test]
fn another_protocol_above_is_looked_for_by_the_kernel() {
    given("upper_protocol", 2);
}

/// What the program prints while the test blocks the way beyond a router, and opens it, when it is
/// told to.
fn told_by_icmp(is_preloaded: bool) -> Result<(String, String), testkit::Skip> {
    let pair = Namespaces::pair()?;
    let far = far_host(&pair, 1500)?;
    echo_streams(&far, FAR_ADDRESS, PORT).unwrap();
    let mut command = if is_preloaded {
        preloaded(&pair.b, &program()).unwrap()
    } else {
        pair.b.command(program())
    };
    command.env("VMA_TRACELEVEL", "debug").arg("told_by_icmp");
    let mut process = Running::start_interactive(command).unwrap();
    let mut input = process.stdin().unwrap();
    for round in 0..3 {
        for (word, change) in [("block", "add"), ("open", "del")] {
            let is_asked = process.wait_for_output(&format!("{word} {round}\n"), SOON);
            assert!(is_asked, "{}{}", process.stdout(), process.stderr());
            let route = ["route", change, "unreachable", "10.99.0.2/32"];
            pair.a.ip(&route).unwrap();
            writeln!(input, "done").unwrap();
        }
    }
    let finished = process.wait(SOON).unwrap();
    Ok((finished.stdout, finished.stderr))
}

#[test]
fn who_asks_for_errors_is_told_by_icmp_at_once() {
    let (expected, _) = or_skip!(told_by_icmp(false));
    let (seen, log) = or_skip!(told_by_icmp(true));
    assert_eq!(seen, expected, "{log}");
    assert!(expected.contains("over\n"), "{expected}");
    assert!(log.contains("past the kernel by v"), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn several_messages_are_asked_of_a_stream() {
    kept("many_messages");
}

#[test]
fn what_comes_with_datagrams_concerns_no_stream() {
    given("of_datagrams", 2);
}
