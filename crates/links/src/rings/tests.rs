use std::net::{IpAddr, Ipv4Addr};

use vma_config::RingLogic;

use super::table::RingTable;
use super::*;

const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const USER: RingUser = RingUser {
    socket: 1,
    thread: 2,
    core: 3,
    policy: RingPolicy::ONE_RING,
};

const LOGICS: [RingLogic; 6] = [
    RingLogic::PerInterface,
    RingLogic::PerAddress,
    RingLogic::PerSocket,
    RingLogic::PerThread,
    RingLogic::PerCore,
    RingLogic::PerCoreAttached,
];

#[test]
fn each_logic_tells_those_apart_that_it_is_about() {
    // Another address, another socket, another thread, another core: whose key is another one.
    let others = |policy: RingPolicy| {
        let user = RingUser { policy, ..USER };
        let key = user.key(SOURCE);
        [
            user.key(Ipv4Addr::LOCALHOST.into()) != key,
            RingUser { socket: 9, ..user }.key(SOURCE) != key,
            RingUser { thread: 9, ..user }.key(SOURCE) != key,
            RingUser { core: 9, ..user }.key(SOURCE) != key,
        ]
    };
    let expected = [
        [false, false, false, false],
        [true, false, false, false],
        [false, true, false, false],
        [false, false, true, false],
        [false, false, false, true],
        [false, false, false, true],
    ];
    for (logic, expected) in LOGICS.into_iter().zip(expected) {
        assert_eq!(
            others(RingPolicy::new(logic, 100, 0)),
            expected,
            "{logic:?}"
        );
    }
}

#[test]
fn the_limit_is_of_all_logics_that_have_several_rings() {
    for logic in LOGICS {
        let rings_max = |limit| RingPolicy::new(logic, 100, limit).rings_max(false);
        let expected = match logic {
            RingLogic::PerInterface => (1, 1),
            _ => (u32::MAX, 3),
        };
        assert_eq!((rings_max(0), rings_max(3)), expected, "{logic:?}");
    }
}

#[test]
fn sockets_with_a_number_share_the_ring_of_those_with_the_same() {
    let numbered = |number, user: RingUser| RingUser {
        policy: RingPolicy::ONE_RING.with_sharers(RingSharers::Numbered(number)),
        ..user
    };
    let other = RingUser {
        socket: 9,
        thread: 8,
        ..USER
    };
    let key = numbered(5, USER).key(SOURCE);
    assert_eq!(key, numbered(5, other).key(Ipv4Addr::LOCALHOST.into()));
    assert_ne!(key, numbered(6, USER).key(SOURCE));
    assert_ne!(key, USER.key(SOURCE));
    // A number is one of the socket's own, whoever uses that.
    assert_eq!(
        calls_until_moved(numbered(5, USER), |_| numbered(5, other)),
        None
    );
}

#[test]
fn an_interface_has_several_rings_if_sockets_choose_theirs() {
    let rings_max = |limit| RingPolicy::new(RingLogic::PerInterface, 0, limit).rings_max(true);
    assert_eq!((rings_max(0), rings_max(3)), (u32::MAX, 3));
}

/// After how many calls by `other` a socket of [`USER`] is moved, at most 1000.
fn calls_until_moved(own: RingUser, mut other: impl FnMut(u32) -> RingUser) -> Option<u32> {
    let mut migration = Migration::new(own.policy);
    (1..=1000).find(|call| migration.count_call() && migration.moves(own, other(*call)))
}

#[test]
fn a_socket_follows_the_thread_or_core_that_goes_on_using_it() {
    for logic in LOGICS {
        let moved = |ratio| {
            let policy = RingPolicy::new(logic, ratio, 0);
            let own = RingUser { policy, ..USER };
            let other = RingUser {
                thread: 7,
                core: 8,
                ..own
            };
            calls_until_moved(own, |_| other)
        };
        let moves = matches!(
            logic,
            RingLogic::PerThread | RingLogic::PerCore | RingLogic::PerCoreAttached
        );
        assert_eq!(moved(100), moves.then_some(120), "{logic:?}");
        assert_eq!(moved(5), moves.then_some(10), "{logic:?}");
        assert_eq!(moved(0), None, "{logic:?} without migration");
    }
}

#[test]
fn a_socket_stays_with_its_thread_while_others_come_and_go() {
    let own = RingUser {
        policy: RingPolicy::new(RingLogic::PerThread, 100, 0),
        ..USER
    };
    assert_eq!(calls_until_moved(own, |_| own), None);
    let once = |call| RingUser {
        thread: if call == 100 { 7 } else { own.thread },
        ..own
    };
    assert_eq!(calls_until_moved(own, once), None);
    let always_another = |call: u32| RingUser {
        thread: 100 + call as usize,
        ..own
    };
    assert_eq!(calls_until_moved(own, always_another), None);
}

#[test]
fn keys_have_rings_of_their_own_as_long_as_there_are_enough() {
    let mut table = RingTable::new(4);
    let rings: Vec<_> = (0..4)
        .map(|thread| table.reserve(RingKey::Thread(thread)))
        .collect();
    assert_eq!(rings, [0, 1, 2, 3]);
    assert_eq!(table.reserve(RingKey::Thread(2)), 2, "it has one");
    // The fifth shares one, and the one that becomes free is taken first.
    assert_eq!(table.reserve(RingKey::Thread(4)), 0);
    table.release(RingKey::Thread(2));
    assert_eq!(table.reserve(RingKey::Thread(5)), 1, "the third is in use");
    table.release(RingKey::Thread(2));
    assert_eq!(table.reserve(RingKey::Thread(6)), 2);
}

#[test]
fn one_ring_is_everybodys_and_what_was_never_reserved_cannot_be_released() {
    let mut table = RingTable::new(0);
    table.release(RingKey::Socket(1));
    for socket in 0..5 {
        assert_eq!(table.reserve(RingKey::Socket(socket)), 0);
    }
    for socket in 0..5 {
        table.release(RingKey::Socket(socket));
    }
    assert_eq!((table.keys_of, table.places.len()), (vec![0], 0));
}
