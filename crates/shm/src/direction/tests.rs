//! A writer and a reader that move a stream between a kernel's queue and a ring, checked octet by
//! octet.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::arena::{Arena, Side};

const SWITCHES: u32 = 300;

fn octet(position: u64) -> u8 {
    ((position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) ^ (position >> 13)) as u8
}

/// Numbers of xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize % end
    }
}

/// The kernel's connection.
#[derive(Default)]
struct Kernel {
    queue: Mutex<VecDeque<u8>>,
    is_at_end: AtomicBool,
}

impl Kernel {
    fn send(&self, octets: impl Iterator<Item = u8>) {
        self.queue.lock().unwrap().extend(octets);
    }

    fn receive(&self, most: usize) -> Vec<u8> {
        let mut queue = self.queue.lock().unwrap();
        let count = most.min(queue.len());
        queue.drain(..count).collect()
    }
}

fn write(arena: &Arena, kernel: &Kernel) -> u64 {
    let slot = arena.slot(3).unwrap();
    let direction = slot.direction(Side::First);
    let mut out = Outgoing::new(0, 40_000);
    let mut random = Random(77);
    let (mut position, mut closed) = (0u64, 0);
    while closed < SWITCHES {
        let most = if random.below(8) == 0 { 20_000 } else { 600 };
        let want = 1 + random.below(most);
        if out.is_open() {
            let count = want.min(out.room(direction).unwrap());
            let mut done = 0;
            while done < count {
                let (at, len) = out.next(done);
                let len = len.min(count - done);
                let piece: Vec<_> = (0..len as u64)
                    .map(|i| octet(position + done as u64 + i))
                    .collect();
                slot.write(Side::First, at, &piece);
                done += len;
            }
            out.publish(direction, count);
            position += count as u64;
        } else {
            kernel.send((position..position + want as u64).map(octet));
            position += want as u64;
            out.note_sent(want);
        }
        match random.below(16) {
            // In vain while the reader is behind.
            0..4 => {
                while !out.open(direction) {
                    std::thread::yield_now();
                }
            }
            4 if out.is_open() => {
                let (mut from, mut left) = out.close(direction).unwrap();
                while left > 0 {
                    let (at, len) = out.unread_piece(from);
                    let len = len.min(left as usize);
                    let mut piece = vec![0; len];
                    slot.read(Side::First, at, &mut piece);
                    kernel.send(piece.into_iter());
                    out.note_sent(len);
                    (from, left) = (from + len as u64, left - len as u64);
                }
                closed += 1;
            }
            _ => {}
        }
        // The kernel's connection has bounds, too.
        while kernel.queue.lock().unwrap().len() > 1 << 20 {
            std::thread::yield_now();
        }
    }
    kernel.is_at_end.store(true, Ordering::Release);
    position
}

fn read(arena: &Arena, kernel: &Kernel) -> (u64, u64) {
    let slot = arena.slot(3).unwrap();
    let direction = slot.direction(Side::First);
    let mut incoming = Incoming::begin(direction, 0);
    let mut random = Random(991);
    let (mut position, mut by_ring) = (0u64, 0);
    loop {
        let is_at_end = kernel.is_at_end.load(Ordering::Acquire);
        let most = 1 + random.below(9000);
        let got = match incoming.look(direction).unwrap() {
            Place::Kernel => {
                let got = kernel.receive(most);
                incoming.note_taken(direction, got.len());
                got
            }
            Place::Ring(readable) => {
                let count = most.min(readable);
                let mut got = vec![0; count];
                let mut done = 0;
                while done < count {
                    let (at, len) = incoming.next(direction, done);
                    let len = len.min(count - done);
                    slot.read(Side::First, at, &mut got[done..done + len]);
                    done += len;
                }
                if !incoming.commit(direction, count).unwrap() {
                    continue;
                }
                by_ring += count as u64;
                got
            }
        };
        for found in &got {
            assert_eq!(*found, octet(position), "at {position}");
            position += 1;
        }
        if got.is_empty() && is_at_end && incoming.look(direction) == Ok(Place::Kernel) {
            return (position, by_ring);
        }
    }
}

#[test]
fn a_stream_moves_between_kernel_and_ring_octet_for_octet() {
    let (_file, arena) = Arena::create().unwrap();
    let kernel = Kernel::default();
    let (arena, kernel) = (&arena, &kernel);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || write(arena, kernel));
        let (read, by_ring) = read(arena, kernel);
        assert_eq!(read, writer.join().unwrap());
        assert!(by_ring > 0 && by_ring < read, "{by_ring} of {read}");
    });
}

#[test]
fn a_ring_opens_when_the_reader_has_taken_everything() {
    let direction = Direction::new();
    let mut out = Outgoing::new(5, RING_BYTES);
    assert!(!out.open(&direction), "there is no reader");
    let mut incoming = Incoming::begin(&direction, 3);
    assert!(!out.open(&direction), "two octets are in the kernel");
    incoming.note_taken(&direction, 2);
    assert_eq!(incoming.look(&direction), Ok(Place::Kernel));
    assert!(out.open(&direction) && out.is_open());
    assert_eq!(incoming.look(&direction), Ok(Place::Ring(0)));
    out.publish(&direction, 7);
    assert_eq!(incoming.look(&direction), Ok(Place::Ring(7)));
    assert_eq!(incoming.commit(&direction, 3), Ok(true));
    assert_eq!(out.close(&direction), Ok((3, 4)));
    assert_eq!(
        incoming.commit(&direction, 4),
        Ok(false),
        "they are the writer's"
    );
    assert_eq!(incoming.look(&direction), Ok(Place::Kernel));
    assert!(incoming.is_over() && out.is_over());
}

#[test]
fn a_reader_that_does_not_want_the_ring_gets_none() {
    let direction = Direction::new();
    let mut out = Outgoing::new(0, RING_BYTES);
    Incoming::begin(&direction, 0);
    direction.ask_for_kernel();
    assert!(!out.open(&direction));
    assert!(!direction.is_refused());
    direction.refuse();
    assert!(direction.is_refused() && direction.is_kernel_wanted());
    direction.reset();
    assert!(!direction.is_refused());
    assert!(!out.open(&direction), "nor one of another life");
}

#[test]
fn a_writer_that_waits_is_told_of_room_once() {
    let direction = Direction::new();
    let mut incoming = Incoming::begin(&direction, 0);
    let mut out = Outgoing::new(0, RING_BYTES);
    assert!(out.open(&direction));
    assert_eq!(out.room(&direction), Ok(RING_BYTES));
    out.publish(&direction, RING_BYTES);
    assert_eq!(out.room(&direction), Ok(0));
    out.want_room(&direction);
    assert_eq!(incoming.look(&direction), Ok(Place::Ring(RING_BYTES)));
    assert_eq!(incoming.commit(&direction, 100), Ok(true));
    assert!(!incoming.owes_room(&direction));
    assert_eq!(incoming.commit(&direction, RING_BYTES - 100), Ok(true));
    assert!(incoming.owes_room(&direction) && !incoming.owes_room(&direction));
}

#[test]
fn what_cannot_be_is_hostile() {
    let direction = Direction::new();
    let mut incoming = Incoming::begin(&direction, 0);
    let mut out = Outgoing::new(0, RING_BYTES);
    assert!(out.open(&direction));
    for head in [1, u64::MAX >> 1, 1 << 62] {
        direction.reader.head.store(head, Ordering::Relaxed);
        assert_eq!(out.room(&direction), Err(Hostile));
        assert_eq!(out.unread(&direction), Err(Hostile));
    }
    direction.reader.head.store(0, Ordering::Relaxed);
    assert_eq!(incoming.look(&direction), Ok(Place::Ring(0)));
    for tail in [RING_BYTES as u64 + 1, u64::MAX, 1 << 63] {
        direction.writer.tail.store(tail, Ordering::Relaxed);
        assert_eq!(incoming.look(&direction), Err(Hostile));
    }
    direction.writer.base.store(u64::MAX, Ordering::Relaxed);
    let (at, len) = incoming.next(&direction, usize::MAX >> 1);
    assert!(at + len == RING_BYTES);
    direction.reader.head.store(1 << 62, Ordering::Relaxed);
    assert_eq!(out.close(&direction), Err(Hostile));
    let mut late = Incoming::begin(&direction, 0);
    direction.writer.epoch.store(77, Ordering::Relaxed);
    assert_eq!(late.look(&direction), Err(Hostile));
}
