use std::sync::Arc;

use loom::thread;

use crate::direction::{Direction, Incoming, Outgoing, Place, RING_BYTES};
use crate::every_order;
use crate::sync::{AtomicU64, Ordering};

/// Octets that are written.
const WRITTEN: usize = 3;

/// A direction and the kernel's connection: how many octets went into that after the ring.
struct Connection {
    direction: Direction,
    kernel: AtomicU64,
}

impl Connection {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            direction: Direction::new(),
            kernel: AtomicU64::new(0),
        })
    }

    /// Writes what goes into the ring, if that opens, and the rest through the kernel.
    fn write(&self) {
        let mut out = Outgoing::new(0, RING_BYTES);
        let mut rest = WRITTEN as u64;
        if out.open(&self.direction) {
            out.publish(&self.direction, 1);
            out.publish(&self.direction, 1);
            rest -= 2;
            let (_, unread) = out.close(&self.direction).unwrap();
            self.kernel.fetch_add(unread, Ordering::AcqRel);
        }
        self.kernel.fetch_add(rest, Ordering::AcqRel);
    }

    /// Takes what there is now: octets of the ring, and whether the kernel is next.
    fn read(&self, incoming: &mut Incoming) -> (u64, bool) {
        match incoming.look(&self.direction).unwrap() {
            Place::Kernel => (0, true),
            Place::Ring(readable) => {
                let is_taken =
                    readable > 0 && incoming.commit(&self.direction, readable) == Ok(true);
                (if is_taken { readable as u64 } else { 0 }, false)
            }
        }
    }
}

#[test]
fn every_octet_comes_once_by_the_ring_or_by_the_kernel() {
    every_order(3, || {
        let connection = Connection::new();
        let mut incoming = Incoming::begin(&connection.direction, 0);
        let writer = {
            let connection = Arc::clone(&connection);
            thread::spawn(move || connection.write())
        };
        let mut by_ring = 0;
        for _ in 0..2 {
            let (count, _) = connection.read(&mut incoming);
            by_ring += count;
        }
        writer.join().unwrap();
        loop {
            let (count, is_kernel) = connection.read(&mut incoming);
            by_ring += count;
            if is_kernel {
                break;
            }
        }
        let by_kernel = connection.kernel.load(Ordering::Acquire);
        assert_eq!(by_ring + by_kernel, WRITTEN as u64);
    });
}

#[test]
fn a_reader_that_asks_for_the_kernel_misses_no_ring_that_opens() {
    every_order(3, || {
        let connection = Connection::new();
        let mut incoming = Incoming::begin(&connection.direction, 0);
        let writer = {
            let connection = Arc::clone(&connection);
            thread::spawn(move || {
                let mut out = Outgoing::new(0, RING_BYTES);
                out.open(&connection.direction)
            })
        };
        connection.direction.ask_for_kernel();
        let is_kernels = incoming.look(&connection.direction) == Ok(Place::Kernel);
        let is_open = writer.join().unwrap();
        assert!(!(is_kernels && is_open), "octets would be lost");
    });
}
