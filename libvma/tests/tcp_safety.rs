//! What has to be right around TCP past the kernel: statistics, resets, errors, addresses that are used again, floods.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use stats::TcpSnapshot;
use testkit::{Accelerated, Namespace, Namespaces, Pair, or_skip, preloaded};

const SOON: Duration = Duration::from_secs(60);
const PORT: u16 = 7910;

fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/tcp_safety.c");
    testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

/// With rules that accelerate every stream.
fn accelerated(namespace: &Namespace, case: &str, address: &str, count: usize) -> Command {
    let rules =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("safety-{}.conf", std::process::id()));
    fs::write(&rules, "use vma tcp_client *:*\nuse vma tcp_server *:*\n").unwrap();
    let mut command = preloaded(namespace, &program()).unwrap();
    command
        .env("VMA_CONFIG_FILE", rules)
        .env("VMA_TRACELEVEL", "4")
        .args([case, address, &PORT.to_string(), &count.to_string()]);
    command
}

fn wait_for(program: &mut Accelerated, word: &str) {
    let is_there = program.process().wait_for_output(word, SOON);
    let process = program.process();
    assert!(is_there, "{}{}", process.stdout(), process.stderr());
}

fn accepted(listener: &TcpListener, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| listener.accept().unwrap().0).collect()
}

#[test]
fn statistics_have_the_numbers_that_peers_expect() {
    const CONNECTIONS: usize = 5;
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    let address = Pair::ADDRESS_B.to_string();
    let command = accelerated(&pair.a, "hold", &address, CONNECTIONS);
    let mut client = Accelerated::start(command).unwrap();
    let peers = accepted(&listener, CONNECTIONS);
    wait_for(&mut client, "ready");
    let rows = |client: &mut Accelerated| client.reader().tcp_connections().unwrap();
    let before = rows(&mut client);
    assert_eq!(before.len(), CONNECTIONS);
    for mut peer in &peers {
        let row = |rows: &[TcpSnapshot]| {
            let local = Some(peer.peer_addr().unwrap());
            rows.iter().find(|row| row.local == local).cloned().unwrap()
        };
        let at_first = row(&before);
        assert_eq!(at_first.peer, Some(peer.local_addr().unwrap()));
        assert_eq!((at_first.state, at_first.fd >= 0), (1, true));
        peer.write_all(b"abc").unwrap();
        // Nobody receives: the internal thread sees it, and it is there long before the gauges.
        let begun = Instant::now();
        while row(&rows(&mut client)).rcv_nxt != at_first.rcv_nxt.wrapping_add(3) {
            assert!(begun.elapsed() < Duration::from_millis(200));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
