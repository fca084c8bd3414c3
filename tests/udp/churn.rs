//! Sockets that come and go while packets arrive for them.

use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testkit::{Accelerated, Namespaces, Pair, SOON, eventually, or_skip, preloaded};

const SECONDS: u64 = 5;
/// Those that the programs use, and one that they open at the end.
fn ports() -> impl Iterator<Item = u16> {
    (7400..7432).chain([7450])
}

/// Sends each port its own number, as fast as it can, until told to stop.
fn blast(socket: &UdpSocket, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for port in ports() {
            let text = format!("{port}....");
            // The errors are those of ports that are closed.
            drop(socket.send_to(&text.as_bytes()[..8], (Pair::ADDRESS_B, port)));
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Runs `body` with a program while the peer sends to all ports.
fn under_traffic(name: &str, body: impl Fn(&Pair, &Path)) {
    let pair = or_skip!(Namespaces::pair());
    let program = testkit::c_program(name);
    let peer = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 7000)))
        .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| blast(&peer, &stop));
        // However it ends, the sender must end too.
        let body = std::panic::AssertUnwindSafe(|| body(&pair, &program));
        let outcome = std::panic::catch_unwind(body);
        stop.store(true, Ordering::Relaxed);
        if let Err(cause) = outcome {
            std::panic::resume_unwind(cause);
        }
    });
}

fn churn(pair: &Pair, program: &Path, environment: &[(&str, &str)]) {
    let mut command = preloaded(&pair.b, program).unwrap();
    command
        .args([&Pair::ADDRESS_B.to_string(), &SECONDS.to_string()])
        .envs(environment.iter().copied());
    let mut churn = Accelerated::start(command).unwrap();
    let mut input = churn.process().stdin().unwrap();
    let words = |churn: &mut Accelerated| churn.process().stdout() + &churn.process().stderr();
    assert!(
        churn.process().wait_for_output("warm", SOON),
        "{}",
        words(&mut churn)
    );
    let descriptors = churn.descriptor_count();
    let rings_before = churn.received_by_rings();
    writeln!(input, "go on").unwrap();
    assert!(
        churn.process().wait_for_output("opened", SOON),
        "{}",
        words(&mut churn)
    );
    let output = words(&mut churn);
    assert!(!output.contains("FAILED"), "{output}");
    assert!(!output.contains("received 0"), "{output}");
    assert!(
        churn.received_by_rings() > rings_before + 1000,
        "nothing came past the kernel: {output}"
    );
    assert_eq!(churn.sockets().len(), 0, "slots of closed sockets remain");
    // Sleepers keep an eventfd each in stock, at most one a thread.
    let after = churn.descriptor_count();
    assert!(
        after <= descriptors + 3,
        "{descriptors} descriptors before, {after} after"
    );
    // Frames of closed sockets are back in the pool, but for those that the device holds.
    let pools = || churn.reader().pools().unwrap();
    let all_back = eventually(SOON, || {
        pools().iter().all(|pool| pool.free * 2 >= pool.frames)
    });
    assert!(all_back, "{:?}", pools());
    drop(input);
    let finished = churn.into_process().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
}

#[test]
fn sockets_come_and_go_under_traffic() {
    under_traffic("churn", |pair, program| churn(pair, program, &[]));
}

#[test]
fn sockets_come_and_go_under_traffic_with_sleeping_threads() {
    let environment = [("VMA_SELECT_POLL", "0"), ("VMA_THREAD_MODE", "2")];
    under_traffic("churn", |pair, program| churn(pair, program, &environment));
}

#[test]
fn descriptors_are_closed_and_replaced_while_others_use_them() {
    under_traffic("abuse", |pair, program| {
        let mut command = preloaded(&pair.b, program).unwrap();
        command.args([&Pair::ADDRESS_B.to_string(), &SECONDS.to_string()]);
        let mut abuse = Accelerated::start(command).unwrap();
        let input = abuse.process().stdin();
        let received = abuse.process().wait_for_output("recv: 8", SOON);
        let state = abuse.process().status();
        let output = abuse.process().stdout() + &abuse.process().stderr();
        assert!(received, "{state:?} {output}");
        let accelerated = abuse.received_by_rings();
        // Most of what it does hands its sockets to the kernel.
        assert!(accelerated > 50, "{accelerated}: {output}");
        assert!(!output.contains("internal error"), "{output}");
        let sockets = abuse.sockets();
        assert_eq!(sockets.len(), 1, "slots of closed sockets: {sockets:#?}");
        drop(input);
        let finished = abuse.into_process().wait(SOON).unwrap();
        assert!(finished.status.success(), "{finished:?}");
    });
}
