//! Who may bind the port of a stream past the kernel (`SO_REUSEADDR`), on the kernel and with the
//! library.

use std::path::PathBuf;

use testkit::{Comparison, Pair, Skip, THREADED_VARIANTS, Variant, echo_streams, or_skip};

/// Where the C program finds a peer that accepts, and sends back what comes.
const PORT: u16 = 7104;

fn program() -> PathBuf {
    testkit::c_program("stream_ports")
}

/// One way is enough: what is asked is the kernel.
const PLAIN: &[Variant] = THREADED_VARIANTS.split_at(1).0;

fn compared(case: &str) -> Result<String, Skip> {
    let stage4 = Comparison::new()?;
    echo_streams(&stage4.pair.a, Pair::ADDRESS_A, PORT).unwrap();
    stage4.assert_same(&program(), &[case], PLAIN);
    let stage6 = Comparison::over_real_ipv6()?;
    echo_streams(&stage6.pair.a, Pair::IPV6_ADDRESS_A, PORT).unwrap();
    stage6.assert_same(&program(), &[case], PLAIN);
    Ok(stage4.preloaded(&program(), &[case], &[]).unwrap().stderr)
}

#[test]
fn the_port_of_a_client_is_its_own() {
    let log = or_skip!(compared("clients"));
    assert_eq!(log.matches(": past the kernel by ").count(), 4, "{log}");
    assert_eq!(log.matches("the kernel (SO_MARK)").count(), 4, "{log}");
}

#[test]
fn the_port_of_an_accepted_connection_is_its_own() {
    let log = or_skip!(compared("accepted"));
    assert_eq!(log.matches("the kernel (SO_MARK)").count(), 2, "{log}");
}

#[test]
fn a_socket_without_a_connection_keeps_the_option() {
    let log = or_skip!(compared("failed"));
    assert_eq!(log.matches(": past the kernel by ").count(), 2, "{log}");
}
