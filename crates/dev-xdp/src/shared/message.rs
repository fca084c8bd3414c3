//! What a process and the broker say to each other, over a socket that keeps messages apart
//! (`SOCK_SEQPACKET`), in the machine's own byte order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dev_core::Protocol;

use super::area::Shape;

/// Both sides are of the same build as a rule; another version is refused.
const VERSION: u32 = 1;
const MAGIC: [u8; 4] = *b"vmab";

/// The longest message.
pub(super) const BYTES_MAX: usize = 512;
/// Longest text of a message.
const TEXT_MAX: usize = 200;

/// What a process asks for first. Its network namespace comes along as a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The interface's index in that namespace.
    pub ifindex: u32,
    /// Bytes of a frame of the process's own.
    pub frame_bytes: u32,
}

/// What it gets. The descriptors come along: the memory, and of each queue the socket that receives
/// and the one that sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Welcome {
    pub(super) place: u8,
    pub(super) generation: u16,
    pub(super) shape: Shape,
    pub(super) queues: u32,
    /// Entries of the rings, those of the fill and completion rings being all processes'.
    pub(super) entries: Entries,
    /// By queue, those behind each other.
    pub(super) first_sent: u32,
    /// For each queue.
    pub(super) sent: u32,
    pub(super) is_generic: bool,
    pub(super) in_pieces: bool,
    pub(super) partial_checksums: bool,
    /// What an operator should know.
    pub(super) note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) rx: u32,
    pub(super) tx: u32,
    pub(super) fill: u32,
    pub(super) completion: u32,
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Welcome(Welcome),
    /// In the broker's words, for the log.
    Refused(String),
}

/// What a process asks for of its flows. The answer is an error number of the system, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    AddPort(Protocol, SocketAddr),
    RemovePort(Protocol, SocketAddr),
    AddFlow(Protocol, SocketAddr, SocketAddr),
    RemoveFlow(Protocol, SocketAddr, SocketAddr),
    AddExemption(Protocol, SocketAddr, SocketAddr),
    RemoveExemption(Protocol, SocketAddr, SocketAddr),
    PortHasExemptions(Protocol, SocketAddr),
    /// Addresses of the interface have changed.
    LookAgain,
    Stamp(bool),
    GiveBack,
    /// Together with others: the socket comes along.
    JoinPort(Protocol, SocketAddr),
    /// A connection is to come into the queue of the kernel's listening socket: what was agreed
    /// follows, and a file with packets comes along.
    Admit(Protocol, SocketAddr, SocketAddr),
    /// Whether all the sockets whose numbers follow have joined.
    HaveJoined(Protocol, SocketAddr),
    /// The option with this number, of the socket that comes along, is to have the value that
    /// follows.
    SetOption(u8),
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::from(MAGIC);
        for number in [VERSION, self.ifindex, self.frame_bytes] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes
    }

    /// `None`: it is none, or one of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let is_ours = reader.take::<4>()? == MAGIC && reader.u32()? == VERSION;
        is_ours.then_some(())?;
        let hello = Self {
            ifindex: reader.u32()?,
            frame_bytes: reader.u32()?,
        };
        reader.end()?;
        Some(hello)
    }
}

impl Answer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Refused(why) => {
                bytes.push(0);
                put_text(&mut bytes, why);
            }
            Self::Welcome(welcome) => {
                bytes.push(1);
                bytes.push(welcome.place);
                bytes.extend(welcome.generation.to_ne_bytes());
                let (shape, entries) = (welcome.shape, welcome.entries);
                for number in [
                    shape.frame_bytes,
                    shape.rx_frames,
                    shape.tx_frames,
                    welcome.queues,
                    entries.rx,
                    entries.tx,
                    entries.fill,
                    entries.completion,
                    welcome.first_sent,
                    welcome.sent,
                ] {
                    bytes.extend(number.to_ne_bytes());
                }
                for flag in [
                    welcome.is_generic,
                    welcome.in_pieces,
                    welcome.partial_checksums,
                ] {
                    bytes.push(flag.into());
                }
                put_text(&mut bytes, &welcome.note);
            }
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.u8()? == 0 {
            return Some(Self::Refused(reader.text()));
        }
        let (place, generation) = (reader.u8()?, u16::from_ne_bytes(reader.take()?));
        let shape = Shape {
            frame_bytes: reader.u32()?,
            rx_frames: reader.u32()?,
            tx_frames: reader.u32()?,
        };
        let queues = reader.u32()?;
        let entries = Entries {
            rx: reader.u32()?,
            tx: reader.u32()?,
            fill: reader.u32()?,
            completion: reader.u32()?,
        };
        Some(Self::Welcome(Welcome {
            place,
            generation,
            shape,
            queues,
            entries,
            first_sent: reader.u32()?,
            sent: reader.u32()?,
            is_generic: reader.u8()? != 0,
            in_pieces: reader.u8()? != 0,
            partial_checksums: reader.u8()? != 0,
            note: reader.text(),
        }))
    }
}

impl Request {
    pub(crate) fn encode(self) -> Vec<u8> {
        let none = SocketAddr::from(([0; 4], 0));
        let (kind, protocol, local, peer) = match self {
            Self::AddPort(protocol, local) => (1, protocol as u8, local, none),
            Self::RemovePort(protocol, local) => (2, protocol as u8, local, none),
            Self::AddFlow(protocol, local, peer) => (3, protocol as u8, local, peer),
            Self::RemoveFlow(protocol, local, peer) => (4, protocol as u8, local, peer),
            Self::AddExemption(protocol, local, peer) => (5, protocol as u8, local, peer),
            Self::RemoveExemption(protocol, local, peer) => (6, protocol as u8, local, peer),
            Self::PortHasExemptions(protocol, local) => (7, protocol as u8, local, none),
            Self::LookAgain => (8, 0, none, none),
            Self::Stamp(stamps) => (9, stamps.into(), none, none),
            Self::GiveBack => (10, 0, none, none),
            Self::SetOption(name) => (11, name, none, none),
            Self::JoinPort(protocol, local) => (12, protocol as u8, local, none),
            Self::Admit(protocol, local, peer) => (14, protocol as u8, local, peer),
            Self::HaveJoined(protocol, local) => (13, protocol as u8, local, none),
        };
        let mut bytes = vec![kind, protocol];
        put_address(&mut bytes, local);
        put_address(&mut bytes, peer);
        bytes
    }

    /// The request, and what follows it.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader(bytes);
        let (kind, number) = (reader.u8()?, reader.u8()?);
        let (local, peer) = (reader.address()?, reader.address()?);
        let protocol = || match number {
            it if it == Protocol::Tcp as u8 => Some(Protocol::Tcp),
            it if it == Protocol::Udp as u8 => Some(Protocol::Udp),
            _ => None,
        };
        let request = match kind {
            1 => Self::AddPort(protocol()?, local),
            2 => Self::RemovePort(protocol()?, local),
            3 => Self::AddFlow(protocol()?, local, peer),
            4 => Self::RemoveFlow(protocol()?, local, peer),
            5 => Self::AddExemption(protocol()?, local, peer),
            6 => Self::RemoveExemption(protocol()?, local, peer),
            7 => Self::PortHasExemptions(protocol()?, local),
            8 => Self::LookAgain,
            9 => Self::Stamp(number != 0),
            10 => Self::GiveBack,
            11 => Self::SetOption(number),
            12 => Self::JoinPort(protocol()?, local),
            14 => Self::Admit(protocol()?, local, peer),
            13 => Self::HaveJoined(protocol()?, local),
            _ => return None,
        };
        Some((request, reader.0))
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let boundaries = text.char_indices().map(|(index, _)| index);
    let ends = boundaries.chain([text.len()]);
    let end = ends.take_while(|end| *end <= TEXT_MAX).last().unwrap_or(0);
    bytes.extend(&text.as_bytes()[..end]);
}

fn put_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    let (version, octets) = match address.ip() {
        IpAddr::V4(ip) => (4, ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => (6, ip.octets()),
    };
    bytes.push(version);
    bytes.extend(address.port().to_ne_bytes());
    bytes.extend(octets);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (taken, rest) = self.0.split_first_chunk::<LEN>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[it]| it)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let version = self.u8()?;
        let port = u16::from_ne_bytes(self.take()?);
        let octets: [u8; 16] = self.take()?;
        let ip = match version {
            4 => IpAddr::V4(Ipv4Addr::from([
                octets[12], octets[13], octets[14], octets[15],
            ])),
            6 => IpAddr::V6(Ipv6Addr::from(octets)),
            _ => return None,
        };
        Some(SocketAddr::new(ip, port))
    }

    fn text(&mut self) -> String {
        let text = String::from_utf8_lossy(std::mem::take(&mut self.0));
        text.replace(|it: char| it.is_control(), "?")
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_were_written() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 80));
        let v6: SocketAddr = "[fe80::1]:9".parse().unwrap();
        for request in [
            Request::AddPort(Protocol::Udp, v4),
            Request::RemovePort(Protocol::Tcp, v6),
            Request::AddFlow(Protocol::Tcp, v6, v6),
            Request::RemoveFlow(Protocol::Udp, v4, v4),
            Request::AddExemption(Protocol::Tcp, v4, v4),
            Request::RemoveExemption(Protocol::Tcp, v4, v4),
            Request::PortHasExemptions(Protocol::Tcp, v4),
            Request::LookAgain,
            Request::Stamp(true),
            Request::GiveBack,
            Request::SetOption(19),
            Request::JoinPort(Protocol::Udp, v6),
            Request::HaveJoined(Protocol::Tcp, v4),
            Request::Admit(Protocol::Tcp, v4, v6),
        ] {
            let bytes = request.encode();
            assert!(bytes.len() <= BYTES_MAX);
            assert_eq!(Request::decode(&bytes), Some((request, &[][..])));
            for len in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..len]), None, "{request:?} cut");
            }
            let with_value = [&bytes[..], &[7]].concat();
            assert_eq!(Request::decode(&with_value), Some((request, &[7][..])));
        }
    }

    #[test]
    fn what_is_no_request_is_none() {
        let good = Request::AddPort(Protocol::Udp, SocketAddr::from(([1; 4], 1))).encode();
        for (place, values) in [(0, [0, 15]), (1, [1, 255]), (2, [0, 5])] {
            for value in values {
                let mut bytes = good.clone();
                bytes[place] = value;
                assert_eq!(Request::decode(&bytes), None, "{place} {value}");
            }
        }
    }

    #[test]
    fn answers_are_read_as_they_were_written_and_texts_are_cut() {
        let welcome = Welcome {
            place: 3,
            generation: 500,
            shape: Shape {
                frame_bytes: 2048,
                rx_frames: 7,
                tx_frames: 8,
            },
            queues: 2,
            entries: Entries {
                rx: 1,
                tx: 2,
                fill: 3,
                completion: 4,
            },
            first_sent: 5,
            sent: 6,
            is_generic: true,
            in_pieces: false,
            partial_checksums: true,
            note: "well".to_owned(),
        };
        let answer = Answer::Welcome(welcome);
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        let refused = Answer::Refused("é".repeat(300)).encode();
        assert!(refused.len() <= BYTES_MAX);
        let text = Answer::decode(&refused);
        assert_eq!(text, Some(Answer::Refused("é".repeat(TEXT_MAX / 2))));
        assert_eq!(Answer::decode(&[]), None);
    }

    #[test]
    fn only_the_own_version_is_understood() {
        let hello = Hello {
            ifindex: 7,
            frame_bytes: 2048,
        };
        let bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes), Some(hello));
        let mut other = bytes.clone();
        other[4] ^= 0xff;
        assert_eq!(
            (Hello::decode(&other), Hello::decode(&bytes[1..])),
            (None, None)
        );
    }
}
