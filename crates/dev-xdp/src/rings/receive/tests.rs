//! The receiving side against a test that plays the kernel.

use std::collections::VecDeque;
use std::fs::File;

use dev_core::RxWatch;

use super::super::sides::XdpWatch;
use super::super::test_memory::{EMPTY, Memory, pool};
use super::*;

const PREFETCH_BYTES: usize = 256;

fn any_fd() -> Arc<OwnDescriptor> {
    let file = File::open("/dev/null").unwrap();
    Arc::new(OwnDescriptor::new(file.into()))
}

type OurEnds = (Consumer<XdpDesc>, Producer<u64>, Arc<OwnDescriptor>);

/// The kernel's side of one receive queue.
struct KernelQueue {
    fill: Consumer<u64>,
    rx: Producer<XdpDesc>,
    /// Frames taken from the fill ring and not used yet.
    held: VecDeque<u64>,
    packet_len: u32,
    /// Shows that it has taken frames only when it is asked to, as the kernel, which hands on
    /// received ones before.
    late: bool,
}

impl KernelQueue {
    fn new(memory: &mut (Memory<XdpDesc>, Memory<u64>)) -> (Self, OurEnds) {
        let (rx_in, rx_out) = memory.0.ends();
        let (fill_in, fill_out) = memory.1.ends();
        let kernel = Self {
            fill: fill_out,
            rx: rx_in,
            held: VecDeque::new(),
            packet_len: 100,
            late: false,
        };
        (kernel, (rx_out, fill_in, any_fd()))
    }

    fn take_frames(&mut self) {
        while let Some(address) = self.fill.pop() {
            self.held.push_back(address);
        }
        if !self.late {
            self.fill.release();
        }
    }

    /// Receives up to `count` packets; returns for how many there was a frame.
    fn receive(&mut self, count: usize) -> usize {
        self.take_frames();
        let count = count.min(self.held.len());
        for address in self.held.drain(..count) {
            let descriptor = XdpDesc {
                addr: address + 256,
                len: self.packet_len,
                options: XdpDescOptions::empty(),
            };
            assert!(self.rx.push(descriptor), "the rings are of one size");
        }
        self.rx.publish();
        count
    }

    /// Receives a packet of so many frames.
    fn receive_pieces(&mut self, count: usize, len: u32) {
        self.take_frames();
        for (number, address) in (1..=count).zip(self.held.drain(..count)) {
            let descriptor = XdpDesc {
                addr: address + 256,
                len,
                options: match number < count {
                    true => XdpDescOptions::XDP_PKT_CONTD,
                    false => XdpDescOptions::empty(),
                },
            };
            assert!(self.rx.push(descriptor), "the rings are of one size");
        }
        self.rx.publish();
    }
}

fn memory(size: usize) -> (Memory<XdpDesc>, Memory<u64>) {
    (Memory::new(size, EMPTY), Memory::new(size, 0))
}

#[test]
fn no_frame_is_lost_or_doubled_under_any_load() {
    for (frames, size) in [(4096, 2048), (600, 512), (100, 64), (40, 64)] {
        let pool = pool(frames);
        let mut memory = memory(size);
        let (mut kernel, ours) = KernelQueue::new(&mut memory);
        kernel.late = true;
        let mut side = OwnRx::new([ours], &pool, PREFETCH_BYTES);
        let (mut in_rx, mut held, mut seed) = (0, Vec::new(), 42u64);
        for step in 0..20_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = (seed >> 33) as usize;
            match random % 5 {
                // Bursts now, calm then.
                0 if step % 4000 < 2000 => in_rx += kernel.receive(random / 4 % size),
                0 | 1 => in_rx += kernel.receive(random / 4 % 3),
                2 => {
                    let budget = random / 4 % 100;
                    let count = side.poll(&pool, budget, |frame| held.push(frame));
                    assert!(count <= budget);
                    in_rx -= count;
                }
                3 => kernel.fill.release(),
                _ => held
                    .drain(..(random / 4 % 64).min(held.len()))
                    .for_each(|frame| pool.give(frame)),
            }
            kernel.take_frames();
            let known = pool.free_count() + kernel.held.len() + in_rx + held.len();
            assert_eq!(known, frames as usize, "step {step}");
            assert!(kernel.held.len() + in_rx <= size);
        }
        held.drain(..).for_each(|frame| pool.give(frame));
    }
}

#[test]
fn the_next_frame_is_known_before_its_descriptor() {
    let pool = pool(4096);
    let mut memory = memory(512);
    let (mut kernel, ours) = KernelQueue::new(&mut memory);
    let mut side = OwnRx::new([ours], &pool, PREFETCH_BYTES);
    for round in 0..2000 {
        assert_eq!(side.queues[0].expected_data(), None);
        let burst = kernel.receive(1 + round % 7);
        for _ in 0..burst {
            let expected = side.queues[0].expected_data();
            side.poll(&pool, 1, |frame| {
                assert_eq!(expected, Some(pool.address(&frame)), "round {round}");
                pool.give(frame);
            });
        }
        side.poll(&pool, 1, |_| unreachable!("there is nothing left"));
        kernel.take_frames();
    }
}

#[test]
fn bursts_raise_what_the_kernel_has_and_calm_lowers_it() {
    let pool = pool(4096);
    let mut memory = memory(2048);
    let (mut kernel, ours) = KernelQueue::new(&mut memory);
    let mut side = OwnRx::new([ours], &pool, PREFETCH_BYTES);
    let mut level_after = |burst: usize, rounds: usize| {
        for _ in 0..rounds {
            kernel.receive(burst);
            while side.poll(&pool, 16, |frame| pool.give(frame)) > 0 {}
            kernel.take_frames();
        }
        kernel.held.len()
    };
    assert_eq!(level_after(1, 10), 512);
    assert_eq!(level_after(200, 10), 512, "less than half of it");
    assert_eq!(level_after(400, 1), 1024);
    assert_eq!(level_after(600, 1), 2048);
    assert_eq!(level_after(2048, 2), 2048, "no more than the ring");
    let rounds = CALM_FRAMES as usize;
    assert_eq!(level_after(1, rounds / 2), 2048);
    assert_eq!(level_after(1, rounds * 3), 512);
    assert_eq!(pool.free_count(), 4096 - 512);
}

#[test]
fn where_bursts_are_expected_the_kernel_has_a_whole_ring() {
    let pool = pool(4096);
    let mut memory = memory(2048);
    let (mut kernel, ours) = KernelQueue::new(&mut memory);
    let mut side = OwnRx::new([ours], &pool, PREFETCH_BYTES);
    let mut level_after = |expected: bool, rounds: u32| {
        side.expect_bursts(expected);
        for _ in 0..rounds {
            kernel.receive(1);
            while side.poll(&pool, 16, |frame| pool.give(frame)) > 0 {}
            kernel.take_frames();
        }
        kernel.held.len()
    };
    assert_eq!(level_after(false, 10), 512);
    assert_eq!(level_after(true, 1), 2048);
    assert_eq!(
        level_after(true, CALM_FRAMES * 3),
        2048,
        "calm is no reason"
    );
    assert_eq!(level_after(false, CALM_FRAMES * 3), 512);
    assert_eq!(pool.free_count(), 4096 - 512);
}

#[test]
fn an_empty_pool_is_made_up_for_later() {
    let pool = pool(64);
    let mut memory = memory(64);
    let (mut kernel, ours) = KernelQueue::new(&mut memory);
    let mut side = OwnRx::new([ours], &pool, PREFETCH_BYTES);
    assert_eq!(kernel.receive(100), 64);
    let mut held = Vec::new();
    while side.poll(&pool, 16, |frame| held.push(frame)) > 0 {}
    assert_eq!((held.len(), kernel.receive(1)), (64, 0));
    held.into_iter().for_each(|frame| pool.give(frame));
    assert_eq!(side.poll(&pool, 16, |_| unreachable!()), 0);
    assert_eq!(kernel.receive(100), 64);
}

#[test]
fn a_busy_queue_does_not_keep_the_others_waiting() {
    let pool = pool(4096);
    let mut memories = [(); 3].map(|()| memory(512));
    let (mut kernels, ours): (Vec<_>, Vec<_>) = memories.iter_mut().map(KernelQueue::new).unzip();
    let mut side = OwnRx::new(ours, &pool, PREFETCH_BYTES);
    for quiet in [0, 1, 2] {
        for (index, kernel) in kernels.iter_mut().enumerate() {
            kernel.receive(if index == quiet { 0 } else { 400 });
        }
        kernels[quiet].packet_len = 77;
        kernels[quiet].receive(1);
        let mut seen = 0;
        // Each of the busy ones could fill every poll.
        for _ in 0..3 {
            let count = side.poll(&pool, 16, |frame| {
                seen += usize::from(frame.len() == 77);
                pool.give(frame);
            });
            assert_eq!(count, 16);
        }
        assert_eq!(seen, 1, "queue {quiet}");
        kernels[quiet].packet_len = 100;
        while side.poll(&pool, 1000, |frame| pool.give(frame)) > 0 {}
    }
}

#[test]
fn the_pieces_of_a_packet_stay_together_wherever_the_budget_ends() {
    const PIECES: usize = 5;
    for budget in 1..=2 * PIECES {
        let pool = pool(4096);
        let mut memories = [(); 3].map(|()| memory(512));
        let (mut kernels, ours): (Vec<_>, Vec<_>) =
            memories.iter_mut().map(KernelQueue::new).unzip();
        let mut side = OwnRx::new(ours, &pool, PREFETCH_BYTES);
        for (queue, kernel) in (0..).zip(&mut kernels) {
            for _ in 0..3 {
                kernel.receive_pieces(PIECES, 100 + queue);
            }
        }
        let (mut packet, mut packets) = (Vec::new(), 0);
        loop {
            let count = side.poll(&pool, budget, |frame| {
                packet.push(frame.len());
                if !frame.continues() {
                    let lens = std::mem::take(&mut packet);
                    assert_eq!(lens, [lens[0]; PIECES], "budget {budget}");
                    packets += 1;
                }
                pool.give(frame);
            });
            assert!(count < budget + PIECES, "no more than one packet's");
            assert!(packet.is_empty(), "budget {budget}");
            if count == 0 {
                break;
            }
        }
        assert_eq!(packets, 9);
    }
}

#[test]
fn others_see_what_waits_until_it_is_delivered() {
    let pool = pool(4096);
    let mut memories = [(); 2].map(|()| memory(512));
    let (mut kernels, ours): (Vec<_>, Vec<_>) = memories.iter_mut().map(KernelQueue::new).unzip();
    let mut side = OwnRx::new(ours, &pool, PREFETCH_BYTES);
    let watch = XdpWatch::of(side.watches());
    assert_eq!((watch.waiting(), side.wait_fds().len()), (None, 2));
    kernels[1].receive(3);
    let before = watch.waiting();
    assert!(before.is_some());
    let count = side.poll(&pool, 2, |frame| {
        assert_eq!(watch.waiting(), before, "it is being delivered");
        pool.give(frame);
    });
    let after = watch.waiting();
    assert!(count == 2 && after.is_some() && after != before);
    assert_eq!(side.drain(&pool, |frame| pool.give(frame)), 1);
    assert_eq!(watch.waiting(), None);
}

#[test]
fn a_descriptor_outside_the_pool_costs_its_frame_only() {
    let pool = pool(256);
    let mut memory = memory(64);
    let (mut kernel, ours) = KernelQueue::new(&mut memory);
    let mut side = OwnRx::new([ours], &pool, PREFETCH_BYTES);
    for (address, len) in [(u64::MAX, 1), (0, u32::MAX), (256 * 2048, 64)] {
        kernel.rx.push(XdpDesc {
            addr: address,
            len,
            options: XdpDescOptions::empty(),
        });
    }
    kernel.rx.publish();
    kernel.receive(1);
    let mut lens = Vec::new();
    let count = side.poll(&pool, 16, |frame| {
        lens.push(frame.len());
        pool.give(frame);
    });
    assert_eq!((count, lens), (4, vec![100]));
}

#[test]
fn draining_takes_what_waits_and_ends() {
    let pool = pool(4096);
    let mut memories = [(); 2].map(|()| memory(512));
    let (mut kernels, ours): (Vec<_>, Vec<_>) = memories.iter_mut().map(KernelQueue::new).unzip();
    let mut side = OwnRx::new(ours, &pool, PREFETCH_BYTES);
    kernels.iter_mut().for_each(|kernel| {
        kernel.receive(300);
    });
    let mut taken = 0;
    // For each frame that is taken another one comes.
    let drained = side.drain(&pool, |frame| {
        kernels[0].receive(1);
        taken += 1;
        pool.give(frame);
    });
    assert_eq!((drained, taken), (600, 600));
    // What came meanwhile, as much as the ring holds.
    assert_eq!(side.drain(&pool, |frame| pool.give(frame)), 512);
    assert_eq!(
        side.drain(&pool, |_| unreachable!("there is nothing left")),
        0
    );
}
