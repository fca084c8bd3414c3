//! Datagrams of random sizes in both directions arrive unharmed, none twice, none lost.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stats::Reader;
use testkit::{Namespaces, Pair, Running, or_skip};

/// Which ends have the library.
#[derive(Clone, Copy, Debug)]
struct Preloaded {
    driver: bool,
    reflector: bool,
}

/// What a preloaded process says of its packets.
#[derive(Debug, Default)]
struct Counts {
    accelerated: u64,
    kernel: u64,
}

fn counts(directory: &Path, process: &Running) -> Counts {
    let reader = Reader::open(directory, process.pid()).unwrap();
    let mut counts = Counts::default();
    for socket in reader.sockets().unwrap() {
        counts.accelerated += socket.rx_packets + socket.tx_packets;
        counts.kernel += socket.rx_os_packets + socket.tx_os_packets;
        assert_eq!(socket.rx_dropped_packets, 0, "{socket:?}");
    }
    for ring in reader.rings().unwrap() {
        let dropped = ring.rx_dropped_malformed + ring.rx_dropped_checksum;
        assert_eq!(dropped + ring.rx_dropped_no_frame, 0, "{ring:?}");
    }
    counts
}

/// `requests` one way and as many replies the other way.
fn exchange(preloaded: Preloaded, requests: u64, environment: &[(&str, &str)], timeout: Duration) {
    let pair = or_skip!(Namespaces::pair());
    let library = testkit::libvma_path().unwrap();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/integrity.c");
    let program = testkit::compile_c(&source, &directory).unwrap();
    let command = |namespace: &testkit::Namespace, with_library: bool| {
        let mut command = if with_library {
            namespace.preload(&program, &library)
        } else {
            namespace.command(&program)
        };
        command.envs(environment.iter().copied());
        command.env("VMA_STATS_SHMEM_DIR", &directory);
        command
    };
    let (near, far) = (Pair::ADDRESS_A.to_string(), Pair::ADDRESS_B.to_string());

    let mut reflector = command(&pair.b, preloaded.reflector);
    reflector.args(["reflect", &far]);
    let mut reflector = Running::start(reflector).unwrap();
    assert!(
        reflector.wait_for_output("ready", Duration::from_secs(10)),
        "{}",
        reflector.stderr()
    );
    let mut driver = command(&pair.a, preloaded.driver);
    driver.args(["drive", &near, &far, &requests.to_string()]);
    let mut driver = Running::start_interactive(driver).unwrap();
    let standard_input = driver.stdin();
    let begun = Instant::now();
    let done = driver.wait_for_output(&format!("received {requests}\n"), timeout);
    assert!(
        done,
        "{preloaded:?} after {:?}\ndriver: {}{}\nreflector: {}{}",
        begun.elapsed(),
        driver.stdout(),
        driver.stderr(),
        reflector.stdout(),
        reflector.stderr()
    );
    for (process, with_library) in [
        (&driver, preloaded.driver),
        (&reflector, preloaded.reflector),
    ] {
        if with_library {
            let counts = counts(&directory, process);
            // All but the large ones, and what came before the neighbour was known.
            assert!(
                counts.kernel < counts.accelerated / 50 && counts.accelerated > requests,
                "{preloaded:?}: {counts:?}"
            );
        }
    }
    drop(standard_input);
    assert!(driver.wait(timeout).unwrap().status.success());
}

const TIMEOUT: Duration = Duration::from_secs(50);

#[test]
fn kernel_driver_and_accelerated_reflector() {
    let preloaded = Preloaded {
        driver: false,
        reflector: true,
    };
    exchange(preloaded, 50_000, &[], TIMEOUT);
}

#[test]
fn accelerated_driver_and_kernel_reflector() {
    let preloaded = Preloaded {
        driver: true,
        reflector: false,
    };
    exchange(preloaded, 50_000, &[], TIMEOUT);
}

#[test]
fn accelerated_at_both_ends() {
    let preloaded = Preloaded {
        driver: true,
        reflector: true,
    };
    exchange(preloaded, 30_000, &[], TIMEOUT);
    exchange(preloaded, 20_000, &[("VMA_SPEC", "latency")], TIMEOUT);
}

#[test]
fn sleeping_at_both_ends() {
    let preloaded = Preloaded {
        driver: true,
        reflector: true,
    };
    exchange(preloaded, 10_000, &[("VMA_RX_POLL", "0")], TIMEOUT);
}

/// Ten million datagrams: `cargo test --release -p libvma --test integrity -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn ten_million_datagrams() {
    const EACH: u64 = 10_000_000 / 2 / 3 + 1;
    let long = Duration::from_secs(1200);
    for (driver, reflector) in [(false, true), (true, false), (true, true)] {
        let preloaded = Preloaded { driver, reflector };
        exchange(preloaded, EACH, &[], long);
    }
}
