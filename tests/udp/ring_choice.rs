//! `SO_VMA_RING_ALLOC_LOGIC`: sockets that say themselves with which others they share their rings.

use std::cmp::Reverse;
use std::net::UdpSocket;

use testkit::{Accelerated, Namespaces, Pair, SOON, echo_streams, or_skip, preloaded};

const QUEUES: u32 = 8;
const UDP_PORT: u16 = 7720;
const TCP_PORT: u16 = 7721;
const COUNT: u64 = 1000;

#[test]
fn sockets_have_the_rings_that_they_choose() {
    let pair = or_skip!(Namespaces::new().queues(QUEUES).create());
    echo_streams(&pair.a, Pair::ADDRESS_A, TCP_PORT).unwrap();
    let program = testkit::c_program("ring_choice");
    let address = (Pair::ADDRESS_A, UDP_PORT);
    // Nobody reads from it; what it has no room for is lost.
    let _peer = pair.a.enter(|| UdpSocket::bind(address)).unwrap();
    let mut command = preloaded(&pair.b, &program).unwrap();
    command.args([
        Pair::ADDRESS_A.to_string(),
        UDP_PORT.to_string(),
        TCP_PORT.to_string(),
        COUNT.to_string(),
    ]);
    let mut sender = Accelerated::start(command).unwrap();
    let input = sender.process().stdin().unwrap();
    let sent = sender.process().wait_for_output("sent", SOON);
    assert!(sent, "{}", sender.process().stderr());

    // One for those that share a number; one each for who has chosen one, at first or later, and
    // for who has not; one of the stream's.
    let rings = sender.reader().rings().unwrap();
    let mut packets: Vec<_> = rings.iter().map(|ring| ring.tx_packets).collect();
    packets.sort_by_key(|count| Reverse(*count));
    let [both, first, second, third, stream, rest @ ..] = &packets[..] else {
        panic!("{packets:?}");
    };
    assert!(*both >= 2 * COUNT && *third >= COUNT, "{packets:?}");
    assert!(*first <= COUNT + 1 && *second <= COUNT + 1, "{packets:?}");
    assert!((100..COUNT).contains(stream), "{packets:?}");
    assert!(rest.iter().all(|count| *count == 0), "{packets:?}");
    // One has chosen by which it receives, too.
    assert!(rings.iter().all(|ring| ring.queues == 1), "{rings:?}");

    drop(input);
    let finished = sender.into_process().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
}
