//! A stream as fast as it goes: on veth it leaves in packets that the device cuts, arrives whole,
//! and goes on segment by segment where the device does not cut any more.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use stats::RingSnapshot;
use testkit::{Accelerated, Namespace, Namespaces, Over, Pair, Running, SOON, or_skip, preloaded};

const PORT: u16 = 7910;
const MEGABYTES: u64 = 64;
/// What veth's segments hold beside the timestamps.
const SEGMENT: u64 = 1448;

/// Takes one stream, checks it, and says how much has come.
fn receiver(namespace: &Namespace) -> JoinHandle<u64> {
    let listener = namespace
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
        loop {
            let count = stream.read(&mut buffer).unwrap();
            if count == 0 {
                return answer(&mut stream, total);
            }
            for (octet, place) in buffer[..count].iter().zip(total..) {
                assert_eq!(u64::from(*octet), place % 251, "octet {place}");
            }
            total += count as u64;
        }
    })
}

fn answer(stream: &mut TcpStream, total: u64) -> u64 {
    stream.write_all(&total.to_ne_bytes()).unwrap();
    total
}

/// Sends it, with `meanwhile` in the middle; what the interface counted.
fn sent(pair: &Pair, len: usize, meanwhile: impl FnOnce()) -> RingSnapshot {
    let received = receiver(&pair.b);
    let program = testkit::c_program("bulk_stream");
    let mut command = preloaded(&pair.a, &program).unwrap();
    command
        .args([Pair::ADDRESS_B.to_string(), PORT.to_string()])
        .args([MEGABYTES.to_string(), len.to_string()]);
    let mut sender = Accelerated::start(command).unwrap();
    let mut input = sender.process().stdin().unwrap();
    let mut until = |word| {
        let process = sender.process();
        assert!(process.wait_for_output(word, SOON), "{}", process.stderr());
    };
    until("half");
    meanwhile();
    input.write_all(b"go\n").unwrap();
    until("all");
    assert_eq!(received.join().unwrap(), MEGABYTES << 20);
    let ring = sender.reader().rings().unwrap().remove(0);
    drop(input);
    let finished = Running::wait(sender.into_process(), SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    ring
}

#[test]
fn a_stream_leaves_in_packets_that_the_device_cuts() {
    or_skip!(testkit::needs_segmentation());
    let pair = or_skip!(Namespaces::pair());
    let ring = sent(&pair, 128 << 10, || {});
    let segments = (MEGABYTES << 20) / SEGMENT;
    assert!(ring.tx_packets >= segments, "{ring:?}");
    assert!(ring.tx_whole > 0, "{ring:?}");
    assert!(ring.tx_whole * 4 < segments, "{ring:?}");
    assert_eq!(ring.tx_whole_refused, 0, "{ring:?}");
}

#[test]
fn writes_of_odd_lengths_make_whole_packets_too() {
    or_skip!(testkit::needs_segmentation());
    let pair = or_skip!(Namespaces::pair());
    let ring = sent(&pair, 7919, || {});
    assert!(ring.tx_whole > 0 && ring.tx_whole_refused == 0, "{ring:?}");
}

#[test]
fn a_device_that_cuts_no_more_gets_segments() {
    or_skip!(testkit::needs_xdp("segmentation by the device"));
    let pair = or_skip!(Namespaces::pair());
    let ring = sent(&pair, 128 << 10, || {
        pair.a.set_segmentation("va", false).unwrap();
    });
    assert!(ring.tx_whole > 0, "{ring:?}");
    assert_eq!(ring.tx_whole_refused, 1, "{ring:?}");
}

#[test]
#[ignore = "takes a kernel with bonds: cargo xtask machine"]
fn a_bond_that_changes_links_loses_no_octet() {
    let pair = or_skip!(Namespaces::new().over(Over::Bond).create());
    pair.add_second_link();
    let ring = sent(&pair, 128 << 10, || {
        pair.a.ip(&["link", "set", "under", "down"]).unwrap();
    });
    assert!(ring.tx_packets >= (MEGABYTES << 20) / SEGMENT, "{ring:?}");
}
