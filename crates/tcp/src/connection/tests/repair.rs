//! Export and import: neither the peer nor the application can tell.

use std::sync::Arc;
use std::time::Duration;

use wire::tcp::Options as HeaderOptions;

use super::harness::*;
use crate::{
    Config, Ecn, EcnMode, Error, Flags, InvalidSnapshot, Path, SeqNumber, Shutdown, SocketOption,
    State, WindowScales,
};

fn reincarnate(connection: Conn, now: crate::Instant) -> Conn {
    let snapshot = connection.export(now).expect("can be exported");
    // Another stack: another clock's origin, another configuration.
    Conn::import(now, Arc::new(Config::default()), Path::ipv4(MTU), snapshot)
        .expect("is consistent")
}

#[test]
fn a_transfer_goes_on_in_another_stack() {
    for side in 0..2 {
        let mut pair = Pair::established();
        pair.drops = random_loss(3, 3);
        for _ in 0..5 {
            pair.transfer(0, 50_000);
            // Something is under way when the connection moves.
            let now = pair.now;
            pair.host(0).write(now, &[1; 5000]).unwrap();
            pair.run(ms(5));
            let now = pair.now;
            let moved = reincarnate(pair.hosts[side].take().unwrap(), now);
            pair.hosts[side] = Some(moved);
            pair.host(side).check_invariants();
            pair.run(Duration::from_secs(5));
            let mut buffer = [0; 5000];
            let mut read = 0;
            while read < 5000 {
                let now = pair.now;
                let count = pair
                    .host(1)
                    .read(now, &mut buffer)
                    .expect("all of it has come");
                assert!(buffer[..count].iter().all(|octet| *octet == 1));
                read += count;
            }
        }
    }
}

#[test]
fn every_state_goes_on_where_it_was() {
    let close = |solo: &mut Solo| {
        solo.connection.shutdown(solo.now, Shutdown::Write);
    };
    type Step = Box<dyn Fn(&mut Solo)>;
    let cases: [(State, Vec<Step>); 6] = [
        (State::Established, vec![]),
        (State::FinWait1, vec![Box::new(close)]),
        (
            State::FinWait2,
            vec![Box::new(close), Box::new(|solo| solo.receive(ack(1, 2)))],
        ),
        (
            State::CloseWait,
            vec![Box::new(|solo| solo.receive(fin(1, 1)))],
        ),
        (
            State::Closing,
            vec![Box::new(close), Box::new(|solo| solo.receive(fin(1, 1)))],
        ),
        (
            State::LastAck,
            vec![Box::new(|solo| solo.receive(fin(1, 1))), Box::new(close)],
        ),
    ];
    let exportable = State::ALL.into_iter().filter(|state| state.is_exportable());
    assert!(exportable.eq(cases.iter().map(|(state, _)| *state)));
    for (state, steps) in cases {
        let mut solo = Solo::established();
        for step in steps {
            step(&mut solo);
            solo.poll();
        }
        assert_eq!(solo.state(), state);
        solo.connection = reincarnate(solo.connection, solo.now);
        solo.connection.check_invariants();
        assert_eq!(solo.state(), state);
        // The rest of the connection's life.
        if !state.has_fin() {
            close(&mut solo);
        }
        solo.poll();
        solo.receive(ack(1 + u32::from(state.has_peer_fin()), 2));
        if !state.has_peer_fin() {
            solo.receive(fin(1, 2));
        }
        let expected = if matches!(state, State::CloseWait | State::LastAck) {
            State::Closed
        } else {
            State::TimeWait
        };
        assert_eq!(solo.state(), expected, "from {state:?}");
    }
}

#[test]
fn what_a_stack_is_given_it_can_give_away() {
    let mut pair = Pair::established();
    pair.transfer(0, 50_000);
    pair.transfer(1, 20_000);
    let now = pair.now;
    pair.host(0).write(now, &[1; 5000]).unwrap();
    // Some of it is under way, and some has arrived.
    pair.run(ms(30));
    let now = pair.now;
    for host in pair.hosts {
        let snapshot = host.unwrap().export(now).unwrap();
        assert!(snapshot.has_sack && snapshot.timestamps.is_some());
        assert!(snapshot.window.max_window > 0);
        let config = Arc::new(Config::default());
        let moved = Conn::import(now, config, Path::ipv4(MTU), snapshot.clone()).unwrap();
        assert_eq!(moved.export(now), Some(snapshot));
    }
}

#[test]
fn a_window_that_another_stack_offered_is_kept_open() {
    const LEN: u32 = 1 << 20;
    let solo = Solo::established();
    let mut snapshot = solo.connection.export(solo.now).unwrap();
    snapshot.window_scales = Some(WindowScales { snd: 0, rcv: 7 });
    snapshot.window.rcv_wnd = LEN;
    let config = Arc::new(Config::default());
    let connection = Conn::import(solo.now, config, Path::ipv4(MTU), snapshot).unwrap();
    let mut solo = Solo { connection, ..solo };
    for seq in (0..LEN).step_by(1024) {
        solo.receive(data(1 + seq, 1, &[1; 1024]));
        solo.poll();
    }
    assert_eq!(solo.connection.readable_len(), LEN as usize);
}

#[test]
fn a_window_from_long_ago_is_older_than_what_comes() {
    let solo = Solo::established();
    let mut snapshot = solo.connection.export(solo.now).unwrap();
    // As far behind as it can be told from what is ahead.
    snapshot.window.snd_wl1 = snapshot.rcv_nxt + snapshot.window.rcv_wnd - 0x7fff_ffff;
    let rcv_nxt = snapshot.rcv_nxt;
    let config = Arc::new(Config::default());
    let moved = Conn::import(solo.now, config, Path::ipv4(MTU), snapshot).unwrap();
    let wl1 = moved.export(solo.now).unwrap().window.snd_wl1;
    assert_eq!(rcv_nxt - wl1, 65_535 << 14);
}

#[test]
fn marks_of_the_network_are_echoed_by_the_next_stack() {
    let config = Config {
        ecn: EcnMode::On,
        ..Config::default()
    };
    let mut solo = Solo::connecting(config, crate::Options::default());
    solo.poll();
    solo.receive(Segment {
        flags: Flags::SYN | ACK | Flags::ECE,
        ..syn_ack(HeaderOptions::default())
    });
    solo.poll();
    solo.connection = reincarnate(solo.connection, solo.now);
    solo.receive_marked(data(1, 1, b"marked"), Ecn::Ce);
    assert_eq!(solo.poll_one().flags, ACK | Flags::ECE);
    solo.write(b"data");
    assert_eq!(solo.poll_one().ecn, Ecn::Ect0);
}

#[test]
fn keepalive_goes_on() {
    let mut solo = Solo::established();
    solo.set(SocketOption::KeepAlive(true));
    solo.connection = reincarnate(solo.connection, solo.now);
    assert_eq!(solo.skip_to_timer(), Duration::from_secs(7200));
    assert_eq!(solo.poll_one().brief(), (0, 0, ACK));
}

#[test]
fn a_delayed_acknowledgement_is_sent_by_the_next_stack() {
    let mut solo = Solo::established();
    // Behind the quick acknowledgements of the beginning.
    let mut next = 1;
    loop {
        solo.receive(data(next, 1, b"data"));
        next += 4;
        if solo.poll().is_empty() {
            break;
        }
    }
    solo.connection = reincarnate(solo.connection, solo.now);
    assert_eq!(solo.poll_one().ack(), next);
}

#[test]
fn what_cannot_go_on_is_not_exported() {
    let connecting = Solo::connecting(Config::default(), crate::Options::default());
    assert!(connecting.connection.export(connecting.now).is_none());
}

#[test]
fn what_is_over_leaves_what_was_not_read() {
    let mut solo = Solo::established();
    solo.receive(data(1, 1, b"left"));
    assert!(solo.connection.take_remains().is_none());
    solo.receive(rst(5));
    let remains = solo.connection.take_remains().unwrap();
    assert_eq!(remains.unread, [b"left".to_vec()]);
    assert_eq!(remains.error, Some(Error::Reset));
    assert!(remains.had_peer && !remains.has_peer_fin);
    assert_eq!(remains.rcv_nxt, SeqNumber(IRS) + 5);
    assert_eq!(remains.snd_nxt, SeqNumber(ISS) + 1);
    // Nothing is there twice.
    let nothing = solo.connection.take_remains().unwrap();
    assert!(nothing.unread.is_empty() && nothing.error.is_none());
}

#[test]
fn contradictions_are_refused() {
    let mut solo = Solo::established();
    solo.write(b"data");
    solo.poll();
    let snapshot = solo.connection.export(solo.now).unwrap();
    assert_eq!(snapshot.unacknowledged, b"data");
    let config = Arc::new(Config::default());
    let mut broken: [_; 9] = std::array::from_fn(|_| snapshot.clone());
    broken[0].snd_nxt += 1;
    broken[1].snd_nxt = broken[1].snd_una - 1;
    broken[2].state = State::FinWait2;
    broken[3].window.rcv_wup = SeqNumber(broken[3].rcv_nxt.0.wrapping_add(1));
    broken[4].window_scales = Some(WindowScales { snd: 15, rcv: 0 });
    broken[5].window_scales = Some(WindowScales { snd: 0, rcv: 15 });
    broken[6].window.max_window = broken[6].window.snd_wnd - 1;
    broken[7].window.snd_wl1 = broken[7].rcv_nxt + broken[7].window.rcv_wnd + 1;
    // Without scaling no header can have offered that much.
    broken[8].window.rcv_wnd = 1 << 20;
    broken[8].window.snd_wl1 = broken[8].rcv_nxt + (1 << 20);
    for snapshot in broken {
        let result = Conn::import(solo.now, config.clone(), Path::ipv4(MTU), snapshot);
        assert_eq!(result.err(), Some(InvalidSnapshot));
    }
}
