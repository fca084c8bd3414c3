use super::*;
use std::net::{Ipv4Addr, SocketAddrV4};

const INTERVAL: Duration = Duration::from_secs(1);

fn connection(process: u8, port: u16) -> Connection {
    Connection {
        local: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, process), port).into(),
        peer: SocketAddrV4::new(Ipv4Addr::new(10, 0, 9, 9), 80).into(),
    }
}

fn claims(process: u8, ports: std::ops::Range<u16>) -> Vec<Claim> {
    ports
        .map(|port| Claim::unknown(connection(process, port)))
        .collect()
}

/// Everything that is to be sent now, each claim allowed.
fn sent(resets: &mut Resets, now: Instant) -> Vec<(Connection, Segment)> {
    let mut sent = Vec::new();
    while let Some(next) = resets.next(now) {
        sent.push(match next {
            Next::Check(claim) => resets.start(claim, now),
            Next::Send(connection, segment) => (connection, segment),
        });
    }
    sent
}

#[test]
fn a_peer_is_asked_and_reset_with_the_number_that_it_expects() {
    let now = Instant::now();
    let mut resets = Resets::new(INTERVAL, now);
    let connection = connection(1, 1);
    resets.add(claims(1, 1..2));
    assert_eq!(sent(&mut resets, now), [(connection, Segment::Probe)]);
    resets.answered(&connection, Answer::Acknowledges(4711));
    assert_eq!(sent(&mut resets, now), [(connection, Segment::Reset(4711))]);
    assert!(resets.is_idle());
    assert_eq!((resets.totals().probes, resets.totals().resets), (1, 1));
    // A second acknowledgement is not answered: whoever forges one gains nothing.
    resets.answered(&connection, Answer::Acknowledges(1));
    assert_eq!(sent(&mut resets, now), []);
}

#[test]
fn a_known_number_needs_no_question() {
    let now = Instant::now();
    let mut resets = Resets::new(INTERVAL, now);
    let claim = Claim {
        next_sequence: Some(99),
        ..Claim::unknown(connection(1, 1))
    };
    resets.add(vec![claim]);
    assert_eq!(
        sent(&mut resets, now),
        [(claim.connection, Segment::Reset(99))]
    );
    // It was out of date: the peer says so.
    resets.answered(&claim.connection, Answer::Acknowledges(120));
    assert_eq!(
        sent(&mut resets, now),
        [(claim.connection, Segment::Reset(120))]
    );
    assert!(resets.is_idle());
}

/// A packet does not say which connection of the same link-local addresses it is of.
#[test]
fn what_comes_from_a_link_local_address_is_of_each_link() {
    let now = Instant::now();
    let mut resets = Resets::new(INTERVAL, now);
    let seen = Connection {
        local: "[fe80::1]:1".parse().unwrap(),
        peer: "[fe80::2]:80".parse().unwrap(),
    };
    let [first, second] = [3, 4].map(|link| seen.on_link(link).unwrap());
    assert_eq!(connection(1, 1).on_link(3), None);
    resets.add([first, second].map(Claim::unknown).to_vec());
    assert_eq!(sent(&mut resets, now).len(), 2);
    resets.answered(&seen, Answer::Resets);
    resets.answered(&seen, Answer::Acknowledges(5));
    let expected = [(first, Segment::Reset(5)), (second, Segment::Reset(5))];
    assert_eq!(sent(&mut resets, now), expected);
    // Whose number it was is not known: both are asked again.
    let later = now + INTERVAL;
    let expected = [(first, Segment::Probe), (second, Segment::Probe)];
    assert_eq!(sent(&mut resets, later), expected);
    let other = Connection {
        local: "[fe80::1]:2".parse().unwrap(),
        ..seen
    };
    resets.answered(&other, Answer::Acknowledges(6));
    assert_eq!(sent(&mut resets, later), []);
    let mut resets = Resets::new(INTERVAL, now);
    resets.add(vec![Claim::unknown(second)]);
    assert_eq!(sent(&mut resets, now), [(second, Segment::Probe)]);
    resets.answered(&seen, Answer::Acknowledges(7));
    assert_eq!(sent(&mut resets, now), [(second, Segment::Reset(7))]);
    assert!(resets.is_idle());
}

#[test]
fn a_silent_peer_is_asked_three_times() {
    let start = Instant::now();
    let mut resets = Resets::new(INTERVAL, start);
    resets.add(claims(1, 1..2));
    let mut now = start;
    let mut probes = 0;
    while !resets.is_idle() {
        probes += sent(&mut resets, now).len();
        now = resets.deadline().unwrap_or(now);
        let _ = resets.next(now).map(|next| match next {
            Next::Send(_, Segment::Probe) => probes += 1,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(probes, 3);
    assert_eq!(now, start + 3 * INTERVAL);
    assert_eq!(resets.totals().unanswered, 1);
}

#[test]
fn a_peer_that_resets_is_left_alone() {
    let now = Instant::now();
    let mut resets = Resets::new(INTERVAL, now);
    resets.add(claims(1, 1..2));
    sent(&mut resets, now);
    resets.answered(&connection(1, 1), Answer::Resets);
    assert_eq!(sent(&mut resets, now + 2 * INTERVAL), []);
    assert!(resets.is_idle());
    assert_eq!(resets.totals().unknown_to_peer, 1);
}

#[test]
fn answers_to_no_question_do_nothing() {
    let now = Instant::now();
    let mut resets = Resets::new(INTERVAL, now);
    resets.answered(&connection(1, 1), Answer::Acknowledges(1));
    assert!(resets.is_idle());
}

#[test]
fn a_connection_that_lives_again_is_forgotten() {
    let now = Instant::now();
    let mut resets = Resets::new(INTERVAL, now);
    resets.add(claims(1, 1..3));
    resets.forget(&connection(1, 1));
    assert_eq!(sent(&mut resets, now), [(connection(1, 2), Segment::Probe)]);
    resets.forget(&connection(1, 2));
    resets.answered(&connection(1, 2), Answer::Acknowledges(1));
    assert!(resets.is_idle());
}

#[test]
fn one_dead_process_does_not_hold_up_another() {
    let now = Instant::now();
    let mut resets = Resets::new(INTERVAL, now);
    resets.add(claims(1, 1..10_001));
    resets.add(claims(2, 1..11));
    let first: Vec<_> = sent(&mut resets, now).into_iter().take(100).collect();
    let of_second = first
        .iter()
        .filter(|(connection, _)| connection.local.ip() == Ipv4Addr::new(10, 0, 0, 2));
    assert_eq!(of_second.count(), 10);
}

#[test]
fn ten_thousand_connections_take_less_than_a_second() {
    let start = Instant::now();
    let mut resets = Resets::new(INTERVAL, start);
    resets.add(claims(1, 1..10_001));
    let mut now = start;
    let mut total = 0;
    while !resets.is_idle() {
        let burst = sent(&mut resets, now);
        assert!(burst.len() <= SEGMENTS_AT_ONCE as usize);
        total += burst.len();
        for (connection, segment) in burst {
            if segment == Segment::Probe {
                resets.answered(&connection, Answer::Acknowledges(1));
            }
        }
        now += Duration::from_millis(1);
    }
    assert_eq!(total, 20_000);
    let took = now - start;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(took > Duration::from_millis(100), "no limit: {took:?}");
}
