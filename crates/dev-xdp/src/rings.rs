//! The data path of an open interface: one receiving side over all its queues, one sending side, one kick.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::{Frame, FramePool, Kick, KickOutcome, RxRing, TxRing};

use crate::device::HEADROOM_BYTES;
use crate::queue::{Consumer, Producer};
use crate::xsk::Descriptor;

/// Empty frames are handed to the kernel in batches of this size, or whenever a poll finds nothing to do.
const REFILL_BATCH: i32 = 64;
/// Frames that the kernel has at first; their number grows with bursts. It uses them in turn, so this is a ping-pong's cache footprint.
const LEVEL_MIN: u32 = 512;
/// Frames after which a level that was never needed is lowered.
const CALM_FRAMES: u32 = 1 << 17;

/// One queue's fill and RX rings.
#[derive(Debug)]
struct RxQueue {
    rx: Consumer<Descriptor>,
    fill: Producer<u64>,
    /// Frames that the kernel is to have, between [`LEVEL_MIN`] and the size of the ring. The kernel uses them in turn, so
    /// their number is what a ping-pong occupies of the cache: with 2048 it took a third longer than with 256. Bursts
    /// raise the level, calm lowers it.
    level: u32,
    /// Frames that the kernel lacks to have its level; negative after the level was lowered.
    missing: i32,
    /// Most frames that waited at once, and the frames received, since the level was last looked at.
    waiting_max: u32,
    received: u32,
    /// Bytes of the frame received last.
    len_bytes: usize,
    /// Keeps the queue's socket open.
    _fd: Arc<OwnDescriptor>,
}

/// Receiving side of an interface.
#[derive(Debug)]
pub struct XdpRx {
    queues: Vec<RxQueue>,
    /// The queue that the next poll begins with, so that a busy one does not keep the others waiting.
    first: usize,
    /// Bytes of a frame that go into the cache as soon as the ring shows it.
    prefetch_bytes: usize,
}

impl XdpRx {
    pub(crate) fn new(
        queues: impl IntoIterator<Item = (Consumer<Descriptor>, Producer<u64>, Arc<OwnDescriptor>)>,
        pool: &FramePool,
        prefetch_bytes: usize,
    ) -> Self {
        let queue = |(rx, fill, _fd): (_, Producer<u64>, _)| {
            let level = LEVEL_MIN.min(fill.size());
            RxQueue {
                rx,
                level,
                missing: level as i32,
                fill,
                waiting_max: 0,
                received: 0,
                len_bytes: 0,
                _fd,
            }
        };
        let mut side = Self {
            queues: queues.into_iter().map(queue).collect(),
            first: 0,
            prefetch_bytes,
        };
        side.queues.iter_mut().for_each(|queue| queue.refill(pool));
        side
    }
}

impl RxRing for XdpRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        let mut total = 0;
        let (later, earlier) = self.queues.split_at_mut(self.first);
        if !later.is_empty() || earlier.len() > 1 {
            self.first = if earlier.len() > 1 { self.first + 1 } else { 0 };
        }
        for queue in earlier.iter_mut().chain(later) {
            total += queue.take(pool, budget - total, self.prefetch_bytes, &mut sink);
        }
        total
    }

    fn drain(&mut self, pool: &FramePool, mut sink: impl FnMut(Frame)) -> usize {
        let mut total = 0;
        for queue in &mut self.queues {
            let present = queue.rx.present() as usize;
            total += queue.take(pool, present, self.prefetch_bytes, &mut sink);
        }
        total
    }
}

impl RxQueue {
    /// Takes up to `budget` frames and gives the kernel empty ones when it is time. Returns how many.
    #[inline]
    fn take(
        &mut self,
        pool: &FramePool,
        budget: usize,
        prefetch_bytes: usize,
        sink: &mut impl FnMut(Frame),
    ) -> usize {
        let mut count = 0;
        self.prefetch_next(pool, prefetch_bytes);
        while count < budget
            && let Some(descriptor) = self.rx.pop()
        {
            count += 1;
            self.len_bytes = descriptor.len as usize;
            if self.rx.waiting() > 0 {
                self.prefetch_next(pool, prefetch_bytes);
            }
            // A descriptor outside the pool would be a kernel bug; its frame is lost, nothing else.
            if let Some(frame) = pool.reclaim(descriptor.address, descriptor.len) {
                sink(frame);
            }
        }
        if count > 0 {
            self.waiting_max = self.waiting_max.max(count as u32 + self.rx.waiting());
            self.rx.release();
            self.missing += count as i32;
            self.received += count as u32;
        }
        if self.missing >= REFILL_BATCH || (count == 0 && self.missing > 0) {
            self.refill(pool);
        }
        count
    }

    /// Has the next frame on its way from the core that wrote it while its descriptor is still on its own.
    #[inline]
    fn prefetch_next(&mut self, pool: &FramePool, bytes_max: usize) {
        if let Some(data) = self.expected_data() {
            pool.prefetch(data, bytes_max.min(self.len_bytes));
        }
    }

    /// Where the data of the next frame are, if there is one. The kernel takes frames in the order in which it was given them, so
    /// that is known without the descriptor: frame number n of the RX ring is number n of the fill ring. Only a guess.
    #[inline]
    fn expected_data(&mut self) -> Option<u64> {
        let number = self.rx.peek()?;
        Some(self.fill.written(number) + u64::from(HEADROOM_BYTES))
    }

    #[inline(never)]
    fn refill(&mut self, pool: &FramePool) {
        self.adapt();
        let Self { fill, missing, .. } = self;
        let wanted = usize::try_from(*missing).unwrap_or(0);
        let taken = pool.take_many(wanted, |frame| {
            let pushed = fill.push(pool.release_to_device(frame));
            debug_assert!(
                pushed,
                "the fill ring has room for as many frames as are missing"
            );
        });
        *missing -= taken as i32;
        fill.publish();
    }

    /// Raises the level when half of it waited at once, lowers it when an eighth was enough for long.
    fn adapt(&mut self) {
        let level = if self.waiting_max > self.level / 2 {
            (self.level * 2).min(self.fill.size())
        } else if self.received < CALM_FRAMES {
            return;
        } else if self.waiting_max < self.level / 8 {
            (self.level / 2).max(LEVEL_MIN.min(self.fill.size()))
        } else {
            self.level
        };
        self.missing += level as i32 - self.level as i32;
        (self.level, self.waiting_max, self.received) = (level, 0, 0);
    }
}

/// Sending side of an interface: the TX and completion rings of its first queue.
#[derive(Debug)]
pub struct XdpTx {
    tx: Producer<Descriptor>,
    completion: Consumer<u64>,
    /// A frame that was taken and not used.
    spare: Option<Frame>,
    /// Frames that the kernel has and did not complete yet.
    in_flight: u32,
}

impl XdpTx {
    pub(crate) fn new(tx: Producer<Descriptor>, completion: Consumer<u64>) -> Self {
        Self {
            tx,
            completion,
            spare: None,
            in_flight: 0,
        }
    }
}

impl TxRing for XdpTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        if let Some(frame) = self.spare.take() {
            return Some(frame);
        }
        // The frame sent last is the first to be used again: its lines are in the cache.
        if let Some(address) = self.completion.pop() {
            self.completion.release();
            self.in_flight -= 1;
            if let Some(frame) = pool.reclaim(address, 0) {
                return Some(frame);
            }
        }
        if self.in_flight >= self.tx.size() {
            return None;
        }
        pool.take()
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        let len = frame.len() as u32;
        let descriptor = Descriptor {
            address: pool.release_to_device(frame),
            len,
            options: 0,
        };
        // At most `size` frames are out (see `frame`), so there is room.
        let pushed = self.tx.push(descriptor);
        debug_assert!(pushed);
        self.in_flight += u32::from(pushed);
        self.tx.publish();
    }

    fn cancel(&mut self, frame: Frame) {
        debug_assert!(self.spare.is_none());
        self.spare = Some(frame);
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        self.tx.needs_wakeup()
    }
}

/// The `sendto(2)` that makes the kernel take frames from the TX ring.
#[derive(Debug)]
pub struct XdpKick {
    fd: Arc<OwnDescriptor>,
}

impl XdpKick {
    pub(crate) fn new(fd: Arc<OwnDescriptor>) -> Self {
        Self { fd }
    }
}

impl Kick for XdpKick {
    #[inline]
    fn kick(&self) -> KickOutcome {
        let none = std::ptr::null::<libc::c_void>();
        let fd = self.fd.as_raw_fd();
        // SAFETY: an empty message from a null buffer; the kernel reads nothing.
        let result =
            unsafe { libc::syscall(libc::SYS_sendto, fd, none, 0, libc::MSG_DONTWAIT, none, 0) };
        if result >= 0 {
            KickOutcome::Done
        } else {
            kick_failed(fd, self.fd.as_raw_fd())
        }
    }
}

/// `asked`: the number that was used; `present`: that of the socket.
#[cold]
fn kick_failed(asked: RawFd, present: RawFd) -> KickOutcome {
    match io::Error::last_os_error().raw_os_error() {
        // The program has taken the number meanwhile.
        _ if asked != present => KickOutcome::Again,
        // In copy mode the kernel takes 32 frames at a time and answers EAGAIN while there are more.
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => KickOutcome::Again,
        Some(libc::ENETDOWN) => KickOutcome::Down,
        _ => KickOutcome::Lost,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fs::File;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU32, Ordering};

    use dev_core::ThreadMode;

    use super::*;
    use crate::queue::Layout;

    /// A ring over ordinary memory, of which a test has the kernel's end.
    struct Memory<T> {
        indexes: Box<[AtomicU32; 3]>,
        entries: Vec<T>,
    }

    impl<T: Copy> Memory<T> {
        fn new(size: usize, empty: T) -> Self {
            Self {
                indexes: Box::default(),
                entries: vec![empty; size],
            }
        }

        fn ends(&mut self) -> (Producer<T>, Consumer<T>) {
            let layout = Layout {
                producer: NonNull::from(&self.indexes[0]),
                consumer: NonNull::from(&self.indexes[1]),
                flags: NonNull::from(&self.indexes[2]),
                size: u32::try_from(self.entries.len()).unwrap(),
                entries: NonNull::new(self.entries.as_mut_ptr()).unwrap(),
            };
            // SAFETY: the memory outlives both ends in every test, and each side has one end.
            let producer = unsafe { Producer::new(layout) };
            // SAFETY: as above.
            let consumer = unsafe { Consumer::new(layout) };
            (producer, consumer)
        }
    }

    const PREFETCH_BYTES: usize = 256;
    const EMPTY: Descriptor = Descriptor {
        address: 0,
        len: 0,
        options: 0,
    };

    fn any_fd() -> Arc<OwnDescriptor> {
        let file = File::open("/dev/null").unwrap();
        Arc::new(OwnDescriptor::new(file.into()))
    }

    fn pool(frames: u32) -> FramePool {
        FramePool::new(frames, 2048, ThreadMode::SpinLock).unwrap()
    }

    type OurEnds = (Consumer<Descriptor>, Producer<u64>, Arc<OwnDescriptor>);

    /// The kernel's side of one receive queue.
    struct KernelQueue {
        fill: Consumer<u64>,
        rx: Producer<Descriptor>,
        /// Frames taken from the fill ring and not used yet.
        held: VecDeque<u64>,
        packet_len: u32,
    }

    impl KernelQueue {
        fn new(memory: &mut (Memory<Descriptor>, Memory<u64>)) -> (Self, OurEnds) {
            let (rx_in, rx_out) = memory.0.ends();
            let (fill_in, fill_out) = memory.1.ends();
            let kernel = Self {
                fill: fill_out,
                rx: rx_in,
                held: VecDeque::new(),
                packet_len: 100,
            };
            (kernel, (rx_out, fill_in, any_fd()))
        }

        fn take_frames(&mut self) {
            while let Some(address) = self.fill.pop() {
                self.held.push_back(address);
            }
            self.fill.release();
        }

        /// Receives up to `count` packets; returns for how many there was a frame.
        fn receive(&mut self, count: usize) -> usize {
            self.take_frames();
            let count = count.min(self.held.len());
            for address in self.held.drain(..count) {
                let descriptor = Descriptor {
                    address: address + 256,
                    len: self.packet_len,
                    options: 0,
                };
                assert!(self.rx.push(descriptor), "the rings are of one size");
            }
            self.rx.publish();
            count
        }
    }

    fn memory(size: usize) -> (Memory<Descriptor>, Memory<u64>) {
        (Memory::new(size, EMPTY), Memory::new(size, 0))
    }

    #[test]
    fn no_frame_is_lost_or_doubled_under_any_load() {
        for (frames, size) in [(4096, 2048), (600, 512), (100, 64), (40, 64)] {
            let pool = pool(frames);
            let mut memory = memory(size);
            let (mut kernel, ours) = KernelQueue::new(&mut memory);
            let mut side = XdpRx::new([ours], &pool, PREFETCH_BYTES);
            let (mut in_rx, mut held, mut seed) = (0, Vec::new(), 42u64);
            for step in 0..20_000u64 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let random = (seed >> 33) as usize;
                match random % 4 {
                    // Bursts now, calm then.
                    0 if step % 4000 < 2000 => in_rx += kernel.receive(random / 4 % size),
                    0 | 1 => in_rx += kernel.receive(random / 4 % 3),
                    2 => {
                        let budget = random / 4 % 100;
                        let count = side.poll(&pool, budget, |frame| held.push(frame));
                        assert!(count <= budget);
                        in_rx -= count;
                    }
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
        let mut side = XdpRx::new([ours], &pool, PREFETCH_BYTES);
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
        let mut side = XdpRx::new([ours], &pool, PREFETCH_BYTES);
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
    fn an_empty_pool_is_made_up_for_later() {
        let pool = pool(64);
        let mut memory = memory(64);
        let (mut kernel, ours) = KernelQueue::new(&mut memory);
        let mut side = XdpRx::new([ours], &pool, PREFETCH_BYTES);
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
        let (mut kernels, ours): (Vec<_>, Vec<_>) =
            memories.iter_mut().map(KernelQueue::new).unzip();
        let mut side = XdpRx::new(ours, &pool, PREFETCH_BYTES);
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
    fn a_descriptor_outside_the_pool_costs_its_frame_only() {
        let pool = pool(256);
        let mut memory = memory(64);
        let (mut kernel, ours) = KernelQueue::new(&mut memory);
        let mut side = XdpRx::new([ours], &pool, PREFETCH_BYTES);
        for (address, len) in [(u64::MAX, 1), (0, u32::MAX), (256 * 2048, 64)] {
            kernel.rx.push(Descriptor {
                address,
                len,
                options: 0,
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
        let (mut kernels, ours): (Vec<_>, Vec<_>) =
            memories.iter_mut().map(KernelQueue::new).unzip();
        let mut side = XdpRx::new(ours, &pool, PREFETCH_BYTES);
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

    /// A sending side, and the kernel's ends of its rings.
    fn sending(
        tx: &mut Memory<Descriptor>,
        completion: &mut Memory<u64>,
    ) -> (XdpTx, Consumer<Descriptor>, Producer<u64>) {
        let (tx_in, tx_out) = tx.ends();
        let (completion_in, completion_out) = completion.ends();
        (XdpTx::new(tx_in, completion_out), tx_out, completion_in)
    }

    #[test]
    fn as_many_frames_are_under_way_as_the_ring_holds() {
        let pool = pool(64);
        let (mut tx, mut completion) = (Memory::new(8, EMPTY), Memory::new(8, 0));
        let (mut side, mut sent, mut completed) = sending(&mut tx, &mut completion);
        let mut in_flight = VecDeque::new();
        let mut seed = 7u64;
        for step in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match (seed >> 33) % 4 {
                0 | 1 => match side.frame(&pool) {
                    Some(mut frame) if !(seed >> 40).is_multiple_of(8) => {
                        pool.set_len(&mut frame, 60);
                        side.push(&pool, frame);
                        let descriptor = sent.pop().unwrap();
                        sent.release();
                        assert_eq!(descriptor.len, 60);
                        assert!(!in_flight.contains(&descriptor.address), "sent twice");
                        in_flight.push_back(descriptor.address);
                    }
                    Some(frame) => side.cancel(frame),
                    None => assert_eq!(in_flight.len(), 8, "step {step}"),
                },
                _ => {
                    if let Some(address) = in_flight.pop_front() {
                        assert!(completed.push(address));
                        completed.publish();
                    }
                }
            }
            assert!(in_flight.len() <= 8);
        }
    }

    #[test]
    fn a_kick_is_needed_when_the_kernel_says_so() {
        let pool = pool(4);
        let (mut tx, mut completion) = (Memory::new(8, EMPTY), Memory::new(8, 0));
        let (mut side, ..) = sending(&mut tx, &mut completion);
        assert!(!side.needs_kick());
        tx.indexes[2].store(1, Ordering::Relaxed);
        assert!(side.needs_kick());
        // A pool without frames is a full ring to the caller.
        let held: Vec<_> = std::iter::from_fn(|| side.frame(&pool)).collect();
        assert_eq!(held.len(), 4);
        held.into_iter().for_each(|frame| pool.give(frame));
    }
}
