//! Threads that sleep while a stream comes that nobody answers (`VMA_CQ_MODERATION_*`).

use std::time::Duration;

use engine::{Moderation, MuxCall, MuxOutcome, RecvOutcome, SendOutcome, Settings, Sleep};

use crate::support::calls::{Receiving, receive, send};
use crate::support::device::Device;
use crate::support::host::{Host, Socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{IN, polled};
use crate::support::{OUR_IP, PEER};

/// The device judges by so many packets; the first look has no beginning.
const PACKETS: usize = 2 * 256;
/// Any rate of a loaded machine makes a stream.
const PERIOD: Duration = Duration::from_secs(3600);

fn moderated() -> Settings {
    let moderation = Moderation {
        period: PERIOD,
        packets: u32::MAX,
    };
    Settings {
        moderation,
        ..settings()
    }
}

fn stream(host: &Host<Device>, socket: &Socket<Device>, answers: bool) {
    for _ in 0..PACKETS {
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        assert_eq!(receive(socket, libc::MSG_DONTWAIT), Ok(b"x".to_vec()));
        if answers {
            assert_eq!(send(socket, Some(PEER), b"y"), SendOutcome::Done(1));
        }
    }
}

fn sleeps(call: &mut Receiving<Device>) -> Sleep {
    match call.attempt(&mut [0; 8]) {
        RecvOutcome::Sleep(sleep) => sleep,
        other => panic!("{other:?}"),
    }
}

/// Whether something that the thread watches is ready.
fn would_wake(sleep: &mut Sleep) -> bool {
    let fds = sleep.fds();
    // SAFETY: the descriptors are valid for the call.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) > 0 }
}

#[test]
fn packets_of_a_stream_do_not_wake_a_thread_that_naps() {
    isolated(|| {
        let host = Host::with(moderated());
        let socket = host.any();
        stream(&host, &socket, false);
        let mut call = Receiving::begin(&socket, 0);
        let mut sleep = sleeps(&mut call);
        assert!(sleep.timeout().is_some());
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        assert!(
            !would_wake(&mut sleep),
            "the device's descriptor is not watched"
        );
        sleep.end();
        assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Done(1)));
    });
}

#[test]
fn after_a_nap_in_vain_the_next_packet_wakes() {
    isolated(|| {
        let host = Host::with(moderated());
        let socket = host.any();
        stream(&host, &socket, false);
        let mut call = Receiving::begin(&socket, 0);
        sleeps(&mut call).end();
        let mut sleep = sleeps(&mut call);
        assert!(sleep.timeout().is_none());
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        assert!(would_wake(&mut sleep));
        sleep.end();
        assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Done(1)));
        // The stream has paused.
        let mut call = Receiving::begin(&socket, 0);
        let sleep = sleeps(&mut call);
        assert!(sleep.timeout().is_none());
        sleep.end();
    });
}

#[test]
fn calls_that_wait_for_several_nap_too() {
    isolated(|| {
        let host = Host::with(moderated());
        let socket = host.any();
        stream(&host, &socket, false);
        let mut fds = [polled(socket.fd(), IN)];
        let sockets = host.engine.polled_sockets(&fds).unwrap();
        let mut call = MuxCall::begin(host.engine.settings(), None, true);
        let mut naps = || match host.engine.poll(&mut call, &mut fds, &sockets) {
            MuxOutcome::Sleep(sleep) => {
                let naps = sleep.timeout().is_some();
                sleep.end();
                naps
            }
            other => panic!("{other:?}"),
        };
        assert_eq!([naps(), naps()], [true, false]);
    });
}

#[test]
fn a_conversation_is_not_moderated() {
    isolated(|| {
        let host = Host::with(moderated());
        let socket = host.any();
        stream(&host, &socket, true);
        let sleep = sleeps(&mut Receiving::begin(&socket, 0));
        assert!(sleep.timeout().is_none());
        sleep.end();
    });
}
