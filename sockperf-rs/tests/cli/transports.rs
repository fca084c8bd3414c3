//! Addresses of every family, feed files, multiplexers, threads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use sockperf_rs::message::{Flags, Header};

use crate::harness::{
    Server, at_the_same_time, echo, free_port, number_after, ours, output, stderr, stdout,
};

#[track_caller]
fn result(arguments: &str) -> Value {
    let output = output(ours(&format!("{arguments} --json -")));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments}: {}",
        stderr(&output)
    );
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[track_caller]
fn assert_complete(json: &Value) {
    let total = &json["result"]["total"];
    assert!(total["sent_messages"].as_u64().unwrap() > 100, "{json}");
    for key in ["duplicated", "unexpected", "malformed"] {
        assert_eq!(json["result"]["replies"][key], 0, "{json}");
    }
    assert_eq!(json["result"]["valid"]["dropped"], 0, "{json}");
}

#[test]
fn unix_sockets_of_both_kinds() {
    at_the_same_time(["", "--tcp"], |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let path = path.display();
        let server = Server::start(ours(&format!("sr -i {path} {options}")));
        assert!(server.text.contains(&format!("[ 0] ADDR = {path} # ")));
        for mode in ["pp -t 1 --mps 2000", "ul -t 1 --mps 2000 --reply-every 2"] {
            assert_complete(&result(&format!("{mode} -i {path} {options}")));
        }
        let (code, text) = server.end(Signal::INT);
        assert_eq!(code, Some(0), "{text}");
        // No name is left behind.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    });
}

#[test]
fn ipv6_over_tcp() {
    let port = free_port();
    let server = Server::start(ours(&format!("sr -i ::1 -p {port} --tcp -m 200000")));
    assert_complete(&result(&format!(
        "pp -i ::1 -p {port} --tcp -t 1 -m 100000"
    )));
    server.end(Signal::INT);
}

#[test]
fn every_multiplexer_serves_a_feed_file() {
    let variants = [
        ("-F e", "-F s"),
        ("-F p --threads-num 2", "-F p"),
        (
            "-F s --nonblocked --recv_looping_num=-1",
            "-F e --timeout 0",
        ),
        ("-F r", "-F r"),
    ];
    at_the_same_time(variants, |(server_options, client_options)| {
        let directory = tempfile::tempdir().unwrap();
        let [listen, feed] = ["listen", "feed"].map(|name| directory.path().join(name));
        let [a, b, c, d] = [free_port(), free_port(), free_port(), free_port()];
        let text = format!(
            "# both kinds\nU:127.0.0.1:{a}\n127.0.0.1:{b}\nT:127.0.0.1:{c}\nT:localhost:{d}\n"
        );
        // A port cannot be listened on twice, but connected to.
        std::fs::write(&listen, &text).unwrap();
        std::fs::write(&feed, format!("{text}T:127.0.0.1:{c}\n")).unwrap();
        let (listen, feed) = (listen.display(), feed.display());
        let server = Server::start(ours(&format!("sr -f {listen} {server_options}")));
        for mode in [
            "pp -t 1 --mps 1000",
            "ul -t 1 --mps 1000 --reply-every 2",
            "tp -t 1 --mps 1000",
        ] {
            let json = result(&format!("{mode} -f {feed} {client_options}"));
            if mode.starts_with("tp") {
                assert!(json["result"]["sent_messages"].as_u64().unwrap() > 100);
            } else {
                assert_complete(&json);
            }
        }
        let (code, text) = server.end(Signal::INT);
        assert_eq!(code, Some(0), "{text}");
        assert!(number_after(&text, "sockperf: Total ") > 1000.0, "{text}");
    });
}

fn request(sequence: u64, claimed_len: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Header {
        sequence,
        flags: Flags(3),
        len: claimed_len,
    }
    .write(&mut bytes);
    bytes
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
}

#[test]
fn many_tcp_clients_are_served_at_a_time_and_bad_ones_closed() {
    for options in ["--tcp", "--tcp --nonblocked"] {
        let server = Server::ours(options);
        let mut streams: Vec<TcpStream> = (0..50).map(|_| connect(&server)).collect();
        // In two parts, to all, before anybody gets an answer.
        let message = request(1, 200, 200);
        for part in [&message[..7], &message[7..]] {
            for stream in &mut streams {
                stream.write_all(part).unwrap();
            }
            thread::sleep(Duration::from_millis(50));
        }
        for stream in &mut streams {
            let mut reply = [0; 200];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply[..], echo(&message));
        }
        for (claimed_len, what) in [
            (0, "zero"),
            (13, "short"),
            (65_508, "long"),
            (u32::MAX, "huge"),
        ] {
            let mut stream = connect(&server);
            stream.write_all(&request(1, claimed_len, 14)).unwrap();
            let mut rest = Vec::new();
            // Closed, by a FIN or a RST, without an answer.
            stream.read_to_end(&mut rest).ok();
            assert!(rest.is_empty(), "{what}");
        }
        streams[0].write_all(&message).unwrap();
        streams[0].read_exact(&mut [0; 200]).unwrap();
        let (code, text) = server.end(Signal::INT);
        assert_eq!(code, Some(0));
        assert_eq!(number_after(&text, "sockperf: Total "), 51.0, "{text}");
        assert!(text.contains("# malformed streams = 4\n"), "{text}");
    }
}

#[test]
fn a_server_that_goes_away_ends_the_client_with_status_7() {
    for mode in ["pp", "ul --reply-every 1"] {
        let server = Server::ours("--tcp");
        let line = format!("{mode} --tcp -i 127.0.0.1 -p {} -t 60", server.port);
        let client = thread::spawn(move || output(ours(&line)));
        thread::sleep(Duration::from_secs(1));
        server.end(Signal::INT);
        let output = client.join().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
        let text = stderr(&output);
        assert!(text.contains("closed by a peer"), "{text}");
    }
}
