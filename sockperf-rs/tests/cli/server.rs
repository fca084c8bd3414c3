use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use sockperf_rs::message::{Flags, Header};

use crate::harness::{Server, echo};

fn client(server: &Server) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    socket
}

fn message(sequence: u64, flags: u16, claimed_len: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; len];
    Header {
        sequence,
        flags: Flags(flags),
        len: claimed_len,
    }
    .write(&mut bytes);
    bytes
}

fn exchange(socket: &UdpSocket, request: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    socket.send(request).unwrap();
    let len = socket.recv(&mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

/// Asserts that the server has nothing more to say: the next thing it says is the answer to this.
#[track_caller]
fn assert_silent(socket: &UdpSocket) {
    let probe = message(99, 3, 20, 20);
    assert_eq!(exchange(socket, &probe), echo(&probe));
}

#[test]
fn echoes_with_only_the_client_bit_cleared() {
    let server = Server::ours("");
    let socket = client(&server);
    for (flags, len) in [(0x0003, 14), (0xfff3, 14), (0x0003, 1472), (0x0003, 65_507)] {
        let request = message(7, flags, u32::try_from(len).unwrap(), len);
        assert_eq!(
            exchange(&socket, &request),
            echo(&request),
            "{flags:#x} {len}"
        );
    }
    let (code, text) = server.end(Signal::INT);
    assert_eq!(code, Some(0));
    // 0xfff3 has the warm-up bit clear (bit 2), so all four count.
    assert!(
        text.contains("Total 4 messages received and handled\n"),
        "{text}"
    );
    assert!(
        text.ends_with("sockperf: cleanupAfterLoop() exit\n"),
        "{text}"
    );
}

#[test]
fn malformed_datagrams_are_counted_and_harm_nobody() {
    let server = Server::ours("");
    let socket = client(&server);
    let malformed = [
        vec![],
        vec![0; 13],
        message(1, 3, 0, 14),
        message(1, 1, 0, 14),
        message(1, 3, 13, 14),
        message(1, 3, 15, 14),
        message(1, 3, u32::MAX, 64),
        message(1, 3, 65_508, 65_507),
    ];
    for datagram in &malformed {
        socket.send(datagram).unwrap();
        assert_silent(&socket);
    }
    // A whole message with an incomplete one behind it: answered, and counted as malformed.
    let mut request = message(1, 3, 20, 20);
    request.extend([0; 5]);
    assert_eq!(exchange(&socket, &request), echo(&request[..20]));
    assert_silent(&socket);
    let (code, text) = server.end(Signal::INT);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("Total 10 messages received and handled\n"),
        "{text}"
    );
    assert!(text.contains("# malformed datagrams = 9\n"), "{text}");
}

#[test]
fn two_messages_in_a_datagram_get_two_replies() {
    let server = Server::ours("");
    let socket = client(&server);
    let (first, second) = (message(1, 3, 14, 14), message(2, 3, 20, 20));
    let both = [first.clone(), second.clone()].concat();
    assert_eq!(exchange(&socket, &both), echo(&first));
    let mut buffer = [0; 64];
    assert_eq!(socket.recv(&mut buffer).unwrap(), 20);
    assert_eq!(buffer[..20], echo(&second));
}

#[test]
fn messages_that_want_no_reply_get_none() {
    let server = Server::ours("");
    let socket = client(&server);
    for flags in [0x0000, 0x0001, 0x0002, 0x0004, 0x0005, 0x0007] {
        socket.send(&message(1, flags, 14, 14)).unwrap();
        assert_silent(&socket);
    }
    let (_, text) = server.end(Signal::INT);
    // 0x0001 and the six probes.
    assert!(
        text.contains("Total 7 messages received and handled\n"),
        "{text}"
    );
}

#[test]
fn dont_reply_counts_without_answering() {
    let server = Server::ours("--dont-reply");
    let socket = client(&server);
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    socket.send(&message(1, 3, 14, 14)).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err());
    let (_, text) = server.end(Signal::TERM);
    assert!(
        text.contains("Total 1 messages received and handled\n"),
        "{text}"
    );
}

#[test]
fn blocked_and_spinning_servers_end_on_a_signal() {
    for (arguments, signal) in [
        ("", Signal::INT),
        ("", Signal::TERM),
        ("--nonblocked", Signal::INT),
        ("--tos 8", Signal::TERM),
    ] {
        let server = Server::ours(arguments);
        thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        let (code, text) = server.end(signal);
        assert_eq!(code, Some(0), "{arguments}");
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{arguments}: {:?}",
            start.elapsed()
        );
        assert!(
            text.contains("No messages were received on the server.\n"),
            "{text}"
        );
    }
}

#[test]
fn gaps_are_reported_as_they_appear_and_in_total() {
    let server = Server::ours("-g");
    let socket = client(&server);
    for sequence in [1, 5, 6, 3, 1000] {
        let request = message(sequence, 3, 14, 14);
        assert_eq!(exchange(&socket, &request), echo(&request));
    }
    let (_, text) = server.end(Signal::INT);
    let label = format!("{:<23}", format!("[{}]", socket.local_addr().unwrap()));
    for line in [
        format!("Starting new session: {label}\n"),
        format!("{label} Total Dropped/OOO: 3           GAP:(3)     [2 - 4]\n"),
        format!("{label} Total Dropped/OOO: 996         GAP:(993)   [7 - 999]\n"),
        format!("{label} Summary: Total Dropped/OOO: 996\n"),
    ] {
        assert!(
            text.contains(&format!("sockperf: {line}")),
            "{line} in {text}"
        );
    }
}

#[test]
fn activity_and_buffer_sizes_are_printed() {
    let server = Server::ours("-a 2 --buffer-size 20000");
    let socket = client(&server);
    for sequence in 1..=5 {
        exchange(&socket, &message(sequence, 3, 14, 14));
    }
    let (_, text) = server.end(Signal::INT);
    assert!(
        text.starts_with("sockperf: Socket buffers sizes of fd "),
        "{text}"
    );
    assert!(
        text.contains(": RX: 40000 Byte, TX: 40000 Byte\n"),
        "{text}"
    );
    assert!(text.contains("socket(s)\n..\nsockperf: Test end"), "{text}");
}

#[test]
fn json_document_of_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.json");
    let server = Server::ours(&format!("-g --json {}", path.display()));
    let socket = client(&server);
    exchange(&socket, &message(1, 3, 14, 14));
    exchange(&socket, &message(3, 3, 14, 14));
    socket.send(&[0; 5]).unwrap();
    assert_silent(&socket);
    server.end(Signal::INT);
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(json["mode"], "server");
    assert_eq!(json["result"]["handled"], 3);
    assert_eq!(json["result"]["replies"], 3);
    assert_eq!(json["result"]["malformed_datagrams"], 1);
    assert_eq!(json["result"]["sessions"][0]["missing"], 1 + 95);
}
