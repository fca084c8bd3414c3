//! Options of streams and listeners, on the kernel and with the library: those that leave a socket past the kernel, and what the kernel's
//! socket has of them.

use std::path::{Path, PathBuf};

use testkit::{Comparison, THREADED_VARIANTS, echo_streams};

/// Where the C program finds a peer that accepts, and sends back what comes.
const PORT: u16 = 7103;

fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/stream_options.c");
    testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
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
fn several_messages_are_asked_of_a_stream() {
    kept("many_messages");
}

#[test]
fn what_comes_with_datagrams_concerns_no_stream() {
    given("of_datagrams", 2);
}
