//! Sixty-four threads open, use and close sockets of all kinds for a minute: nothing may break,
//! stand still or leak.

use std::fs;
use std::io::Write;
use std::time::Duration;

use testkit::{Accelerated, Echo, Namespaces, Pair, SOON, eventually, or_skip, preloaded};

const SECONDS: u64 = 25;
const THREADS: usize = 64;
/// The minute, and what a busy machine adds.
const TIMEOUT: Duration = Duration::from_secs(SECONDS + 240);
/// Sockets of all threads at one moment, with room.
const STATISTICS: &str = "1000";
/// Frames that a device may have more of at the end: its filling ring grows with bursts, in steps
/// of this.
const DEVICE_GROWTH_FRAMES: u64 = 512;
/// Resident memory may be so much more at the end: the allocator's arenas of 64 threads.
const GROWTH_KIB_MAX: u64 = 32 * 1024;

/// What the process holds while none of its threads runs and no socket is open.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    descriptors: usize,
    memory_kib: u64,
    frames: u64,
}

impl Holdings {
    fn of(stress: &mut Accelerated) -> Self {
        let status = format!("/proc/{}/status", stress.process().pid());
        let status = fs::read_to_string(status).unwrap();
        let pools = stress.reader().pools().unwrap();
        Self {
            descriptors: stress.descriptor_count(),
            memory_kib: number_after(&status, "VmRSS:"),
            frames: pools.iter().map(|pool| pool.frames - pool.free).sum(),
        }
    }

    /// Whether it is not much more than `before`. Sleepers keep an eventfd each in stock.
    fn is_like(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors + THREADS
            && self.memory_kib <= before.memory_kib + GROWTH_KIB_MAX
            && self.frames <= before.frames + DEVICE_GROWTH_FRAMES
    }
}

fn stress(queues: u32, environment: &[(&str, &str)]) {
    let pair = or_skip!(Namespaces::new().queues(queues).create());
    let _echo = Echo::start(&pair.a, Pair::ADDRESS_A).unwrap();
    let program = testkit::c_program("stress");
    let mut command = preloaded(&pair.b, &program).unwrap();
    command
        .arg(SECONDS.to_string())
        .env("VMA_STATS_FD_NUM", STATISTICS)
        .envs(environment.iter().copied());
    let mut stress = Accelerated::start(command).unwrap();
    let mut input = stress.process().stdin().unwrap();
    await_words(&mut stress, "warm", SOON);
    let before = Holdings::of(&mut stress);
    writeln!(input, "go on").unwrap();
    await_words(&mut stress, "done", TIMEOUT);

    let said = words(&mut stress);
    let failed = said.contains("FAILED") || said.contains("internal error");
    assert!(!failed, "{said}");
    assert!(number_after(&said, "echoed ") > 1000, "too little: {said}");
    let rings = stress.reader().rings().unwrap();
    let past_kernel: u64 = rings.iter().map(|ring| ring.rx_packets).sum();
    assert!(past_kernel > 1000, "{past_kernel} past the kernel: {said}");
    let open = stress.sockets();
    assert!(open.is_empty(), "closed sockets in the table: {open:#?}");
    let mut after = before;
    let is_like_before = || {
        after = Holdings::of(&mut stress);
        after.is_like(&before)
    };
    let nothing_leaked = eventually(SOON, is_like_before);
    assert!(nothing_leaked, "{before:?}, then {after:?}");
    drop(input);
    let finished = stress.into_process().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
}

fn words(stress: &mut Accelerated) -> String {
    stress.process().stdout() + &stress.process().stderr()
}

fn await_words(stress: &mut Accelerated, text: &str, timeout: Duration) {
    let came = stress.process().wait_for_output(text, timeout);
    assert!(came, "{:?} {}", stress.process().status(), words(stress));
}

fn number_after(text: &str, word: &str) -> u64 {
    let (_, rest) = text.split_once(word).unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn many_threads_with_default_settings() {
    stress(1, &[]);
}

#[test]
fn many_threads_that_sleep_at_once() {
    stress(
        1,
        &[
            ("VMA_RX_POLL", "0"),
            ("VMA_SELECT_POLL", "0"),
            ("VMA_THREAD_MODE", "2"),
        ],
    );
}

#[test]
#[ignore = "takes a minute"]
fn many_threads_with_rings_of_their_own() {
    stress(8, &[("VMA_RING_ALLOCATION_LOGIC_TX", "20")]);
}
