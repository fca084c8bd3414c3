//! Mixed TCP traffic over a lossy link, with forks, kills, resets and listeners that are opened
//! anew: every stream is exact, none gets stuck, and neither descriptors nor frames nor memory are
//! left behind. `SOAK_SECONDS` says how long, `SOAK_SEED` with what.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use testkit::link::{Conditions, Loss};
use testkit::{Accelerated, Namespaces, Pair, echo_streams, eventually, or_skip, preloaded};

const PORT: u16 = 7940;
/// What is left of connections is gone by then: the last of them wait for retransmissions.
const GONE: Duration = Duration::from_secs(90);

/// A burst has the receive ring get as many empty frames as it has room for, at any time.
const RX_RING_FRAMES: u64 = 4096;
/// Sent frames that the device has not given back yet, and received ones that nobody has read.
const ON_THEIR_WAY: u64 = 512;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// One connection to the program's server. `None`: its listener was closed before the connection
/// was accepted.
fn exchange(len: usize) -> Option<()> {
    let address = (Pair::ADDRESS_A, PORT + 1).into();
    let mut stream = TcpStream::connect_timeout(&address, GONE).ok()?;
    stream.set_read_timeout(Some(GONE)).unwrap();
    let octets: Vec<u8> = (0..len)
        .map(|i| (i * 31 + (i >> 9)).to_le_bytes()[0])
        .collect();
    let mut received = Vec::new();
    let end = thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        let octets = &octets;
        scope.spawn(move || {
            // Whoever reads finds the error.
            let _ = writer
                .write_all(octets)
                .and_then(|()| writer.shutdown(Shutdown::Write));
        });
        stream.read_to_end(&mut received)
    });
    assert!(octets.starts_with(&received), "not what was sent");
    if received.is_empty() {
        return None;
    }
    assert_eq!(end.unwrap(), len);
    Some(())
}

#[derive(Debug)]
struct Left {
    descriptors: usize,
    frames: u64,
    resident_kib: u64,
}

fn left(program: &mut Accelerated) -> Left {
    let status = program.process().status().unwrap();
    assert!(
        status.is_none(),
        "{status:?}: {}",
        program.process().stdout()
    );
    let rows = || program.reader().tcp_connections().unwrap();
    let are_gone = eventually(GONE, || rows().is_empty());
    assert!(are_gone, "connections that nobody has: {:#?}", rows());
    let pools = program.reader().pools().unwrap();
    let pid = program.process().pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    Left {
        descriptors: program.descriptor_count(),
        frames: pools.iter().map(|pool| pool.frames - pool.free).sum(),
        resident_kib: kib.parse().unwrap(),
    }
}

#[test]
fn nothing_is_left_of_mixed_traffic_and_no_octet_is_lost() {
    let (secs, seed) = (number("SOAK_SECONDS", 15), number("SOAK_SEED", 1));
    let conditions = Conditions {
        loss: Loss::Random(0.01),
        reorder: 0.01,
        reorder_delay: Duration::from_millis(1),
        duplicate: 0.005,
        ..Conditions::default()
    };
    let pair = Namespaces::new().cable(conditions, seed);
    let pair = or_skip!(pair.create());
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    let program = testkit::c_program("soak");
    let mut command = preloaded(&pair.a, &program).unwrap();
    command.args([
        Pair::ADDRESS_A.to_string(),
        Pair::ADDRESS_B.to_string(),
        PORT.to_string(),
        secs.to_string(),
        seed.to_string(),
    ]);
    let mut program = Accelerated::start(command).unwrap();
    let mut input = program.process().stdin().unwrap();
    let is_over = AtomicBool::new(false);
    let client = |index: usize| {
        let mut served = 0;
        let mut len = 1 + index;
        while !is_over.load(Ordering::Relaxed) {
            len = (len * 7919 + 13) % 400_000;
            match exchange(len + 1) {
                Some(()) => served += 1,
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
        served
    };
    let (client, b) = (&client, &pair.b);
    let served = thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|index| scope.spawn(move || b.enter(|| client(index))))
            .collect();
        let mut reaches = |word: &str| {
            let limit = Duration::from_secs(secs) + 2 * GONE;
            let is_there = program.process().wait_for_output(word, limit);
            let said = program.process().stdout() + &program.process().stderr();
            // However it ends, the clients must end, too.
            is_over.fetch_or(!is_there || word == "done", Ordering::Relaxed);
            assert!(is_there, "{said}");
            left(&mut program)
        };
        let warm = reaches("warm");
        writeln!(input, "go on").unwrap();
        let done = reaches("done");
        eprintln!(
            "after {secs} s: {warm:?}, {done:?}, {}",
            program.process().stdout()
        );
        // The library keeps one for each thread that ever slept while others did.
        let most = warm.descriptors + 8;
        assert!(done.descriptors <= most, "{warm:?} {done:?}");
        let most = warm.frames + RX_RING_FRAMES + ON_THEIR_WAY;
        assert!(done.frames <= most, "{warm:?} {done:?}");
        let more = done.resident_kib.saturating_sub(warm.resident_kib);
        assert!(more < 16 * 1024, "{warm:?} {done:?}");
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum::<u32>()
    });
    assert!(served > 20, "{served} connections to the server");
    writeln!(input, "end").unwrap();
    let finished = program.into_process().wait(GONE).unwrap();
    assert!(finished.status.success(), "{finished:?}");
}
