use std::net::UdpSocket;

use crate::harness::{ours, output, stderr, stdout};

#[test]
fn help_goes_to_stdout_and_succeeds() {
    for arguments in ["", "help", "--version", "pp --help", "sr -?"] {
        let output = output(ours(arguments));
        assert_eq!(output.status.code(), Some(0), "{arguments}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{arguments}"
        );
    }
}

#[test]
fn errors_go_to_stderr_and_fail() {
    for (arguments, message) in [
        ("pp --tcp", "sockperf: ERROR: not supported yet: --tcp\n"),
        ("ul", "sockperf: ERROR: not supported yet: ul\n"),
        ("pp --nosuch", "unexpected argument '--nosuch'"),
        ("nosuch", "unknown command 'nosuch'"),
        ("pp -t 0", "'-t' Invalid duration: 0"),
        ("pp -i 224.1.1.1", "not supported yet: multicast"),
        (
            "pp -i no.such.host.invalid",
            "invalid address 'no.such.host.invalid'",
        ),
        (
            "pp --client_ip 192.0.2.1",
            "cannot bind socket to 192.0.2.1:0",
        ),
        (
            "pp --json /no/such/dir/x",
            "cannot open file /no/such/dir/x",
        ),
        (
            "pp --full-log /no/such/dir/x",
            "cannot open file /no/such/dir/x",
        ),
        (
            "pp -p 9 --sender-affinity 1023",
            "cannot set thread affinity to CPUs [1023]",
        ),
    ] {
        let output = output(ours(arguments));
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        assert!(
            stderr(&output).contains(message),
            "{arguments}: {}",
            stderr(&output)
        );
        assert!(!stdout(&output).contains("ERROR"), "{arguments}");
    }
}

#[test]
fn port_in_use_fails() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let output = output(ours(&format!("sr -i 127.0.0.1 -p {}", address.port())));
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("cannot bind socket to {address}: Address already in use");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}
