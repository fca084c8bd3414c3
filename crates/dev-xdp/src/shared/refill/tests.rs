//! Processes that are killed at any instruction: no frame is lost, none is there twice.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::*;
use crate::queue::{Consumer, Layout};
use crate::shared::area::Shape;

const SHAPE: Shape = Shape {
    frame_bytes: 2048,
    rx_frames: 4096,
    tx_frames: 1,
};
const ENTRIES: u32 = 4096;
const KILLS: usize = 400;

/// A ring in memory that a child shares.
struct Ring(Layout<u64>);

impl Ring {
    fn new() -> Self {
        let len = 256 + ENTRIES as usize * 8;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        let base = NonNull::new(base.cast::<u8>()).unwrap();
        // SAFETY: each lies in the mapping.
        let at = |offset| unsafe { base.add(offset) };
        Self(Layout {
            producer: at(0).cast(),
            consumer: at(64).cast(),
            flags: at(128).cast(),
            entries: at(256).cast(),
            size: ENTRIES,
        })
    }

    fn producer(&self) -> Producer<u64> {
        // SAFETY: the mapping stays, and the users of an end take turns.
        unsafe { Producer::new(self.0) }
    }

    fn consumer(&self) -> Consumer<u64> {
        // SAFETY: as above.
        unsafe { Consumer::new(self.0) }
    }

    /// What is in it.
    fn frames(&self) -> Vec<u32> {
        let mut reader = self.consumer();
        let read = std::iter::from_fn(|| reader.pop());
        read.map(|address| SHAPE.rx_frame(address).unwrap())
            .collect()
    }
}

struct Scene {
    area: Area,
    fill: Ring,
    rx: Ring,
}

impl Scene {
    /// The kernel's part: some packets come.
    fn deliver(&self, count: u32) {
        let (mut fill, mut rx) = (self.fill.consumer(), self.rx.producer());
        for _ in 0..count {
            let Some(address) = fill.pop() else { break };
            assert!(rx.push(address));
            // A kernel is not killed between the two; a frame may be seen in both.
            rx.publish();
            fill.release();
        }
    }

    /// A process that receives and gives back, until it is killed.
    fn live(&self, area: &Area, client: Client) -> ! {
        let mut refill = Refill::new(self.fill.producer(), 0);
        let mut rx = self.rx.consumer();
        let mut turn = client.generation().wrapping_mul(7);
        loop {
            turn = turn.wrapping_mul(25_173).wrapping_add(13_849);
            self.deliver(u32::from(turn % 97));
            while let Some(address) = rx.pop() {
                let frame = SHAPE.rx_frame(address).unwrap();
                refill.owe(area, client, frame);
                rx.release();
            }
            refill.give_back(area, client);
        }
    }

    /// As the broker does.
    fn bury(&self, dead: Client) {
        let mut fills = [Refill::new(self.fill.producer(), 0)];
        if let Some(locked) = self.area.take_from(dead, Client::BROKER) {
            finish_for(&locked, &self.area, &mut fills, dead);
        }
        let locked = self.area.try_lock(Client::BROKER);
        let locked = locked.expect("nobody else is there");
        let waiting = self.fill.frames();
        let unread = self.rx.frames();
        let unread = unread.into_iter().filter(|frame| !waiting.contains(frame));
        recover(&locked, &self.area, &mut fills, dead, unread);
        let mut rx = self.rx.consumer();
        while rx.pop().is_some() {}
        rx.release();
    }

    /// Each frame is in the fill ring or free.
    fn check(&self) {
        let mut frames: Vec<_> = self.area.free_frames().chain(self.fill.frames()).collect();
        frames.sort_unstable();
        assert!(frames.iter().copied().eq(0..SHAPE.rx_frames), "{frames:?}");
        let owned =
            (0..SHAPE.rx_frames).filter(|it| self.area.owner(*it).load(Ordering::Relaxed) != 0);
        assert_eq!(owned.count(), 0);
    }
}

#[test]
fn who_is_killed_at_any_instruction_leaves_every_frame_once() {
    let (fd, area) = Area::create(SHAPE).unwrap();
    let scene = Scene {
        area,
        fill: Ring::new(),
        rx: Ring::new(),
    };
    let mut first = Refill::new(scene.fill.producer(), 0);
    first.give_back(&scene.area, Client::BROKER);
    scene.check();
    let mut with_lock = 0;
    for kill in 0..KILLS {
        let client = Client::new(5, u16::try_from(kill).unwrap()).unwrap();
        // SAFETY: the child uses no lock and no memory but what it has.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // A child does not have its parent's mapping.
            let area = Area::map(&fd, SHAPE).unwrap();
            scene.live(&area, client);
        }
        let until = Instant::now() + Duration::from_micros(200 + kill as u64 * 13 % 900);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        // SAFETY: integers, and a status that is not wanted.
        unsafe {
            libc::kill(child, libc::SIGKILL);
        }
        // SAFETY: as above.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        with_lock += usize::from(scene.area.lock().load(Ordering::Relaxed) != 0);
        scene.bury(client);
        scene.check();
    }
    eprintln!("{with_lock} of {KILLS} died with the lock");
    assert!(with_lock > 0);
}

#[test]
fn the_kernel_gets_more_when_it_had_hardly_any() {
    let (_fd, area) = Area::create(SHAPE).unwrap();
    let fill = Ring::new();
    let client = Client::new(0, 0).unwrap();
    let mut refill = Refill::new(fill.producer(), 0);
    refill.give_back(&area, client);
    assert_eq!(fill.frames().len() as u32, 2 * LEVEL_MIN, "it had none");
    let mut kernel = fill.consumer();
    let has_taken = |kernel: &mut Consumer<u64>, count: u32| {
        (0..count).for_each(|_| assert!(kernel.pop().is_some()));
        kernel.release();
    };
    for _ in 0..=CALM_FRAMES / 64 {
        for _ in 0..64 {
            let frame = SHAPE.rx_frame(kernel.pop().unwrap()).unwrap();
            refill.owe(&area, client, frame);
        }
        kernel.release();
        refill.give_back(&area, client);
    }
    has_taken(&mut kernel, LEVEL_MIN + 100);
    refill.give_back(&area, client);
    assert_eq!(
        fill.frames().len() as u32,
        LEVEL_MIN,
        "half as many when it is calm"
    );
    refill.expect_bursts(true);
    refill.give_back(&area, client);
    let left = SHAPE.rx_frames - LEVEL_MIN - 100;
    assert_eq!(fill.frames().len() as u32, left, "all that there are");
}
