//! `libvma.conf`: which sockets run in user space.
//!
//! A file is a list of statements, one a line; `#` begins a comment. (VMA manual, section 7.1.)
//!
//! ```text
//! application-id <program pattern> <user-defined id>
//! use <vma|os|sdp|sa|*> <tcp_server|udp_receiver|udp_sender> <address>:<ports>
//! use <vma|os|sdp|sa|*> <tcp_client|udp_connect> <address>:<ports>[:<address>:<ports>]
//! log [destination <stderr|syslog|file <name>>] [min-level <number>]
//!
//! address   a.b.c.d[/prefix length], [IPv6 address][/prefix length] with these brackets around the address, or *
//! ports     n, n-m or *
//! ```
//!
//! Rules belong to the `application-id` above them, or to every program if there is none. A process
//! follows the first `application-id` that matches its name and its `VMA_APPLICATION_ID`; among the
//! rules of that one, for a role, the first that matches decides. Where none does, the socket is
//! accelerated.
//!
//! Reading never fails as a whole: a line that cannot be understood is reported and left out. Rules
//! below an `application-id` that cannot be understood are left out, too, since nobody knows whose
//! they are.

mod cursor;
mod matching;
mod parser;
mod process;

use std::fmt;
use std::net::IpAddr;

pub use process::{ProcessRule, ProcessRules};

/// The statements of a file, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFile {
    /// What was understood, in the order of the file.
    pub statements: Vec<Located>,
    /// One for each line that was not, in the order of the file.
    pub errors: Vec<RuleError>,
}

/// A statement and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Line of the file, from 1.
    pub line: u32,
    /// The statement.
    pub statement: Statement,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `application-id`: whose the rules below are.
    ApplicationId {
        /// Pattern of the program's name, as for fnmatch(3).
        program: String,
        /// `VMA_APPLICATION_ID` of the process, or `*`.
        id: String,
    },
    /// `use`
    Use(Rule),
    /// `log`: read and checked; logging is set up by variables.
    Log {
        /// Where to.
        destination: Option<LogDestination>,
        /// How much.
        min_level: Option<u32>,
    },
}

/// Where a `log` statement wants messages to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// Standard error.
    Stderr,
    /// syslog(3)
    Syslog,
    /// A file of this name.
    File(String),
}

/// Which transport sockets of a role and address use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What to use.
    pub transport: Transport,
    /// For what.
    pub role: Role,
    /// Peer of `tcp_client`, `udp_connect` and `udp_sender`; local address of `tcp_server` and
    /// `udp_receiver`.
    pub first: Endpoint,
    /// Local address of `tcp_client` and `udp_connect`.
    pub second: Option<Endpoint>,
}

/// What a rule says to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// User space.
    Vma,
    /// The kernel.
    Os,
    /// The Sockets Direct Protocol of other libraries that read such files; such a rule says
    /// nothing here.
    Sdp,
    /// Socket acceleration of another library; such a rule says nothing here.
    Sa,
    /// Any but the kernel: user space.
    Any,
}

/// What a socket does when a rule is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Listens.
    TcpServer,
    /// Connects.
    TcpClient,
    /// Receives at a local address.
    UdpReceiver,
    /// Sends to an address.
    UdpSender,
    /// Is connected.
    UdpConnect,
}

/// Addresses and ports that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `None`: every address.
    pub network: Option<Network>,
    /// `None`: every port.
    pub ports: Option<Ports>,
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address of the network; bits behind the prefix are as they stand in the file.
    pub address: IpAddr,
    /// 0..32, of IPv6 0..128
    pub prefix_len: u8,
}

/// From `first` to `last`, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// At most `last`.
    pub first: u16,
    /// At least `first`.
    pub last: u16,
}

/// Why a line was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Line of the file, from 1.
    pub line: u32,
    /// Character of the line, from 1; one more than the line has if something is missing at its
    /// end.
    pub column: u32,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there, on one line.
    pub found: String,
}

impl Transport {
    /// The transports and their words.
    pub(crate) const WORDS: [(Self, &'static str); 5] = [
        (Self::Vma, "vma"),
        (Self::Os, "os"),
        (Self::Sdp, "sdp"),
        (Self::Sa, "sa"),
        (Self::Any, "*"),
    ];
}

impl Role {
    /// The roles and their words.
    pub(crate) const WORDS: [(Self, &'static str); 5] = [
        (Self::TcpServer, "tcp_server"),
        (Self::TcpClient, "tcp_client"),
        (Self::UdpSender, "udp_sender"),
        (Self::UdpReceiver, "udp_receiver"),
        (Self::UdpConnect, "udp_connect"),
    ];

    /// Whether rules of the role may name a second address.
    pub fn has_second(self) -> bool {
        matches!(self, Self::TcpClient | Self::UdpConnect)
    }
}

fn word_of<T: PartialEq>(words: &[(T, &'static str)], value: &T) -> &'static str {
    words
        .iter()
        .find(|(known, _)| known == value)
        .map_or("", |(_, word)| word)
}

impl fmt::Display for RuleFile {
    /// A file with the same statements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statements
            .iter()
            .try_for_each(|located| writeln!(f, "{}", located.statement))
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApplicationId { program, id } => write!(f, "application-id {program} {id}"),
            Self::Use(rule) => write!(f, "{rule}"),
            Self::Log {
                destination,
                min_level,
            } => {
                f.write_str("log")?;
                match destination {
                    Some(LogDestination::Stderr) => f.write_str(" destination stderr")?,
                    Some(LogDestination::Syslog) => f.write_str(" destination syslog")?,
                    Some(LogDestination::File(name)) => write!(f, " destination file {name}")?,
                    None => {}
                }
                min_level
                    .iter()
                    .try_for_each(|level| write!(f, " min-level {level}"))
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = word_of(&Transport::WORDS, &self.transport);
        let role = word_of(&Role::WORDS, &self.role);
        write!(f, "use {transport} {role} {}", self.first)?;
        self.second
            .iter()
            .try_for_each(|second| write!(f, ":{second}"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            None => f.write_str("*")?,
            Some(network) => write!(f, "{network}")?,
        }
        match self.ports {
            None => f.write_str(":*"),
            Some(ports) if ports.first == ports.last => write!(f, ":{}", ports.first),
            Some(ports) => write!(f, ":{}-{}", ports.first, ports.last),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = match self.address {
            IpAddr::V4(address) => {
                write!(f, "{address}")?;
                32
            }
            IpAddr::V6(address) => {
                write!(f, "[{address}]")?;
                128
            }
        };
        if self.prefix_len == longest {
            return Ok(());
        }
        write!(f, "/{}", self.prefix_len)
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            expected,
            found,
        } = self;
        write!(f, "{line}:{column}: expected {expected}, found {found}")
    }
}

#[cfg(test)]
mod tests;
