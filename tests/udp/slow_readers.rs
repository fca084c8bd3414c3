//! Sockets that a program does not read hold what the kernel's hold, and cost its other sockets
//! nothing.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running, SOON, or_skip, preloaded};

const UNREAD: [u16; 2] = [7411, 7412];
const READ: u16 = 7413;
/// Datagrams for each of the unread sockets, in bursts: together more than the pool has frames
/// (8192).
const BURSTS: u32 = 400;
const BURST: usize = 16;

/// Runs the program while its sockets get datagrams; returns how many each of the unread ones held.
fn held(pair: &Pair, command: Command) -> Vec<u32> {
    let mut program = Running::start(command).unwrap();
    assert!(
        program.wait_for_output("ready", SOON),
        "{}",
        program.stderr()
    );
    let peer = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let comes_back = |text: &[u8]| {
        let mut buffer = [0; 16];
        peer.send_to(text, (Pair::ADDRESS_B, READ)).unwrap();
        let len = peer.recv(&mut buffer).expect("nothing is lost");
        assert_eq!(&buffer[..len], text);
    };
    for number in 0..BURSTS {
        for _ in 0..BURST {
            for port in UNREAD {
                peer.send_to(&[7; 64], (Pair::ADDRESS_B, port)).unwrap();
            }
        }
        comes_back(&number.to_ne_bytes());
    }
    comes_back(b"end");
    assert!(program.wait_for_output(".\n", SOON), "{}", program.stderr());
    let finished = program.wait(SOON).unwrap();
    let (_, counts) = finished
        .stdout
        .split_once("held")
        .expect("it says how many");
    counts
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[test]
fn sockets_that_are_not_read_hold_what_the_kernels_do_and_cost_others_nothing() {
    let pair = or_skip!(Namespaces::pair());
    let program = testkit::c_program("slow_readers");
    let kernels = held(&pair, pair.b.command(&program));
    let ours = held(&pair, preloaded(&pair.b, &program).unwrap());
    println!("held: {kernels:?} by the kernel, {ours:?} with the library");
    assert_eq!((kernels.len(), ours.len()), (2, 2));
    for (kernels, ours) in kernels.into_iter().zip(ours) {
        // Kernels differ a little in what a buffer costs.
        assert!(ours.abs_diff(kernels) * 5 <= kernels, "{ours} {kernels}");
    }
}
