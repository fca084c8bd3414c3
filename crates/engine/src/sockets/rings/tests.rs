use std::net::{IpAddr, Ipv4Addr};

use vma_config::RingLogic;

use super::table::RingTable;
use super::*;

const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const USER: RingUser = RingUser {
    socket: 1,
    thread: 2,
    core: 3,
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
        let key = policy.key(USER, SOURCE);
        [
            policy.key(USER, Ipv4Addr::LOCALHOST.into()) != key,
            policy.key(RingUser { socket: 9, ..USER }, SOURCE) != key,
            policy.key(RingUser { thread: 9, ..USER }, SOURCE) != key,
            policy.key(RingUser { core: 9, ..USER }, SOURCE) != key,
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
        let rings_max = |limit| RingPolicy::new(logic, 100, limit).rings_max();
        let expected = match logic {
            RingLogic::PerInterface => (1, 1),
            _ => (u32::MAX, 3),
        };
        assert_eq!((rings_max(0), rings_max(3)), expected, "{logic:?}");
    }
}

/// After how many calls by `other` a socket of [`USER`] is moved, at most 1000.
fn calls_until_moved(policy: RingPolicy, mut other: impl FnMut(u32) -> RingUser) -> Option<u32> {
    let mut migration = Migration::new(policy);
    let own = policy.key(USER, SOURCE);
    (1..=1000).find(|call| {
        migration.is_due() && migration.moves(policy, own, policy.key(other(*call), SOURCE))
    })
}

#[test]
fn a_socket_follows_the_thread_or_core_that_goes_on_using_it() {
    let other = RingUser {
        thread: 7,
        core: 8,
        ..USER
    };
    for logic in LOGICS {
        let moved = |ratio| calls_until_moved(RingPolicy::new(logic, ratio, 0), |_| other);
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
    let policy = RingPolicy::new(RingLogic::PerThread, 100, 0);
    assert_eq!(calls_until_moved(policy, |_| USER), None);
    let once = |call| RingUser {
        thread: if call == 100 { 7 } else { USER.thread },
        ..USER
    };
    assert_eq!(calls_until_moved(policy, once), None);
    let always_another = |call: u32| RingUser {
        thread: 100 + call as usize,
        ..USER
    };
    assert_eq!(calls_until_moved(policy, always_another), None);
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
