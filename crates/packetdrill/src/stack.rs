//! What a TCP stack must offer to be played with.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::call::{Call, Outcome};
use crate::script::TcpOption;
use crate::sysctl::{Change, Setting};

/// A segment as on the wire, but for its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Number of the first octet.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// Of [`flags`](crate::script::flags).
    pub flags: u8,
    /// The flag beside them that accurate ECN uses (AE).
    pub ae: bool,
    /// Unscaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// In their order.
    pub options: Vec<TcpOption>,
    /// The data.
    pub payload: Vec<u8>,
    /// The IP header's traffic class.
    pub tos: u8,
}

/// An ICMP "destination unreachable" about a segment of the stack's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Its code, IPv4.
    pub code: u8,
    /// The next hop's MTU, if the code is "fragmentation needed".
    pub mtu: u16,
    /// Source port of the segment.
    pub source: u16,
    /// Destination port of the segment.
    pub destination: u16,
    /// Sequence number of the segment.
    pub seq: u32,
}

/// What a script needs to know of the world around the stack before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Sysctls, later ones win.
    pub sysctls: Vec<Setting>,
    /// Of the interface, in octets.
    pub mtu: u16,
    /// The port that `bind` binds to.
    pub bind_port: u16,
    /// The port that `connect` connects to.
    pub connect_port: u16,
    /// Data that arrives comes in segments of at most so many octets (`--mss`), at one instant.
    pub segment_len: Option<u16>,
    /// The script is about IPv6, although its addresses are not.
    pub is_ipv6: bool,
    /// The stack's address.
    pub local: Ipv4Addr,
    /// The address of the peer that the script plays.
    pub remote: Ipv4Addr,
}

/// A TCP stack with sockets, its clock and one interface.
///
/// Data is not arbitrary: octet `n` of a stream, counted from 0, is [`octet`]`(n)` in both
/// directions.
pub trait Stack {
    /// Prepares for a script; the error names what of the setup is not supported.
    fn set_up(&mut self, setup: &Setup) -> Result<(), String>;

    /// Changes a setting in the midst of a script; the error names what is not supported.
    fn change(&mut self, change: &Change) -> Result<(), String>;

    /// Time since the start of the script.
    fn now(&mut self) -> Duration;

    /// The next segment that the stack sends and when it did, waiting until `deadline`; `None` if
    /// there is none, and then [`Stack::now`] is not before `deadline`.
    fn sniff(&mut self, deadline: Duration) -> Option<(Duration, Segment)>;

    /// Lets a segment arrive.
    fn inject(&mut self, segment: &Segment);

    /// Lets an ICMP message arrive.
    fn inject_unreachable(&mut self, message: &Unreachable);

    /// Starts a system call. Only one is under way at a time; the script says whether it may block.
    /// The error names what is not supported.
    fn start(&mut self, call: &Call, may_block: bool) -> Result<(), String>;

    /// What the call that was started gave, and when it returned, once it has.
    fn outcome(&mut self) -> Option<(Duration, Outcome)>;

    /// A value of `TCP_INFO` of socket `fd` by the name of its field; `None` if the stack does not
    /// have it.
    fn tcp_info(&mut self, fd: i32, name: &str) -> Option<i64>;
}

/// Whether `data` is what a stream has from `position` on; else the index of the first octet that
/// is not.
pub fn wrong_octet(data: &[u8], position: u32) -> Option<usize> {
    let mut position = position;
    data.iter().position(|found| {
        let wanted = octet(position);
        position = position.wrapping_add(1);
        *found != wanted
    })
}

/// Octet `position` of any stream.
pub fn octet(position: u32) -> u8 {
    // Neighbours and blocks of any round size differ.
    (position.wrapping_mul(0x9e37_79b1) >> 24) as u8
}

/// How long a runner waits for a system call's answer before it goes on with the script.
pub(crate) const fn patience(may_block: bool) -> Duration {
    // Even a call that may block often does not; one that is not to block must return within the
    // longer time.
    Duration::from_millis(if may_block { 1 } else { 100 })
}
