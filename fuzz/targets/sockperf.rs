//! What sockperf-rs reads of others: datagrams and streams of any bytes, feed files, time lines. A
//! server answers a message with as many bytes as the message has, so what it says is never more
//! than what it was told.

#![no_main]

use std::os::unix::net::UnixDatagram;

use libfuzzer_sys::fuzz_target;
use sockperf_rs::client::time_line::TimeLine;
use sockperf_rs::message::{HEADER_LEN, Header};
use sockperf_rs::net::address::Peer;
use sockperf_rs::net::feed;
use sockperf_rs::net::inbox::Inbox;
use sockperf_rs::net::socket::Socket;
use sockperf_rs::options::Options;
use sockperf_rs::options::args::{self, Invocation};
use sockperf_rs::server::sessions::{Client, Sessions};
use sockperf_rs::server::{Handler, Serving};
use sockperf_rs::sys::clock::Clock;
use sockperf_rs::sys::stop::Stop;
use sockperf_rs::terminal::{Output, Style};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else {
        return;
    };
    match choice % 5 {
        0 => datagrams(bytes),
        1 => stream(bytes),
        2 => feed_lines(&String::from_utf8_lossy(bytes)),
        3 => time_line(&String::from_utf8_lossy(bytes)),
        _ => answers(bytes),
    }
});

/// The first byte of each piece is its length.
fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&len, rest) = bytes.split_first()?;
        let (piece, rest) = rest.split_at(usize::from(len).min(rest.len()));
        bytes = rest;
        Some(piece)
    })
}

fn fill(inbox: &mut Inbox, piece: &[u8]) {
    inbox.space()[..piece.len()].copy_from_slice(piece);
    inbox.filled(piece.len());
}

fn datagrams(bytes: &[u8]) {
    let mut inbox = Inbox::for_datagrams();
    let mut sessions = Sessions::new(true);
    let clock = Clock::monotonic();
    let mut output = Output::new(Box::new(std::io::sink()), Style::PLAIN);
    let mut messages = 0;
    for piece in pieces(bytes) {
        fill(&mut inbox, piece);
        let (mut taken, mut malformed) = (0, 0);
        while let Some(next) = inbox.next() {
            match next {
                Ok((header, message)) => {
                    assert_eq!(header.len as usize, message.len());
                    assert!(message.len() >= HEADER_LEN);
                    assert_eq!(message, &piece[taken..taken + message.len()]);
                    taken += message.len();
                    messages += 1;
                    let client = Client::Unix(header.sequence % 3);
                    sessions.message(header, client, &clock, &mut output);
                }
                Err(_) => malformed += 1,
            }
        }
        // Whole messages, and at most one complaint about the rest.
        assert_eq!(
            malformed,
            usize::from(taken < piece.len() || piece.is_empty())
        );
    }
    let summaries = sessions.finish();
    let received: u64 = summaries.iter().map(|it| it.received + it.duplicated).sum();
    assert!(received <= messages);
}

fn stream(bytes: &[u8]) {
    const LEN_MAX: usize = 300;
    let mut inbox = Inbox::for_stream(LEN_MAX);
    let all: Vec<u8> = pieces(bytes).flatten().copied().collect();
    let mut taken = 0;
    for piece in pieces(bytes) {
        fill(&mut inbox, piece);
        while let Some(next) = inbox.next() {
            let Ok((header, message)) = next else {
                // What stands there is no message, or too long a one.
                let len = Header::announced_len(&all[taken..]);
                assert!(len.is_some_and(|len| !(HEADER_LEN..=LEN_MAX).contains(&len)));
                return;
            };
            assert_eq!(header.len as usize, message.len());
            assert_eq!(message, &all[taken..taken + message.len()]);
            taken += message.len();
        }
    }
}

/// No message has more than one answer, nor a longer one.
fn answers(bytes: &[u8]) {
    let arguments = ["server", "-g"].map(str::to_owned);
    let Ok(Invocation::Run(Options::Server(options))) = args::parse(arguments, None) else {
        unreachable!("a server's command line");
    };
    let serving = Serving {
        options: &options,
        clock: &Clock::monotonic(),
        stop: &Stop::new(),
        output: Output::new(Box::new(std::io::sink()), Style::PLAIN),
        tls: None,
        filters: None,
    };
    let (socket, client) = UnixDatagram::pair().expect("two sockets");
    client
        .set_nonblocking(true)
        .expect("a socket that does not block");
    let socket = Socket::UnixDatagram(socket);
    let mut handler = Handler::new(&serving);
    let mut inbox = Inbox::for_datagrams();
    let mut answer = [0; 512];
    for piece in pieces(bytes) {
        fill(&mut inbox, piece);
        while let Some(next) = inbox.next() {
            let Ok((header, message)) = next else {
                handler.malformed_datagram();
                continue;
            };
            let len = message.len();
            handler
                .message(
                    header,
                    message,
                    Client::Unix(0),
                    (&socket, &Peer::Connected),
                )
                .expect("room for an answer");
            if let Ok(answered) = client.recv(&mut answer) {
                assert_eq!(answered, len);
            }
            assert!(client.recv(&mut answer).is_err());
        }
    }
}

fn feed_lines(text: &str) {
    for line in text.lines() {
        if let Ok(Some(entry)) = feed::parse_line(line) {
            assert!(!entry.host.is_empty());
            assert!(entry.port.is_some() || entry.host.starts_with('/'));
        }
    }
}

fn time_line(text: &str) {
    if let Ok(line) = TimeLine::parse(text) {
        let times = line.messages().iter().map(|message| message.after_nsec);
        assert!(times.is_sorted());
    }
}
