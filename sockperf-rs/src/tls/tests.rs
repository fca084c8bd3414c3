use std::net::TcpListener;
use std::thread;

use super::*;

const CIPHERS: [&str; 6] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
];

const SOON: Duration = Duration::from_secs(20);

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(SOON)).unwrap();
    (client, server)
}

/// Receives exactly as many bytes; `None` if the peer closes before.
fn receive(stream: &TlsStream, len: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; len + 65_536];
    let mut taken = 0;
    while taken < len {
        match stream.receive(&mut bytes[taken..]) {
            Ok(0) => return Ok(None),
            Ok(more) => taken += more,
            Err(error) => unless_blocked(error)?,
        }
    }
    bytes.truncate(taken);
    Ok(Some(bytes))
}

#[test]
fn every_cipher_carries_messages_of_every_size_in_both_directions() {
    for cipher in CIPHERS {
        let acceptor = Acceptor::new(cipher).unwrap();
        let (client, server) = sockets();
        let echo = thread::spawn(move || {
            let server = acceptor.accept(server).unwrap();
            for len in [14, 1, 20_000, 1_000_000] {
                let bytes = receive(&server, len).unwrap().unwrap();
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(100_000));
                    match server.send(now, false) {
                        Ok(_) => rest = later,
                        Err(error) => unless_blocked(error).unwrap(),
                    }
                }
            }
            // The client says good-bye.
            assert_eq!(receive(&server, 1).unwrap(), None);
        });
        let client = connect(client, cipher, SOON).unwrap();
        for len in [14_usize, 1, 20_000, 1_000_000] {
            let sent: Vec<u8> = (0..len).map(|n| (n % 251).try_into().unwrap()).collect();
            // One thread sends while another one receives.
            thread::scope(|scope| {
                let reader = scope.spawn(|| receive(&client, sent.len()).unwrap().unwrap());
                assert_eq!(client.send(&sent, false).unwrap(), len);
                assert!(reader.join().unwrap() == sent, "{cipher}, {len} bytes");
            });
        }
        drop(client);
        echo.join().unwrap();
    }
}

#[test]
fn a_full_socket_blocks_and_loses_nothing() {
    let acceptor = Acceptor::new(DEFAULT_CIPHER).unwrap();
    let (client, server) = sockets();
    let (go_tx, go) = std::sync::mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let server = acceptor.accept(server).unwrap();
        // The handshake.
        assert!(server.receive(&mut [0; 65_536]).is_err());
        go.recv().ok();
        let mut total = 0;
        while let Some(bytes) = receive(&server, 1).unwrap() {
            assert!(bytes.iter().all(|&byte| byte == 7));
            total += bytes.len();
        }
        total
    });
    let client = connect(client, DEFAULT_CIPHER, SOON).unwrap();
    let message = [7; 50_000];
    let mut sent = 0;
    let error = loop {
        match client.send(&message, true) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    go_tx.send(()).unwrap();
    client.send(&message, false).unwrap();
    drop(client);
    assert_eq!(reader.join().unwrap(), sent + message.len());
}

#[test]
fn peers_without_tls_or_with_another_cipher_are_refused() {
    let acceptor = Acceptor::new(DEFAULT_CIPHER).unwrap();
    let (mut client, server) = sockets();
    let server = acceptor.accept(server).unwrap();
    client.write_all(&[0; 64]).unwrap();
    let error = receive(&server, 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);

    let (client, server) = sockets();
    let other = thread::spawn(move || {
        let server = acceptor.accept(server).unwrap();
        receive(&server, 1).unwrap_err().kind()
    });
    let error = connect(client, "TLS_AES_256_GCM_SHA384", SOON).unwrap_err();
    assert!(
        error.to_string().contains("TLS handshake failed"),
        "{error}"
    );
    assert_eq!(other.join().unwrap(), io::ErrorKind::InvalidData);

    let error = Acceptor::new("RC4-MD5").unwrap_err().to_string();
    assert!(error.contains("Unsupported cipher: RC4-MD5"), "{error}");
    assert!(CIPHERS.into_iter().all(has_cipher) && !has_cipher("AES128-GCM-SHA256"));
}
