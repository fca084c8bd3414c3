//! TLS between our own ends, and with OpenSSL as a second opinion.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use sockperf_rs::message::{Flags, Header};
use testkit::panic_unless_paused;

use crate::harness::{Server, echo, free_port, has, number_after, ours, output, stderr, stdout};

#[test]
fn every_mode_works_over_tls() {
    panic_unless_paused(|| {
        let server = Server::ours("--tcp --tls -m 200000");
        let target = format!("-i 127.0.0.1 -p {} --tcp --tls", server.port);
        for mode in [
            "pp -t 1 -m 1000 --data-integrity",
            "pp -t 1 -m 100000 --mps 200",
            "ul -t 1 --mps 2000 --reply-every 2",
            "tp -t 1 --mps 5000 --bidir --threads 2",
        ] {
            let output = output(ours(&format!("{mode} {target} --json -")));
            assert_eq!(output.status.code(), Some(0), "{mode}: {}", stderr(&output));
            let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
            let result = &json["result"];
            if mode.starts_with("tp") {
                assert_eq!(result["returned"]["missing_messages"], 0, "{json}");
            } else {
                assert!(
                    result["total"]["received_messages"].as_u64().unwrap() > 100,
                    "{json}"
                );
                assert_eq!(result["valid"]["dropped"], 0, "{json}");
            }
        }
        let (code, text) = server.end(Signal::INT);
        assert_eq!(code, Some(0), "{text}");
        assert!(!text.contains("malformed"), "{text}");
    });
}

#[test]
fn multiplexers_serve_encrypted_connections() {
    panic_unless_paused(|| {
        let directory = tempfile::tempdir().unwrap();
        let feed = directory.path().join("feed");
        let text = format!("T:127.0.0.1:{}\nU:127.0.0.1:{}\n", free_port(), free_port());
        std::fs::write(&feed, text).unwrap();
        let feed = feed.display();
        for call in ["e", "p", "s"] {
            let server = Server::start(ours(&format!(
                "sr -f {feed} -F {call} --tls --uc-reuseaddr"
            )));
            let line =
                format!("ul -f {feed} -F {call} --tls -t 1 --mps 1000 --reply-every 2 --json -");
            let output = output(ours(&line));
            assert_eq!(output.status.code(), Some(0), "{call}: {}", stderr(&output));
            let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
            assert_eq!(json["result"]["valid"]["dropped"], 0, "{call}: {json}");
            server.end(Signal::INT);
        }
    });
}

#[test]
fn a_peer_without_tls_harms_nobody() {
    let server = Server::ours("--tcp --tls");
    let mut plain = TcpStream::connect(server.address()).unwrap();
    plain
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    plain.write_all(&[0; 100]).unwrap();
    let mut rest = Vec::new();
    plain.read_to_end(&mut rest).ok();
    let line = format!("pp -i 127.0.0.1 -p {} --tcp --tls -t 1", server.port);
    assert_eq!(output(ours(&line)).status.code(), Some(0));
    server.end(Signal::INT);

    let server = Server::ours("--tcp");
    let line = format!("pp -i 127.0.0.1 -p {} --tcp --tls -t 1", server.port);
    let output = output(ours(&line));
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("TLS handshake failed"), "{text}");
    server.end(Signal::INT);
}

#[test]
fn openssl_exchanges_messages_with_our_server() {
    if !has("openssl") {
        return;
    }
    for (server_options, client_options, protocol) in [
        ("--tls", "-ciphersuites TLS_AES_128_GCM_SHA256", "TLSv1.3"),
        (
            "--tls=ECDHE-ECDSA-AES128-GCM-SHA256",
            "-cipher ECDHE-ECDSA-AES128-GCM-SHA256",
            "TLSv1.2",
        ),
    ] {
        let server = Server::ours(&format!("--tcp {server_options}"));
        let line = format!(
            "s_client -connect 127.0.0.1:{} -quiet {client_options}",
            server.port
        );
        let mut client = Command::new("/usr/bin/openssl")
            .args(line.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut request = vec![b'x'; 64];
        Header {
            sequence: 7,
            flags: Flags(3),
            len: 64,
        }
        .write(&mut request);
        client.stdin.as_mut().unwrap().write_all(&request).unwrap();
        let mut reply = [0; 64];
        let read = client.stdout.as_mut().unwrap().read_exact(&mut reply);
        client.kill().unwrap();
        client.wait().unwrap();
        read.unwrap();
        assert_eq!(reply[..], echo(&request), "{protocol}");
        let (_, text) = server.end(Signal::INT);
        assert_eq!(
            number_after(&text, "sockperf: Total "),
            1.0,
            "{protocol}: {text}"
        );
    }
}

#[test]
fn our_client_completes_a_handshake_with_openssl() {
    if !has("openssl") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (key, certificate) = (file("key"), file("certificate"));
    let line = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {key} -out \
         {certificate} -subj /CN=test -days 1"
    );
    let mut command = Command::new("/usr/bin/openssl");
    command.args(line.split_whitespace());
    assert!(output(command).status.success());
    let port = free_port();
    // Sends back every line, backwards: no message, which ends our client with status 6 or 7, but
    // not 1.
    let line = format!("s_server -accept {port} -key {key} -cert {certificate} -rev");
    let mut server = Command::new("/usr/bin/openssl")
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap());
    let mut ready = String::new();
    while !ready.contains("ACCEPT") && lines.read_line(&mut ready).unwrap() > 0 {}
    let output = output(ours(&format!("pp -i 127.0.0.1 -p {port} --tcp --tls -t 1")));
    server.kill().unwrap();
    server.wait().unwrap();
    let text = stdout(&output);
    assert!(
        text.contains("Starting test..."),
        "{text}{}",
        stderr(&output)
    );
    assert!(
        !stderr(&output).contains("handshake"),
        "{}",
        stderr(&output)
    );
}
