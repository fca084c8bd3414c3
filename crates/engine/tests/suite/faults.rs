//! Devices that are busy, down, full or gone.

use dev_core::KickOutcome::{Again, Done, Down, Lost};
use engine::{Errno, Reason, SendOutcome, Settings};

use crate::support::calls::{receive, send, send_parts};
use crate::support::host::{Host, settings};
use crate::support::isolation::isolated;
use crate::support::{FIRST_LINK, OUR_IP, PEER};

#[test]
fn a_busy_device_is_kicked_until_it_takes_the_frame() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        wire.script_kicks([Again, Again, Again, Done]);
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        assert_eq!((wire.kicks(), wire.queued()), (4, 0));
        assert!(wire.sent().is_some());
        let ring = &host.statistics().rings().unwrap()[0];
        assert_eq!((ring.tx_kicks, ring.tx_kick_retries), (1, 3));
    });
}

#[test]
fn what_a_busy_device_left_goes_with_the_next_poll() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        wire.script_kicks([Again; 1000]);
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        let bound = wire.kicks();
        assert!(bound < 1000, "a send call does not kick without end");
        assert_eq!(wire.queued(), 1);
        for _ in 0..1000 {
            assert!(receive(&socket, libc::MSG_DONTWAIT).is_err());
        }
        assert_eq!(wire.queued(), 0);
        assert!(wire.sent().is_some());
        let kicks = wire.kicks();
        assert!(receive(&socket, libc::MSG_DONTWAIT).is_err());
        assert_eq!(wire.kicks(), kicks, "nothing is left to kick for");
    });
}

#[test]
fn what_a_busy_device_left_goes_without_the_programs_help() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        wire.script_kicks([Again; 200]);
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        // What the internal thread does.
        let rounds = (1..1000).find(|_| !host.engine.refresh_gauges()).unwrap();
        assert!(rounds > 1, "it was busy for a while");
        assert_eq!(wire.queued(), 0);
    });
}

#[test]
fn a_device_that_is_down_keeps_its_socket() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        wire.script_kicks([Down]);
        assert_eq!(send(&socket, Some(PEER), b"1"), SendOutcome::Done(1));
        assert_eq!((wire.kicks(), wire.queued()), (1, 1));
        assert_eq!(socket.reason(), Reason::Offloaded);
        assert_eq!(send(&socket, Some(PEER), b"2"), SendOutcome::Done(1));
        assert_eq!(wire.queued(), 0);
    });
}

#[test]
fn a_lost_device_gives_its_sockets_to_the_kernel_until_there_is_another() {
    isolated(|| {
        let host = Host::new();
        let (socket, other) = (host.any(), host.any());
        let wire = host.device.wire(FIRST_LINK);
        wire.script_kicks([Lost]);
        // The device took this one with it, as a cable that is cut does.
        let _ = send(&socket, Some(PEER), b"x");
        let lost = SendOutcome::Kernel(Reason::DeviceLost);
        assert_eq!(send(&socket, Some(PEER), b"x"), lost);
        assert_eq!(send(&other, Some(PEER), b"x"), lost);
        assert_eq!(host.device.opens(), 2);
        // The second interface still works for what comes in there.
        let second = crate::support::SECOND_LINK;
        assert_eq!(host.device.wire(second).flows().len(), 2);
        assert_eq!(wire.flows(), []);
        host.engine.network_changed(true);
        assert_eq!(host.device.opens(), 3);
        assert_eq!(wire.flows().len(), 2);
        assert_eq!(socket.reason(), Reason::Offloaded);
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        host.arrives(PEER, socket.at(OUR_IP), b"back");
        assert_eq!(receive(&socket, 0), Ok(b"back".to_vec()));
    });
}

#[test]
fn a_socket_whose_only_device_is_lost_says_so() {
    isolated(|| {
        let host = Host::new();
        host.network
            .change_interfaces(|interfaces| interfaces.truncate(1));
        let socket = host.any();
        host.device.wire(FIRST_LINK).script_kicks([Lost]);
        let _ = send(&socket, Some(PEER), b"x");
        let _ = send(&socket, Some(PEER), b"x");
        assert_eq!(socket.reason(), Reason::DeviceLost);
        let late = host.any();
        assert_eq!(late.reason(), Reason::DeviceLost);
        host.engine.network_changed(true);
        assert_eq!(socket.reason(), Reason::Offloaded);
        assert_eq!(late.reason(), Reason::Offloaded);
    });
}

/// bpf(2) may be denied by now. What is redirected to user space must not be to nobody.
#[test]
fn a_flow_that_cannot_be_taken_back_gives_the_whole_interface_to_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let (socket, other) = (host.any(), host.any());
        let wire = host.device.wire(FIRST_LINK);
        assert_eq!(wire.flows().len(), 2);
        wire.keep_flows();
        host.arrives(PEER, socket.at(OUR_IP), b"before");
        host.engine.leave_to_kernel(socket.ours(), Reason::Option);
        assert_eq!((wire.given_back(), wire.flows()), (1, vec![]));
        assert_eq!(receive(&socket, 0), Ok(b"before".to_vec()));
        // The internal thread sees to the others.
        host.engine.refresh_gauges();
        assert_eq!(other.reason(), Reason::Offloaded, "by the second interface");
        let late = host.any();
        assert_eq!(late.reason(), Reason::Offloaded);
        assert_eq!((wire.given_back(), wire.flows()), (1, vec![]));
        let sent = send(&other, Some(PEER), b"x");
        assert_eq!(sent, SendOutcome::Kernel(Reason::DeviceLost));
    });
}

#[test]
fn a_flow_that_is_refused_and_cannot_be_taken_back_gives_up_the_interface() {
    isolated(|| {
        let host = Host::new();
        let wire = host.device.wire(FIRST_LINK);
        wire.refuse_flows(true);
        wire.keep_flows();
        host.any();
        assert_eq!(wire.given_back(), 1);
    });
}

#[test]
fn a_full_ring_sends_through_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        wire.set_full(true);
        let full = SendOutcome::Kernel(Reason::RingFull);
        assert_eq!(send(&socket, Some(PEER), b"x"), full);
        wire.set_full(false);
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        assert_eq!(host.statistics().rings().unwrap()[0].tx_full, 1);
        assert_eq!(socket.reason(), Reason::Offloaded);
    });
}

#[test]
fn a_full_ring_fails_if_that_is_asked_for_and_the_call_is_not_to_wait() {
    isolated(|| {
        let host = Host::with(Settings {
            full_ring_fails: true,
            ..settings()
        });
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        wire.set_full(true);
        let flags = [0, libc::MSG_DONTWAIT];
        let sent = flags.map(|flags| send_parts(&socket, Some(PEER), &[b"x"], flags));
        let full = SendOutcome::Kernel(Reason::RingFull);
        assert_eq!(sent, [full, SendOutcome::Fail(Errno(libc::EAGAIN))]);
    });
}

#[test]
fn an_empty_pool_sends_through_the_kernel_and_loses_no_frame() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        // As many interfaces with deep rings.
        wire.hold_frames(256);
        assert_eq!(socket.ours().next_len_after_poll(), None);
        assert_eq!(host.free_frames(), 0);
        host.arrives(PEER, socket.at(OUR_IP), b"waits");
        assert_eq!(socket.ours().next_len_after_poll(), None);
        assert_eq!(
            send(&socket, Some(PEER), b"x"),
            SendOutcome::Kernel(Reason::RingFull)
        );
        wire.hold_frames(0);
        assert_eq!(receive(&socket, 0), Ok(b"waits".to_vec()));
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        assert!(host.statistics().pools().unwrap()[0].exhausted > 0);
        drop(socket);
        assert_eq!(host.free_frames(), 256);
    });
}

#[test]
fn a_device_that_sends_by_itself_is_not_kicked() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        wire.set_sends_by_itself(true);
        for _ in 0..3 {
            assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
            assert!(wire.sent().is_some());
        }
        assert_eq!(wire.kicks(), 0);
    });
}

#[test]
fn what_the_device_dropped_is_counted() {
    isolated(|| {
        let host = Host::new();
        let _socket = host.any();
        for total in [0, 5, 5, 12] {
            host.device.wire(FIRST_LINK).set_dropped(total);
            let ring = &host.statistics().rings().unwrap()[0];
            assert_eq!(ring.rx_dropped_no_frame, total);
        }
    });
}
