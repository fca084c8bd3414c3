//! The XDP program on an interface: there while it is needed, away while nothing is steered, away
//! for good when the interface is given up.
//!
//! The generic path makes room in front of each packet before it runs a program, which costs as
//! much as a small packet does otherwise. A process that has opened its sockets and left them to
//! its children would slow them down for nothing.

use std::io;

use dev_core::{ClockSample, Noted};

use crate::bpf::driver_time::DriverTime;
use crate::bpf::link::{AttachMode, XdpLink};
use crate::bpf::program::{Capacity, FlowMaps, OnMatch, Program};
use crate::ethtool;
use crate::metadata_source::MetadataSource;
use crate::ptp::PtpClock;

/// An interface, and what its program is made of.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) maps: FlowMaps,
    pub(crate) metadata: MetadataSource,
    pub(crate) ifindex: u32,
    pub(crate) mode: AttachMode,
    pub(crate) capacity: Capacity,
    pub(crate) mac: [u8; 6],
    /// What is in front of each packet.
    pub(crate) noted: Noted,
    /// The interface's name when it was opened.
    pub(crate) name: String,
}

/// An attachment that has begun.
#[derive(Debug)]
pub(crate) struct Attached {
    parts: Attachment,
    link: XdpLink,
    state: State,
    /// Once it was asked for.
    clock: Option<PtpClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Attached,
    Resting,
    GivenBack,
    /// Others may have the interface.
    Closed,
}

impl Attachment {
    /// Loads the program.
    fn program(&self) -> io::Result<Program> {
        let hidden = self.metadata.hidden();
        let on_match = match self.noted {
            Noted::Nothing => OnMatch::Redirect,
            Noted::Time => OnMatch::RedirectStamped,
            Noted::DeviceTime => OnMatch::RedirectStampedByDevice(DriverTime::find(self.ifindex)?),
        };
        let program = Program::load(&self.maps, self.mac, self.capacity, on_match, hidden);
        Ok(program?)
    }
}

impl Attached {
    /// `link`: of a program that was made of `parts`.
    pub(crate) fn new(parts: Attachment, link: XdpLink) -> Self {
        Self {
            parts,
            link,
            state: State::Attached,
            clock: None,
        }
    }

    pub(crate) fn maps(&self) -> &FlowMaps {
        &self.parts.maps
    }

    /// Takes the program away until it is [needed](Self::resume) again. Not in native mode: there
    /// drivers set up their rings anew for that, and some do not send from AF_XDP sockets without a
    /// program.
    pub(crate) fn rest(&mut self) {
        if self.state == State::Attached && self.parts.mode == AttachMode::Generic {
            self.detach();
            self.state = State::Resting;
        }
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.state == State::Resting
    }

    /// Whether an administrator has detached the program (`bpftool link detach`), or the interface
    /// is gone.
    pub(crate) fn is_taken_away(&self) -> bool {
        self.state == State::Attached && self.link.is_detached()
    }

    /// Puts the program back. In the interface's network namespace: there its index means what it
    /// meant.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        match self.state {
            State::Attached | State::GivenBack => return Ok(()),
            State::Closed => return Err(io::ErrorKind::NotConnected.into()),
            State::Resting => {}
        }
        self.parts
            .metadata
            .begin_again()
            .map_err(io::Error::other)?;
        let attached = self.parts.program().and_then(|program| {
            let Attachment { ifindex, mode, .. } = self.parts;
            self.link
                .attach_again(&program, ifindex, mode)
                .map_err(io::Error::other)
        });
        if attached.is_ok() {
            self.state = State::Attached;
        } else {
            self.parts.metadata.end();
        }
        attached
    }

    /// The interface has another hardware address.
    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) -> io::Result<()> {
        // The address is part of the program.
        let before = std::mem::replace(&mut self.parts.mac, mac);
        self.update().inspect_err(|_| self.parts.mac = before)
    }

    /// The program is to put this in front of each packet.
    pub(crate) fn stamp(&mut self, noted: Noted) -> io::Result<()> {
        if noted == Noted::DeviceTime && self.parts.mode == AttachMode::Generic {
            return Err(io::Error::other("only drivers know it, in native mode"));
        }
        let before = std::mem::replace(&mut self.parts.noted, noted);
        if before == noted {
            return Ok(());
        }
        self.update().inspect_err(|_| self.parts.noted = before)
    }

    /// What the device's clock and the system's show now.
    pub(crate) fn clock_sample(&mut self) -> io::Result<ClockSample> {
        if self.clock.is_none() {
            let number = ethtool::clock(&self.parts.name)
                .ok_or_else(|| io::Error::other("the device has no clock that can be read"))?;
            self.clock = Some(PtpClock::open(number)?);
        }
        match &self.clock {
            Some(clock) => clock.sample(),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The program is to be made anew.
    fn update(&self) -> io::Result<()> {
        if self.state != State::Attached {
            return Ok(());
        }
        let program = self.parts.program()?;
        Ok(self.link.update(&program)?)
    }

    /// Takes the program away for good.
    pub(crate) fn give_back(&mut self) {
        if self.state == State::Attached {
            self.detach();
        }
        if self.state != State::Closed {
            self.state = State::GivenBack;
        }
    }

    /// The same, and nothing can be steered any more.
    pub(crate) fn close(&mut self) {
        self.give_back();
        self.state = State::Closed;
    }

    /// Needs no right but that to a descriptor.
    fn detach(&self) {
        self.link.detach(self.parts.maps.stand_in());
        self.parts.metadata.end();
    }
}
