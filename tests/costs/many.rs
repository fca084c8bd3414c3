//! What thousands of sockets, groups and addresses cost, with the library: open, idle, and to
//! close.

use std::time::Duration;

use testkit::{Cost, Namespaces, Pair, Running, or_skip, panic_unless_paused, preloaded};

const LIMIT: Duration = Duration::from_secs(60);
/// CPU time in two seconds of doing nothing: 1 % is the aim, and what is measured on a machine of
/// ordinary speed. A virtual one is at times three times slower.
const IDLE_MAX_USEC: f64 = 60_000.0;

/// `count` of a kind that `c/many.c` has.
fn cost_of(pair: &Pair, count: u32, kind: &str) -> Cost {
    let program = testkit::c_program("many");
    let mut command = preloaded(&pair.b, &program).unwrap();
    command.args([&count.to_string(), kind]);
    let finished = Running::start(command).unwrap().wait(LIMIT).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    Cost::parse(&finished.stdout).unwrap_or_else(|| panic!("{finished:?}"))
}

/// The kernel has no list of the sockets of one port: to ask who else has it costs as much as there
/// are sockets.
#[test]
#[allow(clippy::print_stdout, reason = "what was measured")]
fn sockets_that_may_share_their_ports() {
    const COUNT: u32 = 2000;
    let _turn = crate::turn();
    let pair = or_skip!(Namespaces::pair());
    panic_unless_paused(|| {
        let plain = cost_of(&pair, COUNT, "plain");
        let others = cost_of(&pair, COUNT, "reuse");
        println!("{COUNT} plain ones {plain:?}, others {others:?}");
        assert!(
            others.open < 6.0 * plain.open,
            "{others:?}, and {plain:?} where they may not share"
        );
        assert!(others.idle < IDLE_MAX_USEC, "{others:?}");
    });
}

/// Groups at one port, some or one on each socket: what one costs does not grow with their number.
#[test]
#[allow(clippy::print_stdout, reason = "what was measured")]
fn groups_at_one_port() {
    const FEW: u32 = 200;
    const TIMES: u32 = 8;
    let _turn = crate::turn();
    let pair = or_skip!(Namespaces::pair());
    panic_unless_paused(|| {
        for kind in ["groups", "feeds"] {
            let few = cost_of(&pair, FEW, kind);
            let many = cost_of(&pair, FEW * TIMES, kind);
            println!("{FEW} {kind}: {few:?}; {TIMES} times as many: {many:?}");
            let most = f64::from(2 * TIMES);
            // Clocks of some systems count by ten milliseconds.
            let is_linear = |few: f64, many: f64| many < most * few.max(10_000.0);
            assert!(is_linear(few.open, many.open), "{kind}: {few:?}, {many:?}");
            assert!(
                is_linear(few.close, many.close),
                "{kind}: {few:?}, {many:?}"
            );
            assert!(many.idle < IDLE_MAX_USEC, "{kind}: {many:?}");
        }
    });
}

/// Feeds at one port that each get what is for any of them: one that comes or goes costs a look at
/// each of the others, as it does the kernel, and nothing for each of their groups.
#[test]
#[allow(clippy::print_stdout, reason = "what was measured")]
fn feeds_at_one_port_that_get_each_others_groups() {
    const FEW: u32 = 200;
    const TIMES: u32 = 8;
    let _turn = crate::turn();
    let pair = or_skip!(Namespaces::pair());
    panic_unless_paused(|| {
        let few = cost_of(&pair, FEW, "all");
        let many = cost_of(&pair, FEW * TIMES, "all");
        println!("{FEW}: {few:?}; {TIMES} times as many: {many:?}");
        let most = f64::from(TIMES * TIMES);
        for (few, many) in [(few.open, many.open), (few.close, many.close)] {
            assert!(many < most * few.max(10_000.0), "{few}, {many}");
        }
        assert!(few.open < 300_000.0 && few.close < 300_000.0, "{few:?}");
        assert!(many.idle < IDLE_MAX_USEC, "{many:?}");
    });
}

/// A resolver opens a socket for any address for each question: that costs the same whatever number
/// of addresses the host has.
#[test]
fn sockets_for_any_of_many_addresses() {
    for_any_of_many_addresses("brief");
}

#[test]
fn listeners_for_any_of_many_addresses() {
    for_any_of_many_addresses("listeners");
}

#[allow(clippy::print_stdout, reason = "what was measured")]
fn for_any_of_many_addresses(kind: &str) {
    const COUNT: u32 = 500;
    let _turn = crate::turn();
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let one = cost_of(&pair, COUNT, kind);
        let add = |host| format!("address add 10.78.0.{host}/16 dev vb\n");
        pair.b
            .ip_batch(&(1..=200).map(add).collect::<String>())
            .unwrap();
        let many = cost_of(&pair, COUNT, kind);
        println!("{kind}: with one address {one:?}, with 200 more {many:?}");
        assert!(many.open < 3.0 * one.open, "{one:?}, {many:?}");
    });
}
