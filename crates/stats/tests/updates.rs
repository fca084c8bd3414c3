//! A hundred million updates and reads at once: nothing is read that was never there, and nothing
//! is lost.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stats::{
    Capacity, Identity, MultiplexerSnapshot, MultiplexerStats, Reader, Row, Segment, Shares,
    SocketSnapshot, SocketStats,
};

/// Updates and values read, together.
const OPERATIONS: u64 = 100_000_000;
/// Both halves of a counter to which only this is added are the same.
const STEP: u64 = (1 << 32) | 1;
/// Updates of a packet, and of a call.
const OF_PACKET: u64 = 8;
const OF_CALL: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn no_value_is_torn_negative_or_lost() {
    let dir = tempfile::tempdir().unwrap();
    let capacity = Capacity {
        sockets: 1,
        connections: 1,
        rings: 0,
        pools: 0,
        reasons: 0,
        settings: 0,
        rules: 0,
    };
    let identity = Identity::of_this_process("test");
    let segment = Segment::create(dir.path(), &identity, capacity).unwrap();
    let reader = Reader::open(dir.path(), std::process::id()).unwrap();
    let (socket, calls) = (segment.claim_socket(), segment.claim_multiplexer());
    calls.kind.set("poll");
    let (shares, enough) = (Shares::new(), AtomicBool::new(false));
    let (mut looks, mut last) = (
        0,
        (SocketSnapshot::default(), MultiplexerSnapshot::default()),
    );
    let (packets, polls) = std::thread::scope(|scope| {
        let packets = scope.spawn(|| count_packets(&socket, &enough));
        let polls = [1, 2].map(|thread| {
            let (calls, shares, enough) = (&calls, &shares, &enough);
            scope.spawn(move || count_calls(calls, shares, thread << 20, enough))
        });
        // An assertion that fails here must still stop the others.
        let stop = StopOnDrop(&enough);
        let begun = Instant::now();
        while operations(&last, looks) < OPERATIONS {
            assert!(
                begun.elapsed() < PATIENCE,
                "only {}",
                operations(&last, looks)
            );
            for _ in 0..100 {
                looks += 1;
                last = look(&reader, &last);
            }
        }
        drop(stop);
        let polls = polls.map(|thread| thread.join().unwrap());
        (packets.join().unwrap(), polls.iter().sum::<u64>())
    });
    let (socket, calls) = look(&reader, &last);
    assert_eq!(socket.rx_packets, packets);
    assert_eq!(calls.poll_hit, polls, "two threads at once lose no count");
    println!("{looks} looks at {packets} packets and {polls} calls");
}

fn operations((socket, calls): &(SocketSnapshot, MultiplexerSnapshot), looks: u64) -> u64 {
    let values = SocketSnapshot::FIELDS.len() + MultiplexerSnapshot::FIELDS.len();
    socket.rx_packets * OF_PACKET + calls.poll_hit * OF_CALL + looks * values as u64
}

/// What a receiving thread writes, again and again.
fn count_packets(socket: &SocketStats, enough: &AtomicBool) -> u64 {
    let mut packets = 0;
    while !enough.load(Ordering::Relaxed) {
        socket.peer.set(address(packets));
        socket.rx_queue_packets.add(3);
        socket.rx_queue_packets_max.raise_to(packets % 4);
        // More than there is.
        socket.rx_queue_packets.subtract(5);
        socket.rx_bytes.add(STEP);
        socket.rx_latency.record(packets % 1000);
        socket.rx_os_packets.add_contended(1);
        socket.rx_packets.add(1);
        packets += 1;
    }
    packets
}

fn count_calls(
    calls: &MultiplexerStats,
    shares: &Shares,
    token: usize,
    enough: &AtomicBool,
) -> u64 {
    let mut count = 0;
    while !enough.load(Ordering::Relaxed) {
        let share = shares.of_thread(token);
        let counters = &calls.shares[share.index()];
        share.add(&counters.rx_ready, STEP);
        share.add(&counters.poll_hit, 1);
        count += 1;
    }
    count
}

/// Reads everything once, and compares it with what could be there.
fn look(
    reader: &Reader,
    (socket_before, calls_before): &(SocketSnapshot, MultiplexerSnapshot),
) -> (SocketSnapshot, MultiplexerSnapshot) {
    let socket = reader.sockets().unwrap().remove(0);
    let calls = reader.multiplexers().unwrap().remove(0);
    for (now, before) in [
        (socket.rx_packets, socket_before.rx_packets),
        (socket.rx_bytes, socket_before.rx_bytes),
        (socket.rx_os_packets, socket_before.rx_os_packets),
        (socket.rx_latency.count(), socket_before.rx_latency.count()),
        (calls.rx_ready, calls_before.rx_ready),
        (calls.poll_hit, calls_before.poll_hit),
    ] {
        assert!(now >= before, "{now} after {before}: {socket:?} {calls:?}");
    }
    for steps in [socket.rx_bytes, calls.rx_ready] {
        assert_eq!(steps >> 32, steps & 0xffff_ffff, "torn: {steps:#x}");
    }
    assert!(socket.rx_queue_packets <= 3, "negative: {socket:?}");
    assert!(socket.rx_queue_packets_max <= 3, "{socket:?}");
    if let Some(peer) = socket.peer {
        let std::net::IpAddr::V4(ip) = peer.ip() else {
            panic!("torn: {peer}")
        };
        assert_eq!(peer, address(u64::from(ip.to_bits())), "torn");
    }
    (socket, calls)
}

/// Address and port both carry the number.
fn address(number: u64) -> SocketAddr {
    let number = u32::try_from(number % (1 << 32)).unwrap();
    let port = u16::try_from(number % (1 << 16)).unwrap();
    SocketAddr::from((std::net::Ipv4Addr::from_bits(number), port))
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
