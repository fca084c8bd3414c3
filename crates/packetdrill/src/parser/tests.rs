use super::*;
use crate::script::{Body, Expression, Packet, TcpOption, Tos, flags};

fn parsed(text: &str) -> Script {
    parse("test", text).unwrap_or_else(|error| panic!("{error}"))
}

fn only_packet(text: &str) -> Packet {
    match parsed(text).events.remove(0).action {
        Action::Inject(packet) | Action::Expect(packet) => packet,
        other => panic!("{other:?}"),
    }
}

#[test]
fn times_are_exact() {
    let events = parsed(
        "0 close(3) = 0\n+.1 close(3) = 0\n1.5~2 > . 1:1(0) ack 1\n+.2~+.25 > . 1:1(0) ack 1\n* > . 1:1(0)",
    );
    let ms = Duration::from_millis;
    let whens: Vec<When> = events.events.iter().map(|event| event.when).collect();
    let expected = [
        When::At(ms(0)),
        When::After(ms(100)),
        When::Between(ms(1500), ms(2000)),
        When::AfterBetween(ms(200), ms(250)),
        When::Any,
    ];
    assert_eq!(whens, expected);
}

#[test]
fn a_segment_has_flags_numbers_and_options() {
    let packet = only_packet(
        "0 > [ect0] SEW. 5:105(100) ack 7 win 100 urg 3 <mss 1460,sackOK,TS val 1 ecr 2,nop,wscale 8>",
    );
    assert_eq!(packet.ip.tos, Some(Tos::Ecn(2)));
    let Body::Tcp(segment) = packet.body else {
        panic!("{packet:?}");
    };
    assert_eq!(
        segment.flags,
        flags::SYN | flags::ECE | flags::CWR | flags::ACK
    );
    assert_eq!((segment.seq, segment.len, segment.ack), (5, 100, 7));
    assert_eq!((segment.window, segment.urgent), (Some(100), 3));
    let options = segment.options.unwrap();
    assert_eq!(options.len(), 5);
    assert_eq!(options[2], TcpOption::Timestamp { val: 1, ecr: 2 });

    let Body::Tcp(segment) = only_packet("0 < P.5 1:1(0) ack 1 <...>").body else {
        panic!("not TCP");
    };
    assert_eq!((segment.ace, segment.options), (Some(5), None));
    let Body::Tcp(segment) = only_packet("0 < . 1:1(0) ack 1 <sack 5:7 9:11,nop>").body else {
        panic!("not TCP");
    };
    let blocks = TcpOption::Sack(vec![(5, 7), (9, 11)]);
    assert_eq!(segment.options.unwrap()[0], blocks);
}

#[test]
fn icmp_tells_the_segment_it_is_about() {
    let packet = only_packet("0 < icmp unreachable frag_needed mtu 800 [1:1001(1000)]");
    let Body::Icmp(icmp) = packet.body else {
        panic!("{packet:?}");
    };
    assert_eq!(icmp.code.as_deref(), Some("frag_needed"));
    assert_eq!((icmp.mtu, icmp.echoed), (Some(800), Some((1, 1000))));
}

#[test]
fn structures_lists_and_flags_are_expressions() {
    let script = parsed(
        "0...0.2 poll([{fd=3, events=POLLIN|POLLOUT, revents=POLLIN}], 1, 200) = 1\n\
         +0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 10}], msg_flags=0}, 0) = -1 EAGAIN (Try again)\n\
         +0 connect(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr(\"1.2.3.4\")}, ...) = 0",
    );
    let Action::Call(poll) = &script.events[0].action else {
        panic!("{script:?}");
    };
    assert_eq!(poll.until, Some(Duration::from_millis(200)));
    let Expression::List(entries) = &poll.arguments[0] else {
        panic!("{poll:?}");
    };
    assert_eq!(entries[0].field("fd"), Some(&Expression::Integer(3)));
    let Action::Call(recvmsg) = &script.events[1].action else {
        panic!("{script:?}");
    };
    assert_eq!(recvmsg.errno.as_deref(), Some("EAGAIN"));
    assert_eq!(recvmsg.result, Expression::Integer(-1));
}

#[test]
fn options_commands_code_and_defines() {
    let script = parsed(
        "--mss=1000\n--define=LEN=500\n`sysctl -q x=1`\n\
         0 write(4, ..., LEN) = LEN\n+0 `ip route`\n+0 %{ assert tcpi_rto == 1 }%\n`cleanup`",
    );
    assert_eq!(script.options[0].value.as_deref(), Some("1000"));
    assert_eq!(script.initial.unwrap().line, "sysctl -q x=1");
    assert_eq!(script.cleanup.unwrap().line, "cleanup");
    let Action::Call(write) = &script.events[0].action else {
        panic!("not a call");
    };
    assert_eq!(write.result, Expression::Integer(500));
    assert!(matches!(&script.events[2].action, Action::Code(code) if code.text.contains("rto")));
}

#[test]
fn errors_name_the_place() {
    for (text, expected) in [
        ("0 > . 1:5(9) ack 1", "test:1:7: 1 and 9 octets"),
        (
            "0 close(3) = 0\n+1 > X 1:1(0)",
            "test:2:6: expected TCP flags",
        ),
        ("0 close(3", "test:1:10: expected ',' or ')'"),
        ("* close(3) = 0", "test:1:1: only a packet"),
        (
            "0 < . 1:1(0) ack 1 <bogus 4>",
            "test:1:21: expected a TCP option",
        ),
        (
            "0 < . 1:1(0) ack 1 win 70000",
            "test:1:24: a window 70000 is out of range",
        ),
        ("0 /* close", "test:1:3: no \"*/\""),
        (
            "2~1 > . 1:1(0)",
            "test:1:1: the range of times is backwards",
        ),
    ] {
        let error = parse("test", text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}
