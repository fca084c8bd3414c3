//! `TCP_INFO`, where Linux's numbers depend on the sizes of its buffers, or its clock cannot be
//! turned.

use super::harness::*;
use crate::{Config, Options, SocketOption};

/// Milliseconds of being busy, limited by the peer's window, and by the send buffer; each may be
/// off by two ticks of a little more than one.
#[track_caller]
fn assert_limited(solo: &Solo, expected: [u128; 3]) {
    let info = solo.connection.info(solo.now);
    let times = [info.busy_time, info.rwnd_limited, info.sndbuf_limited];
    let millis = times.map(|time| time.as_millis());
    let is_near = |(time, expected): (u128, u128)| time.abs_diff(expected) <= 3;
    assert!(millis.into_iter().zip(expected).all(is_near), "{millis:?}");
}

#[test]
fn a_send_buffer_too_small_for_the_network_limits_the_sender() {
    let mut options = Options::default();
    options.set(SocketOption::SendBuffer(5000)).unwrap();
    let mut solo = Solo::established_with(Config::default(), options);
    let written = solo.connection.write(solo.now, &[1; 6000]);
    assert_eq!(written, Ok(5000));
    // The network would take ten.
    assert_eq!(solo.poll().len(), 5);
    solo.now = solo.now + ms(20);
    assert_limited(&solo, [20, 0, 20]);
    // Less than a third of the buffer is free: nobody is told.
    solo.receive(ack(1, 1001));
    solo.now = solo.now + ms(10);
    assert_limited(&solo, [30, 0, 30]);
    solo.receive(ack(1, 2001));
    solo.now = solo.now + ms(10);
    assert_limited(&solo, [40, 0, 30]);
    solo.receive(ack(1, 5001));
    solo.now = solo.now + ms(1000);
    assert_limited(&solo, [40, 0, 30]);
}

#[test]
fn an_application_that_has_no_more_is_not_limited_by_its_buffer() {
    let mut options = Options::default();
    options.set(SocketOption::SendBuffer(5000)).unwrap();
    let mut solo = Solo::established_with(Config::default(), options);
    // There is no room worth waking anybody for, but nobody was refused any.
    solo.write(&[1; 5000]);
    solo.poll();
    solo.now = solo.now + ms(20);
    assert_limited(&solo, [20, 0, 0]);
}

#[test]
fn a_connection_that_has_failed_is_not_busy_any_more() {
    let mut solo = Solo::established();
    solo.write(b"request");
    solo.poll_one();
    solo.now = solo.now + ms(30);
    solo.receive(rst(1));
    solo.now = solo.now + ms(500);
    assert_limited(&solo, [30, 0, 0]);
}

#[test]
fn the_last_timeout_ends_what_it_was_busy_with() {
    let mut solo = Solo::established_with(
        Config {
            retries2: 1,
            ..Config::default()
        },
        Options::default(),
    );
    solo.write(b"request");
    solo.poll_one();
    let since = solo.now;
    while solo.state() != crate::State::Closed {
        solo.skip_to_timer();
        solo.poll();
    }
    let busy = (solo.now - since).as_millis();
    solo.now = solo.now + ms(5000);
    assert_limited(&solo, [busy, 0, 0]);
    let info = solo.connection.info(solo.now);
    assert!(info.total_rto >= 2, "{info:?}");
    assert_eq!(info.total_rto_recoveries, 1);
}
