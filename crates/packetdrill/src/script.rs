//! What a script says, as data.

use std::net::IpAddr;
use std::time::Duration;

use crate::error::Place;

/// A whole script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Where it was read from, for messages.
    pub path: String,
    /// The `--name=value` lines at the top.
    pub options: Vec<ScriptOption>,
    /// The shell command before the first event.
    pub initial: Option<Command>,
    /// What happens, in the order of the file.
    pub events: Vec<Event>,
    /// The shell command after the last event.
    pub cleanup: Option<Command>,
}

/// `--name=value`, or `--name` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOption {
    /// Where it stands.
    pub place: Place,
    /// Without the dashes.
    pub name: String,
    /// As written, without quotes.
    pub value: Option<String>,
}

/// A shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where it stands.
    pub place: Place,
    /// What the shell is to run.
    pub line: String,
}

/// Something that happens, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where its time stands.
    pub place: Place,
    /// When it happens.
    pub when: When,
    /// What happens.
    pub action: Action,
}

/// When an event happens. Only packets that the stack sends may have a range or happen at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Since the start of the script.
    At(Duration),
    /// Since the event before.
    After(Duration),
    /// In this range since the start.
    Between(Duration, Duration),
    /// In this range since the event before.
    AfterBetween(Duration, Duration),
    /// At any time.
    Any,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A packet arrives (`<`).
    Inject(Packet),
    /// The stack sends a packet (`>`).
    Expect(Packet),
    /// The program makes a system call.
    Call(Syscall),
    /// A shell command runs.
    Command(Command),
    /// Python code looks at the connection's `TCP_INFO`.
    Code(Code),
}

/// Python code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Where it stands.
    pub place: Place,
    /// Without the delimiters.
    pub text: String,
}

/// An IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where its direction stands.
    pub place: Place,
    /// What the script says of its IP header.
    pub ip: IpFields,
    /// What is in it.
    pub body: Body,
}

/// Fields of an IP header; what is not said is not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpFields {
    /// Traffic class, or part of it.
    pub tos: Option<Tos>,
    /// Time to live.
    pub ttl: Option<u8>,
    /// IPv6 flow label.
    pub flow_label: Option<u32>,
}

/// What is said of a traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tos {
    /// The two ECN bits (RFC 3168 §5): 0 none, 1 ECT(1), 2 ECT(0), 3 CE.
    Ecn(u8),
    /// ECT(0) or ECT(1).
    EitherEct,
    /// All eight bits.
    Byte(u8),
}

/// What is in an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A TCP segment.
    Tcp(TcpSegment),
    /// A UDP datagram with this many bytes.
    Udp(u16),
    /// An ICMP or ICMPv6 message.
    Icmp(Icmp),
}

/// Bits of a TCP header's flags, as on the wire.
pub mod flags {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronize.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// A TCP segment. Numbers are relative: the first octet of each direction has number 1, its SYN 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpSegment {
    /// Source and destination, if not those of the connection.
    pub ports: Option<(u16, u16)>,
    /// Of [`flags`].
    pub flags: u8,
    /// The three bits of accurate ECN, if given as a digit.
    pub ace: Option<u8>,
    /// Number of the first octet.
    pub seq: u32,
    /// Octets of data.
    pub len: u16,
    /// The acknowledgement number.
    pub ack: u32,
    /// The window as in the header, unscaled; `None` is not checked.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: u16,
    /// In the order of the wire; `None` (`<...>`) is not checked.
    pub options: Option<Vec<TcpOption>>,
}

/// A TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// End of the options.
    End,
    /// No operation.
    Nop,
    /// Maximum segment size.
    Mss(u16),
    /// Shift of the window.
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// Blocks, left and right edge.
    Sack(Vec<(u32, u32)>),
    /// Timestamps.
    Timestamp {
        /// The sender's clock.
        val: u32,
        /// The other's clock, echoed.
        ecr: u32,
    },
    /// A Fast Open cookie (RFC 7413); empty asks for one.
    FastOpen(Vec<u8>),
    /// The same under the experimental number.
    FastOpenExperimental(Vec<u8>),
    /// An MD5 signature (RFC 2385).
    Md5(Vec<u8>),
    /// Accurate ECN's counters, as `(name, value)` in order.
    AccurateEcn(Vec<(String, u32)>),
}

/// An ICMP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Such as `unreachable`.
    pub kind: String,
    /// Such as `frag_needed`.
    pub code: Option<String>,
    /// The next hop's MTU.
    pub mtu: Option<u32>,
    /// Identifier of an echo.
    pub echo_id: Option<u16>,
    /// First number and length of the TCP segment that it is about.
    pub echoed: Option<(u32, u16)>,
}

/// A system call and what it must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// Where its name stands.
    pub place: Place,
    /// If it blocks: when it returns, in the time of its event.
    pub until: Option<Duration>,
    /// Its name.
    pub name: String,
    /// What it is given.
    pub arguments: Vec<Expression>,
    /// What it returns.
    pub result: Expression,
    /// The name of the error it sets.
    pub errno: Option<String>,
}

/// A value in a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `...`: anything.
    Ellipsis,
    /// A number.
    Integer(i64),
    /// A name of the system's headers.
    Word(String),
    /// A string; adjoining ones are one.
    Text(String),
    /// Alternatives of flags, `a|b`.
    Or(Box<Self>, Box<Self>),
    /// `[a, b]`
    List(Vec<Self>),
    /// `{a, b}`
    Group(Vec<Self>),
    /// `{name=a, other(1)=b}`: names, what is in their parentheses, values.
    Struct(Vec<Field>),
    /// `name = value` outside of braces.
    Assign(String, Box<Self>),
    /// `htons(80)`.
    Apply(String, Box<Self>),
    /// An address by itself.
    Address(IpAddr),
}

/// One field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What stands in parentheses after the name, a length.
    pub count: Option<Expression>,
    /// Its value.
    pub value: Expression,
}

impl Expression {
    /// The value of field `name`, if this is a structure that has it.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields
                .iter()
                .find(|field| field.name == name)
                .map(|field| &field.value),
            _ => None,
        }
    }
}
