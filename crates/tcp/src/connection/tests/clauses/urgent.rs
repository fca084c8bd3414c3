//! RFC 9293 §3.8.5.

use super::super::harness::*;
use crate::Event;

// Requirement: RFC 9293 MUST-32
#[test]
fn each_advance_of_the_pointer_is_told_once() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 10, b""));
    assert_eq!(solo.events(), [Event::Urgent]);
    solo.receive(urgent(1, 10, b""));
    solo.receive(urgent(1, 9, b""));
    assert_eq!(solo.events(), []);
    solo.receive(urgent(1, 11, b""));
    assert_eq!(solo.events(), [Event::Urgent]);
}

// Requirement: RFC 9293 MUST-33
#[test]
fn whether_urgent_data_remains_can_be_asked() {
    let mut solo = Solo::established();
    solo.receive(urgent(1, 3, b"abX"));
    assert!(solo.connection.has_urgent());
    assert_eq!(solo.connection.read_urgent(), Ok(b'X'));
    assert!(!solo.connection.has_urgent());
}
