use std::net::IpAddr;

use netlink_packet_route::route::RouteAttribute;

use super::*;
use crate::route::RouteQuery;

fn question(address: [u8; 4]) -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetRoute(RouteQuery::to(IpAddr::from(address)).to_message())
}

fn destination(answer: &RouteNetlinkMessage) -> Option<IpAddr> {
    let RouteNetlinkMessage::NewRoute(message) = answer else {
        return None;
    };
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(netlink_packet_route::route::RouteAddress::Inet(
                address,
            )) => Some(IpAddr::V4(*address)),
            _ => None,
        })
}

#[test]
fn a_reply_that_was_given_up_is_not_taken_for_the_next() {
    let mut connection = Connection::open().unwrap();
    // Two questions whose replies nobody fetches.
    connection
        .send(NLM_F_REQUEST, question([127, 0, 0, 7]))
        .unwrap();
    connection
        .send(NLM_F_REQUEST, question([127, 0, 0, 8]))
        .unwrap();
    let answer = connection
        .ask("look up a route", question([127, 0, 0, 9]))
        .unwrap();
    assert_eq!(destination(&answer), Some(IpAddr::from([127, 0, 0, 9])));
}

#[test]
fn a_lost_reply_ends_the_wait_and_the_next_question_is_answered() {
    let mut connection = Connection::open().unwrap();
    let start = Instant::now();
    let result = connection.receive("wait in vain", 4711, |_| ControlFlow::Continue(()));
    assert!(
        matches!(
            result,
            Err(Error::Timeout {
                request: "wait in vain"
            })
        ),
        "{result:?}"
    );
    assert!(start.elapsed() < REPLY_TIMEOUT * 20);
    let answer = connection
        .ask("look up a route", question([127, 0, 0, 1]))
        .unwrap();
    assert_eq!(destination(&answer), Some(IpAddr::from([127, 0, 0, 1])));
}

#[test]
fn replies_to_others_do_not_prolong_the_wait() {
    let mut connection = Connection::open().unwrap();
    // A reply that is not waited for arrives in time, the awaited one never.
    connection
        .send(NLM_F_REQUEST, question([127, 0, 0, 1]))
        .unwrap();
    let start = Instant::now();
    let result = connection.receive("wait in vain", 4711, |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
    assert!(start.elapsed() < REPLY_TIMEOUT * 20);
}

#[test]
fn a_refusal_carries_the_errno() {
    let mut connection = Connection::open().unwrap();
    let query = RouteQuery {
        output_interface: Some(0x7fff_fff0),
        ..RouteQuery::to([127; 4].into())
    };
    let message = RouteNetlinkMessage::GetRoute(query.to_message());
    let error = connection.ask("look up a route", message).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Refused {
                request: "look up a route",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.errno(), Some(19), "ENODEV");
}

#[test]
fn sequence_numbers_wrap_past_zero() {
    let mut connection = Connection::open().unwrap();
    connection.sequence = u32::MAX - 1;
    for expected in [u32::MAX, 1, 2] {
        let answer = connection
            .ask("look up a route", question([127, 0, 0, 1]))
            .unwrap();
        assert!(destination(&answer).is_some());
        assert_eq!(connection.sequence, expected);
    }
}
