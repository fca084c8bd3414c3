//! A reader against writers that reuse entries as fast as they can.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stats::{Capacity, Identity, Reader, Segment, SocketSlot, SocketSnapshot};

#[test]
fn snapshot_never_mixes_two_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity {
        library_version: String::new(),
        program: String::new(),
    };
    let capacity = Capacity {
        sockets: 2,
        connections: 2,
        rings: 0,
        pools: 0,
        reasons: 0,
        settings: 0,
        rules: 0,
    };
    let segment = Segment::create(dir.path(), &identity, capacity).unwrap();
    let reader = Reader::open(dir.path(), std::process::id()).unwrap();
    let done = AtomicBool::new(false);
    let (mut complete, mut generations) = (0_u64, std::collections::BTreeSet::new());
    std::thread::scope(|scope| {
        for first in [1, 2] {
            let (done, segment) = (&done, &segment);
            scope.spawn(move || {
                let mut number: u32 = first;
                while !done.load(Ordering::Relaxed) {
                    describe(&segment.claim_socket(), number);
                    number += 2;
                }
            });
        }
        // An assertion that fails here must still stop the writers.
        let stop = StopOnDrop(&done);
        let begun = Instant::now();
        let is_enough = |complete, users| {
            let time = if complete > 100 && users > 100 {
                1500
            } else {
                60_000
            };
            begun.elapsed() > Duration::from_millis(time)
        };
        while !is_enough(complete, generations.len()) {
            for socket in reader.sockets().unwrap() {
                generations.insert((socket.slot, socket.generation));
                complete += u64::from(check(&socket));
            }
        }
        drop(stop);
    });
    assert!(complete > 100, "only {complete} complete snapshots");
    assert!(
        generations.len() > 100,
        "only {} users of the entries were seen",
        generations.len()
    );
}

/// Makes every field tell the same number.
fn describe(socket: &SocketSlot, number: u32) {
    socket.inode.set(u64::from(number));
    socket.fd.set(number.cast_signed());
    socket.local.set(address(number));
    socket.peer.set(address(number));
    for counter in [&socket.rx_packets, &socket.rx_bytes, &socket.rx_os_errors] {
        counter.add(u64::from(number));
    }
    for counter in [&socket.tx_packets, &socket.tx_os_errors] {
        counter.add(u64::from(number));
    }
    for _ in 0..200 {
        std::hint::spin_loop();
    }
}

/// Every field is empty or tells the same number: a socket may be read while it is described, so a
/// field that was read early can be empty and a later one not. Returns whether all were there.
fn check(socket: &SocketSnapshot) -> bool {
    let counters = [
        socket.inode,
        socket.rx_packets,
        socket.rx_bytes,
        socket.rx_os_errors,
        socket.tx_packets,
        socket.tx_os_errors,
    ];
    let addresses = [socket.local, socket.peer].into_iter().flatten();
    let told_by_address = addresses.map(|found| {
        let std::net::IpAddr::V4(ip) = found.ip() else {
            panic!("{socket:?}")
        };
        assert_eq!(found, address(ip.to_bits()), "{socket:?}");
        u64::from(ip.to_bits())
    });
    let told_by_fd = u64::try_from(socket.fd).into_iter();
    let told_by_counter = counters.into_iter().filter(|counter| *counter != 0);
    let told: Vec<u64> = told_by_fd
        .chain(told_by_address)
        .chain(told_by_counter)
        .collect();
    assert!(
        told.iter().all(|number| Some(number) == told.first()),
        "{socket:?}"
    );
    told.len() == 9
}

/// Address and port both carry the number.
fn address(number: u32) -> SocketAddr {
    let port = u16::try_from(number % (1 << 16)).unwrap();
    SocketAddr::from((Ipv4Addr::from_bits(number), port))
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
