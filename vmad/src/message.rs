//! The messages of VMA's agent protocol, version 3: what the original library tells its daemon.
//!
//! Structures without padding, numbers in the host's byte order, addresses and ports in the
//! network's. A datagram may hold several messages, one behind the other.
//!
//! ```text
//! header  code u8, version u8, status u8, reserved u8, process id i32
//! INIT    header, library version u32                                                    answered with an INIT
//! STATE   header, descriptor u32, addresses local and peer, ports local and peer, type u8, state u8
//! EXIT    header
//! FLOW    header, type u8, action u8, interface u32, tap u32, destination and source (address, port)
//!         answered with a header if the status is 1
//! ```
//!
//! Nothing here is believed: [`parse`] only tells what the bytes say.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::connection::Connection;
use crate::flows::{Direction, Flow, Protocol};

/// The version of the protocol that this daemon speaks.
pub const VERSION: u8 = 3;

/// The longest datagram that is read. A longer one is cut, and its last message is incomplete.
pub const MAX_DATAGRAM: usize = 8 * 1024;

const INIT: u8 = 1;
const STATE: u8 = 2;
const EXIT: u8 = 3;
const FLOW: u8 = 4;
/// Added to the code of a message to make that of its answer.
const ANSWER: u8 = 0x80;

const HEADER_LEN: usize = 8;
const SOCK_STREAM: u8 = 1;

/// A message and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub version: u8,
    /// The sender's process id as the sender sees it.
    pub pid: i32,
    pub message: Message,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A process begins.
    Init { library: u32 },
    /// A connection is in another state.
    State {
        descriptor: u32,
        connection: Connection,
        /// It is a TCP socket.
        is_stream: bool,
        state: TcpState,
    },
    /// A process ends in good order.
    Exit,
    /// Packets are to go to or from a TAP device, or no longer.
    Flow {
        wants_answer: bool,
        is_wanted: bool,
        flow: Flow,
    },
}

/// The state of a connection, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// The peer has a connection: established, or being closed by one side.
    Synchronized,
    /// There is nothing to reset: closed, listening, not yet set up, or closed by both sides.
    Other,
}

impl TcpState {
    /// From the number of lwIP's state.
    fn from_number(number: u8) -> Self {
        match number {
            // ESTABLISHED, FIN_WAIT_1, FIN_WAIT_2, CLOSE_WAIT, CLOSING, LAST_ACK
            4..=9 => Self::Synchronized,
            _ => Self::Other,
        }
    }
}

/// Why the rest of a datagram cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a message of unknown kind {0}")]
    Code(u8),
    #[error("a flow of unknown kind {0}, or an unknown action {1}")]
    Flow(u8, u8),
    #[error("a message that is cut short")]
    Truncated,
}

/// The messages of a datagram, up to the first that cannot be read.
pub fn parse(datagram: &[u8]) -> Messages<'_> {
    Messages { rest: datagram }
}

/// See [`parse`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl Iterator for Messages<'_> {
    type Item = Result<Received, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match parse_one(self.rest) {
            Ok((received, length)) => {
                self.rest = self.rest.get(length..).unwrap_or_default();
                Some(Ok(received))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

/// The first message and its length.
fn parse_one(bytes: &[u8]) -> Result<(Received, usize), Malformed> {
    let mut fields = Fields { bytes, taken: 0 };
    let [code, version, status, _reserved] = fields.take()?;
    let pid = i32::from_ne_bytes(fields.take()?);
    let message = match code {
        INIT => Message::Init {
            library: fields.number()?,
        },
        STATE => state(&mut fields)?,
        EXIT => Message::Exit,
        FLOW => flow(&mut fields, status == 1)?,
        other => return Err(Malformed::Code(other)),
    };
    let received = Received {
        version,
        pid,
        message,
    };
    Ok((received, fields.taken))
}

fn state(fields: &mut Fields<'_>) -> Result<Message, Malformed> {
    let descriptor = fields.number()?;
    let local = Ipv4Addr::from(fields.take::<4>()?);
    let peer = Ipv4Addr::from(fields.take::<4>()?);
    let local_port = u16::from_be_bytes(fields.take()?);
    let peer_port = u16::from_be_bytes(fields.take()?);
    let [kind, state] = fields.take()?;
    Ok(Message::State {
        descriptor,
        connection: Connection {
            local: SocketAddrV4::new(local, local_port).into(),
            peer: SocketAddrV4::new(peer, peer_port).into(),
        },
        is_stream: kind == SOCK_STREAM,
        state: TcpState::from_number(state),
    })
}

fn flow(fields: &mut Fields<'_>, wants_answer: bool) -> Result<Message, Malformed> {
    let [kind, action] = fields.take()?;
    let link = fields.number()?;
    let tap = fields.number()?;
    let destination = fields.end()?;
    let source = fields.end()?;
    let ingress = |protocol, source| Direction::Ingress {
        protocol,
        destination,
        source,
    };
    let direction = match kind {
        0 => Direction::Egress,
        1 => ingress(Protocol::Udp, Some(source)),
        2 => ingress(Protocol::Udp, None),
        3 => ingress(Protocol::Tcp, Some(source)),
        4 => ingress(Protocol::Tcp, None),
        _ => return Err(Malformed::Flow(kind, action)),
    };
    Ok(Message::Flow {
        wants_answer,
        is_wanted: match action {
            1 => true,
            2 => false,
            _ => return Err(Malformed::Flow(kind, action)),
        },
        flow: Flow {
            link,
            tap,
            direction,
        },
    })
}

struct Fields<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let field = rest.first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.taken += N;
        Ok(*field)
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_ne_bytes)
    }

    /// An address and a port.
    fn end(&mut self) -> Result<SocketAddrV4, Malformed> {
        let address = Ipv4Addr::from(self.take::<4>()?);
        let port = u16::from_be_bytes(self.take()?);
        Ok(SocketAddrV4::new(address, port))
    }
}

/// The answer to an INIT: the same message back, with the version of this side.
pub fn init_answer(pid: i32, library: u32) -> [u8; HEADER_LEN + 4] {
    let mut answer = [0; HEADER_LEN + 4];
    answer[..HEADER_LEN].copy_from_slice(&header(INIT | ANSWER, 0, pid));
    answer[HEADER_LEN..].copy_from_slice(&library.to_ne_bytes());
    answer
}

/// The answer to a FLOW: its header, and whether it was done.
pub fn flow_answer(pid: i32, done: bool) -> [u8; HEADER_LEN] {
    header(FLOW | ANSWER, u8::from(!done), pid)
}

fn header(code: u8, status: u8, pid: i32) -> [u8; HEADER_LEN] {
    let [a, b, c, d] = pid.to_ne_bytes();
    [code, VERSION, status, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the original library writes it.
    fn state_bytes(state: u8) -> Vec<u8> {
        let mut bytes = header(STATE, 0, 77).to_vec();
        bytes.extend(5_u32.to_ne_bytes());
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0x1f, 0x90, 0x9c, 0x40, SOCK_STREAM, state]);
        bytes
    }

    fn connection() -> Connection {
        Connection {
            local: "10.0.0.1:8080".parse().unwrap(),
            peer: "10.0.0.2:40000".parse().unwrap(),
        }
    }

    #[test]
    fn a_datagram_holds_several_messages() {
        let mut datagram = header(INIT, 0, 77).to_vec();
        datagram.extend(0x0009_8060_u32.to_ne_bytes());
        datagram.extend(state_bytes(4));
        datagram.extend(header(EXIT, 0, 77));
        let messages: Result<Vec<_>, _> = parse(&datagram).collect();
        let messages = messages.unwrap();
        assert!(messages.iter().all(|it| (it.version, it.pid) == (3, 77)));
        let messages: Vec<_> = messages.into_iter().map(|it| it.message).collect();
        assert_eq!(
            messages,
            [
                Message::Init {
                    library: 0x0009_8060
                },
                Message::State {
                    descriptor: 5,
                    connection: connection(),
                    is_stream: true,
                    state: TcpState::Synchronized
                },
                Message::Exit,
            ]
        );
    }

    #[test]
    fn flows_are_of_five_kinds_and_come_and_go() {
        let bytes = |kind, action| {
            let mut bytes = header(FLOW, 1, 77).to_vec();
            bytes.extend([kind, action]);
            bytes.extend(2_u32.to_ne_bytes());
            bytes.extend(9_u32.to_ne_bytes());
            bytes.extend([10, 0, 0, 1, 0x1f, 0x90, 10, 0, 0, 2, 0x9c, 0x40]);
            bytes
        };
        let read = |kind, action| {
            let datagram = bytes(kind, action);
            let mut messages = parse(&datagram);
            messages.next().unwrap().map(|received| received.message)
        };
        let ingress = |protocol, source: Option<&str>| Direction::Ingress {
            protocol,
            destination: "10.0.0.1:8080".parse().unwrap(),
            source: source.map(|source| source.parse().unwrap()),
        };
        let source = Some("10.0.0.2:40000");
        for (kind, direction) in (0..).zip([
            Direction::Egress,
            ingress(Protocol::Udp, source),
            ingress(Protocol::Udp, None),
            ingress(Protocol::Tcp, source),
            ingress(Protocol::Tcp, None),
        ]) {
            let flow = Flow {
                link: 2,
                tap: 9,
                direction,
            };
            for (action, is_wanted) in [(1, true), (2, false)] {
                let message = Message::Flow {
                    wants_answer: true,
                    is_wanted,
                    flow,
                };
                assert_eq!(read(kind, action), Ok(message));
            }
        }
        assert_eq!(read(5, 1), Err(Malformed::Flow(5, 1)));
        assert_eq!(read(1, 3), Err(Malformed::Flow(1, 3)));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let whole = state_bytes(4);
        assert_eq!(whole.len(), 26);
        for length in 1..whole.len() {
            let messages: Vec<_> = parse(&whole[..length]).collect();
            assert_eq!(messages, [Err(Malformed::Truncated)], "{length}");
        }
        assert_eq!(parse(&[]).next(), None);
    }

    #[test]
    fn what_follows_a_bad_message_is_not_read() {
        let mut datagram = header(9, 0, 77).to_vec();
        datagram.extend(header(EXIT, 0, 77));
        let messages: Vec<_> = parse(&datagram).collect();
        assert_eq!(messages, [Err(Malformed::Code(9))]);
    }

    #[test]
    fn only_states_that_a_peer_shares_are_worth_a_reset() {
        for (number, state) in (0..=11).zip("oooossssssoo".chars()) {
            let bytes = state_bytes(number);
            let Ok(Received {
                message: Message::State { state: parsed, .. },
                ..
            }) = parse(&bytes).next().unwrap()
            else {
                panic!("not a state");
            };
            assert_eq!(parsed == TcpState::Synchronized, state == 's', "{number}");
        }
    }

    #[test]
    fn answers_are_those_that_the_library_waits_for() {
        assert_eq!(init_answer(77, 1)[..4], [0x81, 3, 0, 0]);
        assert_eq!(init_answer(77, 1)[4..8], 77_i32.to_ne_bytes());
        assert_eq!(flow_answer(77, false)[..4], [0x84, 3, 1, 0]);
        assert_eq!(flow_answer(77, true)[2], 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes).count() <= bytes.len() / HEADER_LEN + 1);
        }
    }
}
