//! RFC 9293 §3.8.5.

use super::super::harness::*;
use crate::Event;
use wire::tcp::Flags;

fn announcement(seq: u32, pointer: u16) -> Segment {
    Segment {
        flags: ACK | Flags::URG,
        urgent: pointer,
        ..ack(seq, 1)
    }
}

// Requirement: RFC 9293 MUST-32
#[test]
fn each_advance_of_the_pointer_is_told_once() {
    let mut solo = Solo::established();
    solo.receive(announcement(1, 10));
    assert_eq!(solo.events(), [Event::Urgent]);
    solo.receive(announcement(1, 10));
    solo.receive(announcement(1, 9));
    assert_eq!(solo.events(), []);
    solo.receive(announcement(1, 11));
    assert_eq!(solo.events(), [Event::Urgent]);
}

// Requirement: RFC 9293 MUST-33
#[test]
fn whether_urgent_data_remains_can_be_asked() {
    let mut solo = Solo::established();
    solo.receive(Segment {
        payload: b"abX".to_vec(),
        ..announcement(1, 3)
    });
    assert!(solo.connection.has_urgent());
    assert_eq!(solo.connection.read_urgent(), Ok(b'X'));
    assert!(!solo.connection.has_urgent());
}
