use super::*;
use crate::call::{Call, Outcome};
use crate::parse;
use crate::script::TcpOption;
use crate::stack::octet;

/// A stack that sends what it was told to, when it was told to, and whose calls return what they
/// were told to.
#[derive(Default)]
struct Puppet {
    now: Duration,
    to_send: VecDeque<(Duration, Segment)>,
    outcomes: VecDeque<(Duration, Outcome)>,
    injected: Vec<Segment>,
    calls: Vec<Call>,
}

impl Stack for Puppet {
    fn set_up(&mut self, _: &Setup) -> Result<(), String> {
        Ok(())
    }

    fn change(&mut self, _: &sysctl::Change) -> Result<(), String> {
        Ok(())
    }

    fn now(&mut self) -> Duration {
        self.now
    }

    fn sniff(&mut self, deadline: Duration) -> Option<(Duration, Segment)> {
        let due = self
            .to_send
            .front()
            .is_some_and(|(time, _)| *time <= deadline);
        self.now = if due {
            self.now.max(self.to_send[0].0)
        } else {
            self.now.max(deadline)
        };
        if due { self.to_send.pop_front() } else { None }
    }

    fn inject(&mut self, segment: &Segment) {
        self.injected.push(segment.clone());
    }

    fn inject_unreachable(&mut self, _: &Unreachable) {}

    fn start(&mut self, call: &Call, _: bool) -> Result<(), String> {
        self.calls.push(call.clone());
        Ok(())
    }

    fn outcome(&mut self) -> Option<(Duration, Outcome)> {
        let due = self
            .outcomes
            .front()
            .is_some_and(|(time, _)| *time <= self.now);
        if due { self.outcomes.pop_front() } else { None }
    }

    fn tcp_info(&mut self, fd: i32, name: &str) -> Option<i64> {
        (fd == 40 && name == "tcpi_rto").then_some(200_000)
    }
}

const MS: Duration = Duration::from_millis(1);

/// Octets from the `position`th on, with the initial number 1000 that the puppet has.
fn data(position: u32, len: u32, bits: u8) -> Segment {
    Segment {
        seq: 1001 + position,
        ack: 501,
        flags: bits,
        window: 10,
        payload: (position..position + len).map(octet).collect(),
        ..Segment::default()
    }
}

fn syn_ack() -> Segment {
    Segment {
        seq: 1000,
        ack: 501,
        flags: flags::SYN | flags::ACK,
        options: vec![TcpOption::Mss(1460)],
        ..Segment::default()
    }
}

const HANDSHAKE: &str = "0 < S 0:0(0) win 100\n+0 > S. 0:0(0) ack 1 <mss 1460>\n";

fn play(rest: &str, sent: Vec<(Duration, Segment)>) -> Result<(), String> {
    let script = parse("test", &format!("{HANDSHAKE}{rest}")).unwrap();
    let mut puppet = Puppet::default();
    puppet.to_send.push_back((Duration::ZERO, syn_ack()));
    puppet.to_send.extend(sent);
    let conditions = Conditions {
        remote_isn: 500,
        all_packets: true,
        any_push: false,
        is_ipv6: false,
        least_tolerance: Duration::ZERO,
    };
    run(&script, &mut puppet, &conditions).map_err(|failure| failure.to_string())
}

#[test]
fn one_segment_of_a_script_may_be_several_on_the_wire() {
    let (ack, push, fin) = (flags::ACK, flags::PSH, flags::FIN);
    let parts = |first, second| vec![(MS, data(0, 100, first)), (MS, data(100, 50, second))];
    let script = "+.001 > P. 1:151(150) ack 1";
    assert_eq!(play(script, parts(ack, ack | push)), Ok(()));
    assert_eq!(play(script, parts(ack | push, ack | push)), Ok(()));
    let error = play(script, parts(ack | fin, ack | push)).unwrap_err();
    assert!(error.contains("flags differ"), "{error}");
    let error = play(script, parts(ack, ack)).unwrap_err();
    assert!(error.contains("flags differ"), "{error}");
    let error = play(
        script,
        vec![(MS, data(0, 100, ack)), (MS, data(90, 60, ack | push))],
    )
    .unwrap_err();
    assert!(
        error.contains("sequence number differs: 91 instead of 101"),
        "{error}"
    );
}

#[test]
fn times_data_windows_and_packets_too_many_are_compared() {
    let ack = flags::ACK;
    let good = data(0, 10, ack);
    let script = "+.1 > . 1:11(10) ack 1 win 10";
    assert_eq!(play(script, vec![(100 * MS, good.clone())]), Ok(()));
    let late = play(script, vec![(150 * MS, good.clone())]).unwrap_err();
    assert!(late.starts_with("test:3: sent at 0.150000"), "{late}");
    let twice = play(
        script,
        vec![(100 * MS, good.clone()), (100 * MS, good.clone())],
    );
    // The second comes after the last event and is nobody's business.
    assert_eq!(twice, Ok(()));
    let before = format!("{script}\n+.1 < . 1:1(0) ack 11");
    let twice = play(
        &before,
        vec![(100 * MS, good.clone()), (100 * MS, good.clone())],
    )
    .unwrap_err();
    assert!(twice.contains("not in the script"), "{twice}");
    let mut wrong = good.clone();
    wrong.payload[3] ^= 1;
    let wrong = play(script, vec![(100 * MS, wrong)]).unwrap_err();
    assert!(wrong.contains("octet 3"), "{wrong}");
    let mut window = good;
    window.window = 11;
    let window = play(script, vec![(100 * MS, window)]).unwrap_err();
    assert!(window.contains("window differs"), "{window}");
    let nothing = play(script, Vec::new()).unwrap_err();
    assert!(nothing.contains("nothing was sent"), "{nothing}");
}

fn call(text: &str, outcomes: Vec<(Duration, Outcome)>) -> (Result<(), String>, Puppet) {
    let script = parse("test", text).unwrap();
    let mut puppet = Puppet {
        outcomes: outcomes.into(),
        ..Puppet::default()
    };
    let conditions = Conditions {
        remote_isn: 0,
        all_packets: true,
        any_push: false,
        is_ipv6: false,
        least_tolerance: Duration::ZERO,
    };
    let result = run(&script, &mut puppet, &conditions);
    (result.map_err(|failure| failure.to_string()), puppet)
}

#[test]
fn descriptors_are_mapped_and_results_compared() {
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 close(3) = 0\n+0 close(9) = -1 EBADF (Bad)";
    let ok = |result| (Duration::ZERO, Outcome::ok(result));
    let bad = (Duration::ZERO, Outcome::error(libc::EBADF));
    let (result, puppet) = call(script, vec![ok(40), ok(0), bad.clone()]);
    assert_eq!(result, Ok(()));
    assert_eq!(
        puppet.calls[1..],
        [Call::Close { fd: 40 }, Call::Close { fd: -1 }]
    );
    let (result, _) = call(script, vec![ok(40), bad]);
    assert_eq!(
        result.unwrap_err(),
        "test:2: close failed with EBADF, expected 0"
    );
    let (result, _) = call(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 %{ assert tcpi_rto < 9 }%",
        vec![ok(40)],
    );
    assert!(result.unwrap_err().ends_with("tcpi_rto is 200000"));
}

#[test]
fn blocking_calls_return_when_the_script_says() {
    let script = "0...0.1 read(3, ..., 10) = 5\n+0 close(3) = 0";
    let closed = (100 * MS, Outcome::ok(0));
    let at = |time| vec![(time, Outcome::ok(5)), closed.clone()];
    assert_eq!(call(script, at(100 * MS)).0, Ok(()));
    let (result, _) = call(script, at(50 * MS));
    assert!(result.unwrap_err().contains("returned at 0.050000"));
    let (result, _) = call(script, at(200 * MS));
    assert!(result.unwrap_err().contains("has not returned"));
    let (result, _) = call("0 read(3, ..., 10) = 5", at(100 * MS));
    assert!(result.unwrap_err().contains("blocks"));
}

#[test]
fn what_is_not_known_is_unsupported() {
    for text in [
        "--ip_version=ipv6\n0 close(3) = 0",
        "`ip route`\n0 close(3) = 0",
        "0 pipe([3, 4]) = 0",
    ] {
        let (result, _) = call(text, Vec::new());
        assert!(result.unwrap_err().contains("unsupported: "), "{text}");
    }
}
