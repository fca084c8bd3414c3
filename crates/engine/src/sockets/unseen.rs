//! Packets that a function of the program's is to see before its calls do (VMA's extra API). Who
//! delivers one leaves it in its socket, unseen, and the socket in a list here. A thread of the
//! program's shows it in a call that receives or waits, where no lock is held: it may take its
//! time, and use sockets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use dev_core::{Lock, ThreadMode};
use libc::c_int;
use links::Receiver;
use links::interface::set::InterfaceSet;

use crate::sockets::channels::Channels;
use crate::sockets::events;

/// A function of the program's, and what it is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Its address.
    pub function: usize,
    /// An argument of the program's choice.
    pub context: usize,
}

/// What the function wants to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is gone.
    Drop,
    /// It is received as usual.
    Receive,
    /// It is the program's until that gives it back.
    Hold,
}

/// A packet that is to be shown. It stays where it is until it is settled what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<S> {
    /// Who is to see it.
    pub callback: Callback,
    /// What it is given back by if it is held.
    pub id: usize,
    /// A descriptor of the socket.
    pub fd: c_int,
    /// Where its octets are.
    pub data: *const u8,
    /// How many.
    pub len: usize,
    /// Who has sent it.
    pub source: SocketAddr,
    /// Whom to.
    pub destination: SocketAddr,
    /// What waits in the socket, and was seen.
    pub ready_packets: u32,
    /// The octets of that.
    pub ready_bytes: u32,
    /// When it came, since 1970, if the socket asks for that; else 0.
    pub stamp_nsec: u64,
    /// The same by the device's clock.
    pub device_nsec: u64,
    pub(crate) socket: S,
    pub(crate) generation: u32,
    /// Which of the socket's runs of the function it is.
    pub(crate) run: u32,
}

/// Whether what has come to a socket may be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nobody is to see it first.
    #[default]
    Open,
    /// What there is was seen.
    Passed,
    /// What comes is to be seen first.
    Shut,
    /// Something has come, and the socket is in the list.
    Listed,
    /// A thread shows a packet, in the run of this number.
    Running(u32),
}

impl Gate {
    /// Whether what there is may not be read.
    #[inline]
    pub(crate) fn hides(self) -> bool {
        !matches!(self, Self::Open | Self::Passed)
    }
}

/// Packets that are being shown, one of each run: also past the socket's end.
#[derive(Debug)]
pub(crate) struct InFlight<P> {
    runs: u32,
    packets: Vec<(u32, P)>,
}

impl<P> Default for InFlight<P> {
    fn default() -> Self {
        Self {
            runs: 0,
            packets: Vec::new(),
        }
    }
}

impl<P> InFlight<P> {
    /// Returns the number of the run.
    pub(crate) fn begin(&mut self, packet: P) -> u32 {
        self.runs = self.runs.wrapping_add(1);
        self.packets.push((self.runs, packet));
        self.runs
    }

    /// `None`: it was ended before.
    pub(crate) fn end(&mut self, run: u32) -> Option<P> {
        let place = self.packets.iter().position(|(of, _)| *of == run)?;
        Some(self.packets.swap_remove(place).1)
    }

    pub(crate) fn of(&self, run: u32) -> Option<&P> {
        let mut packets = self.packets.iter();
        packets.find_map(|(of, packet)| (*of == run).then_some(packet))
    }
}

/// What a socket knows of it: whether it is shown what comes, and the list.
#[derive(Debug)]
pub(crate) struct ShownSocket<S: Receiver> {
    is_shown: AtomicBool,
    /// SocketXtreme: it is in the list of its ring.
    is_listed: AtomicBool,
    /// The program holds a packet since a call was last told of the socket.
    has_held: AtomicBool,
    /// Of what the socket is ready for, what the program has been told.
    pub(crate) reported: AtomicU32,
    /// What completions carry.
    pub(crate) user_data: AtomicU64,
    /// `SO_VMA_FLOW_TAG`
    pub(crate) flow_tag: AtomicU32,
    unseen: &'static Unseen<S>,
}

impl<S: Receiver> Deref for ShownSocket<S> {
    type Target = Unseen<S>;

    #[inline]
    fn deref(&self) -> &Unseen<S> {
        self.unseen
    }
}

impl<S: Receiver> ShownSocket<S> {
    pub(crate) fn new(unseen: &'static Unseen<S>) -> Self {
        Self {
            is_shown: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
            has_held: AtomicBool::new(false),
            reported: AtomicU32::new(0),
            user_data: AtomicU64::new(0),
            flow_tag: AtomicU32::new(0),
            unseen,
        }
    }

    /// The socket begins a life, at a descriptor.
    pub(crate) fn begin(&self, fd: c_int) {
        self.is_shown.store(self.is_xtreme(), Ordering::Relaxed);
        self.is_listed.store(false, Ordering::Relaxed);
        self.has_held.store(false, Ordering::Relaxed);
        self.reported.store(0, Ordering::Relaxed);
        self.flow_tag.store(0, Ordering::Relaxed);
        self.user_data
            .store(fd.cast_unsigned().into(), Ordering::Relaxed);
    }

    /// Puts the socket into the list of its ring, once.
    pub(crate) fn list(&self, socket: S, generation: u32, interfaces: &InterfaceSet<S>) {
        if !self.is_listed.swap(true, Ordering::AcqRel) {
            self.unseen.add(socket, generation, interfaces);
        }
    }

    /// It was taken out of the list: what comes from here on puts it back.
    pub(crate) fn leaves_list(&self) {
        self.is_listed.swap(false, Ordering::AcqRel);
    }

    /// The program holds a packet: a call that waits for the socket is told of it, as if there were
    /// something to read.
    pub(crate) fn note_held(&self) {
        self.has_held.store(true, Ordering::Release);
    }

    /// What there is to tell of that.
    #[inline]
    pub(crate) fn held(&self) -> u32 {
        match self.has_held.load(Ordering::Relaxed) {
            true => events::IN,
            false => 0,
        }
    }

    /// The same, once, to a call that wants this.
    #[cold]
    pub(crate) fn tell_held(&self, wanted: u32) -> u32 {
        if wanted & events::IN != 0 && self.has_held.swap(false, Ordering::AcqRel) {
            return wanted & events::IN;
        }
        0
    }

    /// Whether a function of the program's is to see what comes.
    #[inline]
    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown.load(Ordering::Relaxed)
    }

    pub(crate) fn show(&self, is_shown: bool) {
        self.is_shown.store(is_shown, Ordering::Relaxed);
        if is_shown {
            self.unseen.is_used.store(true, Ordering::Relaxed);
        }
    }
}

/// The list of sockets with unseen packets, each with the life in which they came.
#[derive(Debug)]
pub(crate) struct Unseen<S: Receiver> {
    count: AtomicU32,
    /// Somebody has asked to see packets.
    is_used: AtomicBool,
    sockets: Lock<VecDeque<(S, u32)>>,
    /// SocketXtreme: the program takes packets and events by rings.
    is_xtreme: bool,
    /// Its rings, as it knows them.
    channels: Channels<S>,
}

impl<S: Receiver> Unseen<S> {
    pub(crate) fn new(mode: ThreadMode, is_xtreme: bool) -> Self {
        Self {
            is_xtreme,
            channels: Channels::new(mode),
            count: AtomicU32::new(0),
            is_used: AtomicBool::new(false),
            sockets: Lock::new(mode, VecDeque::new()),
        }
    }

    /// Whether there are any. One load, in every round of polling.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// The same for a thread that is about to sleep, and has said where it is woken: what comes
    /// later wakes it.
    #[inline]
    pub(crate) fn has_any_before_sleep(&self) -> bool {
        self.is_used.load(Ordering::Relaxed) && !self.sockets.lock().is_empty()
    }

    /// Whether anybody has asked to see packets.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Whether the program takes packets and events by rings.
    #[inline]
    pub(crate) fn is_xtreme(&self) -> bool {
        self.is_xtreme
    }

    /// The rings of a program that takes packets by them.
    pub(crate) fn channels(&self) -> Option<&Channels<S>> {
        self.is_xtreme.then_some(&self.channels)
    }

    /// The rings that the program knows.
    pub(crate) fn rings(&self) -> &Channels<S> {
        &self.channels
    }

    /// The caller wakes sleepers afterwards. `interfaces`: those of the socket.
    pub(crate) fn add(&self, socket: S, generation: u32, interfaces: &InterfaceSet<S>) {
        if let Some(channels) = self.channels() {
            let home = interfaces.iter_rings().next();
            let channel = home.and_then(|(interface, rings)| channels.of(interface, rings));
            return channel
                .into_iter()
                .for_each(|channel| channel.add(socket, generation));
        }
        let mut sockets = self.sockets.lock();
        sockets.push_back((socket, generation));
        self.count.store(sockets.len() as u32, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Option<(S, u32)> {
        let mut sockets = self.sockets.lock();
        let first = sockets.pop_front();
        self.count.store(sockets.len() as u32, Ordering::Relaxed);
        first
    }
}
