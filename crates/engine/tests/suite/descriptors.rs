//! What descriptors stand for: copies, replacements, ranges, closes, and their entries in the
//! statistics.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use engine::Reason;

use crate::support::calls::{receive, receive_on};
use crate::support::device::Device;
use crate::support::host::{Host, close, kernel_socket, settings};
use crate::support::isolation::isolated;
use crate::support::{FIRST_LINK, OUR_IP, PEER, SECOND_LINK};

/// Flows of each interface.
fn flows(host: &Host<Device>) -> [usize; 2] {
    [FIRST_LINK, SECOND_LINK].map(|link| host.device.wire(link).flows().len())
}

#[test]
fn a_socket_lives_until_its_last_descriptor_closes() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let ours = socket.ours();
        let (first, second) = (socket.dup(), socket.dup());
        assert!(std::ptr::eq(
            ours,
            host.engine.udp(first.as_raw_fd()).unwrap()
        ));
        let local = socket.at(OUR_IP);
        drop(socket);
        // The kernel's socket is reached through one that is left.
        host.arrives(PEER, local, b"ours");
        let (peer, _) = kernel_socket("127.0.0.1:0");
        peer.send_to(b"kernels", (Ipv4Addr::LOCALHOST, local.port()))
            .unwrap();
        let receive = || receive_on(host.engine, ours, first.as_raw_fd(), 0).unwrap();
        let mut both = [receive(), receive()];
        both.sort();
        assert_eq!(both, [b"kernels".to_vec(), b"ours".to_vec()]);
        // In the sockets' statistics, too.
        let known = host.statistics().sockets().unwrap()[0].fd;
        assert!([first.as_raw_fd(), second.as_raw_fd()].contains(&known));
        close(host.engine, second);
        assert_eq!(flows(&host), [1, 1]);
        close(host.engine, first);
        assert_eq!(flows(&host), [0, 0]);
        assert_eq!(host.statistics().sockets().unwrap(), []);
    });
}

#[test]
fn a_descriptor_that_is_replaced_ends_what_it_stood_for() {
    isolated(|| {
        let host = Host::new();
        let (first, second) = (host.any(), host.any());
        let number = second.fd();
        // dup2(first, second), the hook's way.
        host.engine.descriptor_closes(number);
        // SAFETY: both descriptors are open.
        assert_eq!(unsafe { libc::dup2(first.fd(), number) }, number);
        host.engine.descriptor_duplicated(first.fd(), number);
        assert!(std::ptr::eq(first.ours(), second.ours()));
        assert_eq!(flows(&host), [1, 1]);
        // A copy onto itself changes nothing.
        host.engine.descriptor_duplicated(number, number);
        drop(second);
        assert_eq!(flows(&host), [1, 1]);
        drop(first);
        assert_eq!(flows(&host), [0, 0]);
    });
}

#[test]
fn ranges_of_descriptors_close_at_once() {
    isolated(|| {
        let host = Host::new();
        let sockets: Vec<_> = (0..20).map(|_| host.any()).collect();
        let mut fds: Vec<_> = sockets.iter().map(|socket| socket.fd() as u32).collect();
        fds.sort_unstable();
        host.engine.descriptors_close(fds[5], fds[14]);
        let open = |fd: &&u32| host.engine.look_up(**fd as i32).is_some();
        assert_eq!(fds.iter().filter(open).count(), 10);
        host.engine.descriptors_close(0, u32::MAX);
        assert_eq!(fds.iter().filter(open).count(), 0);
        assert_eq!(flows(&host), [0, 0]);
    });
}

#[test]
fn a_copy_beyond_the_table_leaves_the_socket_to_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.engine.descriptor_duplicated(socket.fd(), 5_000_000);
        assert_eq!(socket.reason(), Reason::Option);
        assert!(host.engine.look_up(5_000_000).is_none());
        host.engine
            .socket_opened(5_000_001, engine::Family::Inet, false);
        assert!(host.engine.look_up(5_000_001).is_none());
        drop(socket);
        assert_eq!(host.statistics().sockets().unwrap(), []);
    });
}

#[test]
fn sockets_beyond_the_statistics_work_like_the_others() {
    isolated(|| {
        let host = Host::with_backend(settings(), Device::default(), 4);
        let mut sockets: Vec<_> = (0..10).map(|_| host.any()).collect();
        assert_eq!(host.statistics().sockets().unwrap().len(), 4);
        let overflowed = host.statistics().overflowed(stats::SectionKind::Sockets);
        assert_eq!(overflowed.unwrap(), 6);
        for socket in &sockets {
            host.arrives(PEER, socket.at(OUR_IP), b"x");
            assert_eq!(receive(socket, 0), Ok(b"x".to_vec()));
        }
        let all = host.statistics().sockets().unwrap();
        assert!(all.iter().all(|socket| socket.rx_packets == 1));
        // A slot is free again with its socket.
        drop(sockets.remove(0));
        sockets.push(host.any());
        let all = host.statistics().sockets().unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all.iter().filter(|it| it.rx_packets == 0).count(), 1);
        assert_eq!(host.count_of(Reason::Offloaded), 11);
    });
}
