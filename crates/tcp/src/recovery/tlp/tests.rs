use super::*;

const END: SeqNumber = SeqNumber(10);

fn ack(ack: SeqNumber) -> ProbeAck {
    ProbeAck {
        ack,
        dsack_end: None,
        is_plain_duplicate: false,
    }
}

fn with_probe(is_retransmission: bool) -> Tlp {
    let mut tlp = Tlp::default();
    tlp.on_probe_sent(END, is_retransmission);
    tlp
}

/// §7.2
// Requirement: RFC 8985 7.2-1
#[test]
fn the_timeout_is_two_round_trips_and_the_delay_of_a_lone_acknowledgement() {
    let delayed = Duration::from_millis(200);
    let srtt = Some(Duration::from_millis(30));
    let millis = Duration::from_millis;
    assert_eq!(probe_timeout(None, true, delayed), Duration::from_secs(1));
    assert_eq!(probe_timeout(srtt, false, delayed), millis(62));
    assert_eq!(probe_timeout(srtt, true, delayed), millis(260));
    assert_eq!(probe_timeout(srtt, true, millis(1)), millis(62));
}

/// §7.4.2, each of its branches
#[test]
fn only_a_probe_that_filled_a_hole_repaired_a_loss() {
    assert!(!Tlp::default().on_ack(&ack(END + 1)));

    let mut tlp = with_probe(true);
    assert!(!tlp.on_ack(&ack(END - 1)));
    assert!(tlp.is_under_way(), "it does not cover the probe");
    assert!(!tlp.on_ack(&ack(END)));
    assert!(tlp.is_under_way(), "the original or the probe");
    assert!(tlp.on_ack(&ack(END + 1)));
    assert!(!tlp.is_under_way());

    let mut new_data = with_probe(false);
    assert!(!new_data.on_ack(&ack(END + 1)));
    assert!(!new_data.is_under_way());

    let mut both_arrived = with_probe(true);
    assert!(!both_arrived.on_ack(&ProbeAck {
        dsack_end: Some(END),
        ..ack(END + 1)
    }));
    assert!(!both_arrived.is_under_way());

    let mut both_arrived = with_probe(true);
    assert!(!both_arrived.on_ack(&ProbeAck {
        is_plain_duplicate: true,
        ..ack(END)
    }));
    assert!(!both_arrived.is_under_way());
}
