//! Calls on a socket that another thread closes, and on the object that its successor uses.

use std::net::Ipv4Addr;

use engine::{Errno, Reason, RecvOutcome, SendOutcome, Settings};

use crate::send::null_host;
use crate::support::calls::{Receiving, header, part, receive, send, send_on, sleep_until_woken};
use crate::support::host::{Host, kernel_socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{IN, poll, polled};
use crate::support::{OUR_IP, PEER};

const BAD_FD: Errno = Errno(libc::EBADF);

fn polling(rx_poll: i32) -> Settings {
    Settings {
        rx_poll,
        ..settings()
    }
}

#[test]
fn a_socket_closed_between_attempts_ends_the_call() {
    isolated(|| {
        for polls in [0, -1] {
            let host = Host::with(polling(polls));
            let socket = host.any();
            let mut call = Receiving::begin(&socket, 0);
            let before = call.attempt(&mut [0; 8]);
            host.engine.descriptor_closes(socket.fd());
            if let RecvOutcome::Sleep(sleep) = before {
                assert!(sleep_until_woken(sleep), "the close wakes");
            }
            let outcome = call.attempt(&mut [0; 8]);
            assert!(
                matches!(outcome, RecvOutcome::Fail(BAD_FD)),
                "{polls}: {outcome:?}"
            );
        }
    });
}

#[test]
fn a_call_that_begins_after_the_close_fails() {
    isolated(|| {
        for (polls, flags) in [(0, 0), (-1, 0), (-1, libc::MSG_DONTWAIT)] {
            let host = Host::with(polling(polls));
            let socket = host.any();
            // Looked up before the close, used after it.
            let ours = socket.ours();
            host.engine.descriptor_closes(socket.fd());
            let mut call = Receiving::of(host.engine, socket.fd(), ours, flags);
            let outcome = call.attempt(&mut [0; 8]);
            assert!(
                matches!(outcome, RecvOutcome::Fail(BAD_FD)),
                "{polls} {flags}: {outcome:?}"
            );
        }
    });
}

#[test]
fn a_call_never_reads_its_successors_socket() {
    isolated(|| {
        for through_kernel in [true, false] {
            let host = Host::with(polling(-1));
            let first = host.any();
            let ours = first.ours();
            let mut call = Receiving::begin(&first, 0);
            assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Again));
            drop(first);
            let second = host.any();
            assert!(
                std::ptr::eq(ours, second.ours()),
                "the object is used again"
            );
            if through_kernel {
                let (peer, _) = kernel_socket("127.0.0.1:0");
                peer.send_to(b"mine", second.at(Ipv4Addr::LOCALHOST))
                    .unwrap();
                let mut fds = [polled(second.fd(), IN)];
                assert_eq!(poll(host.engine, &mut fds, 1000), Ok(1));
            } else {
                host.arrives(PEER, second.at(OUR_IP), b"mine");
            }
            let outcome = call.attempt(&mut [0; 8]);
            assert!(
                matches!(outcome, RecvOutcome::Fail(BAD_FD)),
                "{through_kernel}: {outcome:?}"
            );
            assert_eq!(
                receive(&second, libc::MSG_DONTWAIT),
                Ok(b"mine".to_vec()),
                "{through_kernel}"
            );
        }
    });
}

/// Looked up before the close, used after it, when the object is another socket's.
#[test]
fn a_late_call_never_uses_the_object_s_next_socket() {
    isolated(|| {
        let host = Host::with(polling(-1));
        let first = host.any();
        let (fd, ours) = (first.fd(), first.ours());
        host.engine.descriptor_closes(fd);
        let second = host.any();
        assert!(std::ptr::eq(ours, second.ours()), "used again");
        host.arrives(PEER, second.at(OUR_IP), b"mine");
        for flags in [0, libc::MSG_DONTWAIT] {
            let outcome = Receiving::of(host.engine, fd, ours, flags).attempt(&mut [0; 8]);
            assert!(matches!(outcome, RecvOutcome::Fail(BAD_FD)), "{outcome:?}");
        }
        assert_eq!(receive(&second, libc::MSG_DONTWAIT), Ok(b"mine".to_vec()));
    });
    isolated(|| {
        let host = null_host();
        let first = host.any();
        let (fd, ours) = (first.fd(), first.ours());
        host.engine.descriptor_closes(fd);
        let second = host.any();
        assert!(std::ptr::eq(ours, second.ours()), "used again");
        second.connect(PEER);
        let mut payload = *b"x";
        let mut parts = [part(&mut payload)];
        let outcome = send_on(host.engine, fd, ours, &mut header(&mut parts), 0);
        assert_eq!(outcome, SendOutcome::Kernel(Reason::Answered));
        assert_eq!(send(&second, None, b"x"), SendOutcome::Done(1));
    });
}

#[test]
fn a_new_socket_looks_at_the_kernel_soon() {
    isolated(|| {
        let host = Host::with(polling(-1));
        let (peer, _) = kernel_socket("127.0.0.1:0");
        // The first life of the object polls for long, which makes looks rare.
        let first = host.any();
        let ours = first.ours();
        let mut call = Receiving::begin(&first, 0);
        for _ in 0..4 {
            assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Again));
        }
        drop(first);
        let second = host.any();
        assert!(std::ptr::eq(ours, second.ours()));
        peer.send_to(b"x", second.at(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(receive(&second, libc::MSG_DONTWAIT), Ok(b"x".to_vec()));
    });
}
