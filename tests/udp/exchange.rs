//! A windowed exchange of checked datagrams.

use std::time::{Duration, Instant};

use testkit::{Accelerated, Namespace, Pair, SOON};

/// Which ends have the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preloaded {
    pub(crate) driver: bool,
    pub(crate) reflector: bool,
}

fn assert_accelerated(process: &Accelerated, requests: u64, what: &str) {
    let (accelerated, kernel) = (process.packets(), process.kernel_packets());
    // All but the large ones, and what came before the neighbour was known.
    assert!(
        kernel < accelerated / 50 && accelerated > requests,
        "{what}: {accelerated} packets accelerated, {kernel} not: {:?}",
        process.sockets()
    );
    for socket in process.sockets() {
        assert_eq!(socket.rx_dropped_packets, 0, "{what}: {socket:?}");
    }
    for ring in process.reader().rings().unwrap() {
        let dropped = ring.rx_dropped_malformed + ring.rx_dropped_checksum;
        assert_eq!(dropped + ring.rx_dropped_no_frame, 0, "{what}: {ring:?}");
    }
}

/// `requests` one way and as many replies the other way.
pub(crate) fn exchange_on(
    pair: &Pair,
    preloaded: Preloaded,
    requests: u64,
    environment: &[(&str, &str)],
    timeout: Duration,
) {
    let program = testkit::c_program("integrity");
    let start = |namespace: &Namespace, with_library: bool, arguments: &[&str]| {
        let mut command = if with_library {
            testkit::preloaded(namespace, &program).unwrap()
        } else {
            namespace.command(&program)
        };
        command.args(arguments).envs(environment.iter().copied());
        Accelerated::start(command).unwrap()
    };
    let (near, far) = (Pair::ADDRESS_A.to_string(), Pair::ADDRESS_B.to_string());
    let what = format!("{preloaded:?} {environment:?}");

    let mut reflector = start(&pair.b, preloaded.reflector, &["reflect", &far]);
    let reflector_input = reflector.process().stdin();
    let ready = reflector.process().wait_for_output("ready", SOON);
    assert!(ready, "{what}: {}", reflector.process().stderr());
    let count = requests.to_string();
    let mut driver = start(&pair.a, preloaded.driver, &["drive", &near, &far, &count]);
    let driver_input = driver.process().stdin();
    let begun = Instant::now();
    let received = format!("received {requests}\n");
    let done = driver.process().wait_for_output(&received, timeout);
    assert!(
        done,
        "{what} after {:?}\ndriver: {}{}\nreflector: {}{}",
        begun.elapsed(),
        driver.process().stdout(),
        driver.process().stderr(),
        reflector.process().stdout(),
        reflector.process().stderr()
    );
    if preloaded.driver {
        assert_accelerated(&driver, requests, &what);
    }
    if preloaded.reflector {
        assert_accelerated(&reflector, requests, &what);
    }
    drop((reflector_input, driver_input));
    let finished = driver.into_process().wait(timeout).unwrap();
    assert!(finished.status.success(), "{what}: {finished:?}");
}
