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
        (
            "pp --load-xlio",
            "sockperf: ERROR: --load-xlio is not supported: ",
        ),
        (
            "pp --load-vma=/no/such/libvma.so",
            "Invalid --load-vma value: /no/such/libvma.so",
        ),
        ("pp --zcopyread", "--zcopyread needs libvma"),
        ("sr -p 0 --zcopyread", "--zcopyread needs libvma"),
        ("pp --set-sock-accl", "cannot set sock-accl"),
        ("pp --nosuch", "unexpected argument '--nosuch'"),
        ("nosuch", "unknown command 'nosuch'"),
        ("pp -t 0", "'-t' Invalid duration: 0"),
        ("pp -i 255.255.255.255", "broadcast is not supported"),
        ("pp --live -i 127.0.0.1", "--live needs a terminal"),
        (
            "pp --tcp -i 127.0.0.1 -p 1",
            "Can`t connect socket to 127.0.0.1:1",
        ),
        (
            "pp -i no.such.host.invalid",
            "invalid address 'no.such.host.invalid'",
        ),
        (
            "pp --client_ip 192.0.2.1",
            "Can`t bind socket to 192.0.2.1:0",
        ),
        ("pp --json /no/such/dir/x", "Can't open file /no/such/dir/x"),
        (
            "pp --full-log /no/such/dir/x",
            "Can't open file /no/such/dir/x",
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
fn files_have_their_own_exit_status() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("feed");
    std::fs::write(&path, "127.0.0.1:5\nnonsense\n").unwrap();
    let (path, directory) = (path.display(), directory.path().display());
    for (arguments, status, message) in [
        (
            "pp -f /no/such/file".to_owned(),
            4,
            "Can't open file: /no/such/file",
        ),
        (format!("pp -f {directory}"), 4, "-not a regular file."),
        (format!("pp -f {path}"), 2, "Invalid input in line 2:"),
        (
            "pb --data-file /no/such/file".to_owned(),
            4,
            "Can't open file: /no/such/file",
        ),
        (format!("pb --data-file {path}"), 2, "at line #1"),
        (
            "compare /no/such/file /no/such/file".to_owned(),
            4,
            "Can't open file",
        ),
    ] {
        let output = output(ours(&arguments));
        assert_eq!(output.status.code(), Some(status), "{arguments}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
}

#[test]
fn port_in_use_fails() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let output = output(ours(&format!("sr -i 127.0.0.1 -p {}", address.port())));
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("Can`t bind socket to {address}: Address already in use");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}
