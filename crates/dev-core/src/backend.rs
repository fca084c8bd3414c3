//! What a device back-end offers to the engine.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use descriptors::OwnDescriptor;

use crate::admission::Admission;
use crate::arrival::{ClockSample, Noted, NotedTimes};
use crate::flow::Flow;
use crate::link::{Carrier, LinkSpec};
use crate::pool::{Frame, FramePool};

/// Why an interface cannot be accelerated, and what the operator can do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// What failed, with the system's words.
    pub what: String,
    /// What would help.
    pub remedy: &'static str,
    /// The limit of locked memory (`RLIMIT_MEMLOCK`) may be the cause.
    pub locked_memory: bool,
    /// Another process has the interface, or its queues.
    pub held: bool,
}

/// A kind of device.
pub trait Backend: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// A receiving side of an open interface.
    type Rx: RxRing;
    /// Sees whether packets wait in a receiving side that somebody else uses.
    type Watch: RxWatch;
    /// A sending side of an open interface.
    type Tx: TxRing;
    /// Starts a transmission without a lock held.
    type Kick: Kick;
    /// Decides which packets come to us.
    type Steering: Steering;
    /// Sends what is to be cut into segments.
    type Segmenter: Segmenter;

    /// Opens an interface. Its rings take their frames from `pool`.
    fn open(
        &self,
        link: &LinkSpec,
        pool: &'static FramePool,
        rings: RingsMax,
    ) -> Result<Port<Self>, OpenError>;

    /// Has a broker give this process a part of an interface that it serves, or opens for it.
    /// `None`: there is no broker.
    fn join(
        &self,
        _link: &LinkSpec,
        _pool: &'static FramePool,
        _rings: RingsMax,
    ) -> Option<Result<Port<Self>, OpenError>> {
        None
    }

    /// Whether somebody listens whom [`join`](Self::join) asks.
    fn has_broker(&self) -> bool {
        false
    }

    /// The process is about to give up rights, and may [`join`](Self::join) so many interfaces
    /// later: has the broker know it as it is now. Returns whether there is one.
    fn reserve_places(&self, _count: usize) -> bool {
        false
    }

    /// How many threads the back-end has.
    fn threads(&self) -> u32 {
        0
    }

    /// Has the back-end's thread end, of which it may make another. Returns its number, if there is
    /// one.
    fn end_thread(&self) -> Option<libc::pid_t> {
        None
    }

    /// Whether a device can note the time at which it receives a packet, for the kernel to tell.
    /// `false` also if that is not known.
    fn has_clock(&self, _link: &LinkSpec) -> bool {
        false
    }

    /// Whether an interface is to be used in such a way that a driver which can shows that time to
    /// its rings, too.
    fn may_show_clock(&self, _link: &LinkSpec) -> bool {
        false
    }

    /// The way of connections into the queues of the kernel's listening sockets, for as long as
    /// what this returns lives.
    fn admission(&self) -> io::Result<Box<dyn Admission>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// For how many rings of an interface there is a use, at least one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingsMax {
    /// Sending sides.
    pub senders: u32,
    /// Receiving sides.
    pub receivers: u32,
}

impl RingsMax {
    /// One for each direction.
    pub const ONE: Self = Self {
        senders: 1,
        receivers: 1,
    };
}

/// A receiving side, with some of the interface's queues.
pub struct ReceivingSide<B: Backend> {
    /// Its rings.
    pub rx: B::Rx,
    /// For those who do not use them.
    pub watch: B::Watch,
    /// Descriptors that become readable when packets wait in it.
    pub wait_fds: Vec<Arc<OwnDescriptor>>,
    /// Number of queues that it serves.
    pub queues: u32,
}

/// Stands for no option: the socket is to be bound to the port of a listener of the process's.
pub const BIND: i32 = 200;

/// Sets an option of a socket, by its name's number, for a process that may not: `TCP_REPAIR`,
/// `SO_ATTACH_FILTER` to these instructions, or [`BIND`] to this `struct sockaddr`.
pub type SetOption = Box<dyn Fn(BorrowedFd<'_>, i32, &[u8]) -> io::Result<()> + Send + Sync>;

/// An open interface.
pub struct Port<B: Backend> {
    /// Receiving sides, at least one. Each packet comes through one of them, the packets of a flow
    /// through the same as a rule.
    pub receivers: Vec<ReceivingSide<B>>,
    /// Sending sides, at least one, and the system call behind each.
    pub senders: Vec<(B::Tx, B::Kick)>,
    /// Packet steering.
    pub steering: B::Steering,
    /// `None`: every segment goes through a sending side.
    pub segmenter: Option<B::Segmenter>,
    /// Whether received checksums may hold only the pseudo-header's sum (`CHECKSUM_PARTIAL`).
    pub partial_checksums: bool,
    /// How the port works, in a few words for logs and statistics, for example `xdp generic`.
    pub description: String,
    /// The largest IP packet in bytes that comes through its rings; larger ones are the kernel's.
    pub mtu_max: u32,
    /// What becomes of TCP segments that were merged into one, which may be longer than a frame.
    pub merging: Merging,
    /// What an operator should know of the choice behind it; mostly empty.
    pub note: String,
    /// Number of hardware or software queues that it serves.
    pub queues: u32,
    /// The broker's, if it is a broker's interface.
    pub set_option: Option<SetOption>,
    /// Raw sockets of IPv4 and, if there are two, of IPv6, for packets to this host: for a process
    /// that may open none.
    pub raw_sockets: Vec<OwnDescriptor>,
}

/// What becomes of TCP segments that a device or a kernel on the way has merged into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// There are none: segments are as they were on the wire.
    None,
    /// They come through the rings, in several frames if they are longer than one, of which all but
    /// the last [continue](Frame::continues). Their checksums hold the pseudo-header's sum only.
    InPieces,
    /// Some are the kernel's: a connection would be split between two stacks.
    LeftToKernel,
}

/// Sees a receiving side from outside, without a lock.
pub trait RxWatch: Send + Sync + 'static {
    /// Whether packets wait: if they do, a number that changes when its user has taken some. A
    /// packet waits until it has been handed to the sink of [`RxRing::poll`] and that call is about
    /// to end. When there is none, the caller sees all that the sinks have done with those that
    /// there were.
    fn waiting(&self) -> Option<u32>;
}

/// A receiving side of an interface.
pub trait RxRing: Send + 'static {
    /// Hands up to `budget` received frames to `sink`, oldest first, and the rest of a packet whose
    /// first frame was among them. Gives the device empty ones. Returns how many.
    fn poll(&mut self, pool: &FramePool, budget: usize, sink: impl FnMut(Frame)) -> usize;

    /// The same for every frame that waits at the beginning of the call, and few others: it ends,
    /// however fast more of them come.
    fn drain(&mut self, pool: &FramePool, sink: impl FnMut(Frame)) -> usize;

    /// When a frame came, in nanoseconds of `CLOCK_MONOTONIC`, if the device has noted it: see
    /// [`Steering::stamp_arrivals`]. What is read may be left from earlier.
    fn arrived_nsec(pool: &FramePool, frame: &Frame) -> Option<u64> {
        NotedTimes::of(pool, frame).map(|noted| noted.arrived_nsec)
    }

    /// The same by the device's own clock, whatever that counts from.
    fn device_nsec(pool: &FramePool, frame: &Frame) -> Option<u64> {
        NotedTimes::of(pool, frame)?.device_nsec
    }

    /// Whether more may come while nobody polls than usually waits: the device is to have all the
    /// empty frames that it can hold.
    fn expect_bursts(&mut self, _expected: bool) {}
}

/// A sending side of an interface.
pub trait TxRing: Send + 'static {
    /// An empty frame to be filled and passed to [`TxRing::push`]. `None`: the ring is full or the
    /// pool is empty.
    fn frame(&mut self, pool: &FramePool) -> Option<Frame>;

    /// Queues a frame that came from [`TxRing::frame`].
    fn push(&mut self, pool: &FramePool, frame: Frame);

    /// Takes back a frame that was not used after all.
    fn cancel(&mut self, frame: Frame);

    /// Whether the device waits for a [`Kick::kick`] before it sends.
    fn needs_kick(&self) -> bool;
}

/// What came of a kick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KickOutcome {
    /// The device took what it could.
    Done,
    /// The device is busy; frames are left in the ring and another kick is needed.
    Again,
    /// The interface is down (`ENETDOWN`); frames are left in the ring.
    Down,
    /// The device is gone.
    Lost,
}

/// Starts transmission.
pub trait Kick: Send + Sync + 'static {
    /// Tells the device that the sending ring has frames. Does not block. Leaves `errno` as it was.
    fn kick(&self) -> KickOutcome;
}

/// Sends TCP segments that lie behind each other in the stream as one packet, which the device
/// cuts, or the kernel for it (TSO). They go past the sending ring, and leave at once: what lies in
/// the ring leaves before them only if the device was told of it.
pub trait Segmenter: Send + Sync + 'static {
    /// Sends a packet: its `headers` up to the end of the TCP header, with the lengths of the whole
    /// and the pseudo header's sum as checksum, and the payload in its `parts`, of which each
    /// segment gets `segment_len` octets. Does not block.
    fn send<'a>(
        &self,
        headers: &[u8],
        parts: impl Iterator<Item = &'a [u8]>,
        segment_len: u16,
    ) -> Segmented;
}

/// What came of [`Segmenter::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmented {
    /// It is on its way, or lost as on any way.
    Sent,
    /// There is no room at present. Nothing was sent.
    Full,
    /// Nothing of the kind will ever be sent; with the system's error number.
    Refused(i32),
}

/// For devices that do not cut.
#[derive(Clone, Copy, Debug)]
pub enum NoSegmenter {}

impl Segmenter for NoSegmenter {
    fn send<'a>(
        &self,
        _headers: &[u8],
        _parts: impl Iterator<Item = &'a [u8]>,
        _segment_len: u16,
    ) -> Segmented {
        match *self {}
    }
}

/// Decides which packets of an interface come to the rings; all others stay with the kernel.
pub trait Steering: Send + Sync + 'static {
    /// Starts to steer a flow to the rings. One at the unspecified address, without a peer, has
    /// what comes to any of the [addresses](Steering::set_addresses) of the interface. After an
    /// error, [`Steering::remove`] takes back what has been done of it.
    fn add(&self, flow: &Flow) -> io::Result<()>;

    /// The same of all that comes to the port of a socket which other processes may have, too: each
    /// has its part of the peers, and a connection stays where it began. Where nobody else can have
    /// it this is [`Steering::add`].
    fn join(&self, flow: &Flow, _socket: BorrowedFd<'_>) -> io::Result<()> {
        self.add(flow)
    }

    /// Whether other processes can [join](Steering::join), too.
    fn is_joint(&self) -> bool {
        false
    }

    /// Whether all of these sockets, by their inodes, have [joined](Steering::join) at the port, in
    /// whichever processes.
    fn have_joined(&self, _flow: &Flow, _inodes: &[u64]) -> bool {
        false
    }

    /// To be called about once a second: what is steered for a while goes on to be so, whatever
    /// else comes.
    fn settle(&self) {}

    /// Has the device bring a flow's packets by one of the queues of this receiving side, until
    /// [`Steering::remove`] or the next time, if it can. They may come by any other even so.
    fn bring(&self, _flow: &Flow, _receiver: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Leaves the flow's packets to the kernel again. After an error they may still come to the
    /// rings.
    fn remove(&self, flow: &Flow) -> io::Result<()>;

    /// Which addresses the interface has from here on, of either version. After an error packets to
    /// earlier ones may still come to the rings.
    fn set_addresses(&self, _addresses: &[IpAddr]) -> io::Result<()> {
        Ok(())
    }

    /// Leaves the packets of one peer to the kernel although all that reaches their port is
    /// steered, except segments that open a connection (a SYN alone), until
    /// [`Steering::end_exemption`] or until the port is not steered any more. `Ok(false)`: the port
    /// is not, so nothing was done. After an error nothing was, either.
    fn exempt(&self, _flow: &Flow) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How many connections are [exempt](Steering::exempt).
    fn exemptions(&self) -> usize {
        0
    }

    /// Takes back [`Steering::exempt`]. After an error the flow's packets may still be the
    /// kernel's.
    fn end_exemption(&self, _flow: &Flow) -> io::Result<()> {
        Ok(())
    }

    /// The interface has another hardware address.
    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()>;

    /// The interface has these [carriers](crate::Upper::carriers) from here on.
    fn follow_carriers(&self, _carriers: &[Carrier]) {}

    /// To be called now and then. If nothing was steered since the last call, packets of others are
    /// not held up from here on by what steers them, until the next [`Steering::add`].
    fn rest_if_unused(&self);

    /// From here on this is to be noted of each frame when it comes. After an error it is what it
    /// was before.
    fn stamp_arrivals(&self, _noted: Noted) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What the device's clock and the system's show now.
    fn clock_sample(&self) -> io::Result<ClockSample> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether it rests; then the next [`Steering::add`] must come from a thread in the interface's
    /// own network namespace. If not, it does not before the second next call of
    /// [`Steering::rest_if_unused`].
    fn is_resting(&self) -> bool;

    /// Whether any flow is steered, so that the device is of use for more than sending.
    fn has_flows(&self) -> bool {
        true
    }

    /// Whether somebody else has ended the steering, so that every packet is the kernel's. Costs a
    /// system call.
    fn is_taken_away(&self) -> bool {
        false
    }

    /// Leaves every packet of the interface to the kernel for good. Works where the process has
    /// lost every privilege.
    fn give_back(&self);

    /// Gives the device up, if nothing is steered: another process may open the interface from here
    /// on, and each further [`Steering::add`] is an error. The caller has all rings, and uses none
    /// of them any more. `Ok(false)`: nothing has changed. After an error every packet is the
    /// kernel's, but others cannot open it.
    fn close_if_unused(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// The device was [taken away](Self::is_taken_away): lets go of what would keep others from
    /// opening it anew. The caller has all rings, and uses none of them any more.
    fn let_go(&self) -> io::Result<()> {
        Ok(())
    }

    /// The process is about to end: what it has asked of the device that outlives it is taken back,
    /// and it is not to be held up by the device's end.
    fn process_ends(&self) {}

    /// Packets of our flows that the device has dropped since it was opened, for lack of an empty
    /// frame or of room in a ring.
    fn dropped(&self) -> u64;
}
