//! What a reader of the statistics costs the process that it looks at: a ping-pong whose both ends
//! are read ten times a second, and the same one unread, in turn.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stats::{Reader, Statistics};
use testkit::{Accelerated, Namespaces, Pair, or_skip, panic_unless_paused, preloaded};

const LIMIT: Duration = Duration::from_secs(60);
const PORT: &str = "7710";
/// Of one turn.
const MILLISECONDS: &str = "500";
const TURNS: usize = 60;
const INTERVAL: Duration = Duration::from_millis(100);
/// The median round trip with a reader, as a multiple of that without.
const FACTOR_MAX: f64 = 1.02;

/// Reads all of a process's statistics, as `vma_stats` does, while `wanted`; returns how often.
fn read(readers: &[&Reader], wanted: &AtomicBool) -> usize {
    let mut looks = 0;
    while wanted.load(Ordering::Relaxed) {
        for reader in readers {
            let statistics = Statistics::read(reader).unwrap();
            assert!(statistics.sockets.iter().any(|socket| socket.offloaded));
        }
        looks += 1;
        thread::sleep(INTERVAL);
    }
    looks
}

/// A turn of the ping-pong: its median, in nanoseconds.
fn play(ask: &mut Accelerated, input: &mut impl Write, turn: usize) -> f64 {
    input.write_all(b"play\n").unwrap();
    input.flush().unwrap();
    let process = ask.process();
    let is_done = |text: &str| text.matches("median ").count() == turn;
    testkit::eventually(LIMIT, || is_done(&process.stdout()));
    let text = process.stdout();
    let line = text.lines().last().unwrap_or_default();
    let median = line.split_whitespace().nth(1);
    median
        .and_then(|median| median.parse().ok())
        .unwrap_or_else(|| panic!("{text}{}", process.stderr()))
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "takes a minute of a machine that does nothing else"]
#[allow(clippy::print_stdout, reason = "what was measured")]
fn a_ping_pong_is_as_fast_with_a_reader() {
    let _turn = crate::turn();
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let program = testkit::c_program_with("windows", &["-O2"]);
        let address = Pair::ADDRESS_B.to_string();
        let start = |namespace, arguments: &[&str]| {
            let mut command = preloaded(namespace, &program).unwrap();
            command.args(arguments).env("VMA_SPEC", "latency");
            let mut started = Accelerated::start(command).unwrap();
            assert!(started.process().wait_for_output("ready", LIMIT));
            started
        };
        let echo = start(&pair.b, &["echo", &address, PORT]);
        let mut ask = start(&pair.a, &["ask", &address, PORT, MILLISECONDS]);
        let mut input = ask.process().stdin().unwrap();
        // The first turn finds the neighbour.
        play(&mut ask, &mut input, 1);
        let readers = [ask.reader(), echo.reader()];
        let readers: Vec<&Reader> = readers.iter().collect();
        let (mut unread, mut seen, mut looks) = (Vec::new(), Vec::new(), 0);
        for turn in 0..TURNS {
            let number = 2 * turn + 2;
            unread.push(play(&mut ask, &mut input, number));
            let wanted = AtomicBool::new(true);
            thread::scope(|scope| {
                let reading = scope.spawn(|| read(&readers, &wanted));
                seen.push(play(&mut ask, &mut input, number + 1));
                wanted.store(false, Ordering::Relaxed);
                looks += reading.join().unwrap();
            });
        }
        // Turns that follow each other see the same machine.
        let factors = unread.iter().zip(&seen).map(|(unread, seen)| seen / unread);
        let factor = middle(factors.collect());
        let (unread, seen) = (middle(unread), middle(seen));
        println!("p50 {unread:.0} ns, {seen:.0} ns with {looks} looks: {factor:.3} times");
        assert!(looks > TURNS * 3);
        assert!(factor < FACTOR_MAX, "{factor:.3} times");
    });
}
