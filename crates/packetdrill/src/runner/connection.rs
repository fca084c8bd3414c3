//! The numbers of the connection under test: relative in the script, absolute on the wire.

use std::collections::HashMap;

use crate::script::{TcpOption, TcpSegment, flags};
use crate::stack::{Segment, Setup, octet};

/// The first port of the peer that the script plays; each passive connection has another.
const FIRST_REMOTE_PORT: u16 = 53_055;

/// One connection at a time, as in the original: the one of the last `connect`, or of the last SYN
/// that arrived after the last `listen`.
pub(super) struct Connection {
    bind_port: u16,
    base_isn: u32,
    phase: Phase,
    next_remote_port: u16,
    local_port: u16,
    remote_port: u16,
    /// Of the script's SYN and of the wire's.
    local: Isn,
    remote: Isn,
    has_remote_isn: bool,
    /// The script has named ports: there is another connection beside this one.
    has_company: bool,
    /// From the script's timestamps that were sent to the wire's.
    timestamps: HashMap<u32, u32>,
    /// The first of them.
    first_timestamp: Option<(u32, u32)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next SYN that arrives makes a connection.
    Listening,
    /// The next SYN that is sent makes a connection.
    Connecting,
    Known,
}

#[derive(Clone, Copy, Default)]
struct Isn {
    script: u32,
    wire: u32,
}

impl Isn {
    /// Numbers of a SYN are the script's own, those of other segments are relative to the initial
    /// one.
    fn to_wire(self, number: u32, is_syn: bool) -> u32 {
        let number = number.wrapping_add(self.wire);
        if is_syn {
            number.wrapping_sub(self.script)
        } else {
            number
        }
    }

    fn to_script(self, number: u32, is_syn: bool) -> u32 {
        let number = number.wrapping_sub(self.wire);
        if is_syn {
            number.wrapping_add(self.script)
        } else {
            number
        }
    }
}

impl Connection {
    pub(super) fn new(setup: &Setup, base_isn: u32) -> Self {
        Self {
            bind_port: setup.bind_port,
            base_isn,
            phase: Phase::Listening,
            next_remote_port: FIRST_REMOTE_PORT,
            local_port: setup.bind_port,
            remote_port: FIRST_REMOTE_PORT,
            local: Isn::default(),
            remote: Isn::default(),
            has_remote_isn: false,
            has_company: false,
            timestamps: HashMap::new(),
            first_timestamp: None,
        }
    }

    /// The program listens.
    pub(super) fn listens(&mut self) {
        self.phase = Phase::Listening;
    }

    /// The program connects.
    pub(super) fn connects(&mut self) {
        self.phase = Phase::Connecting;
    }

    pub(super) fn local_isn(&self) -> u32 {
        self.local.wire
    }

    pub(super) fn local_seq(&self, script: u32) -> u32 {
        self.local.to_wire(script, false)
    }

    /// Local and remote port.
    pub(super) fn ports(&self) -> (u16, u16) {
        (self.local_port, self.remote_port)
    }

    fn begin(&mut self, local_port: u16, remote_port: u16) {
        self.phase = Phase::Known;
        (self.local_port, self.remote_port) = (local_port, remote_port);
        (self.local, self.remote) = (Isn::default(), Isn::default());
        self.has_remote_isn = false;
        self.timestamps.clear();
        self.first_timestamp = None;
    }

    /// Whether a segment that is sent may be of this connection.
    pub(super) fn has(&self, segment: &Segment) -> bool {
        if self.has_company {
            return true;
        }
        match self.phase {
            Phase::Connecting => segment.flags & flags::SYN != 0 && segment.flags & flags::ACK == 0,
            Phase::Known => self.ports() == (segment.source, segment.destination),
            Phase::Listening => true,
        }
    }

    /// Takes ports and initial numbers from a SYN that is sent.
    pub(super) fn learn(&mut self, wanted: &TcpSegment, segment: &Segment) {
        if segment.flags & flags::SYN == 0 {
            return;
        }
        if self.phase == Phase::Connecting {
            self.begin(segment.source, segment.destination);
        }
        self.local = Isn {
            script: wanted.seq,
            wire: segment.seq,
        };
    }

    /// A segment of the script that arrives, as on the wire.
    pub(super) fn segment_on_wire(
        &mut self,
        script: &TcpSegment,
        tos: u8,
    ) -> Result<Segment, String> {
        let is_syn = script.flags & flags::SYN != 0;
        let has_ack = script.flags & flags::ACK != 0;
        if is_syn && !has_ack && self.phase == Phase::Listening {
            let port = self.next_remote_port;
            self.next_remote_port += 1;
            self.begin(self.bind_port, port);
        }
        // Later SYNs of the connection have other numbers or the same; neither is its initial one.
        if is_syn && !self.has_remote_isn {
            self.has_remote_isn = true;
            self.remote = Isn {
                script: script.seq,
                wire: script.seq.wrapping_add(self.base_isn),
            };
        }
        self.has_company |= script.ports.is_some();
        let (source, destination) = script.ports.unwrap_or((0, 0));
        let or_own = |port, own| if port == 0 { own } else { port };
        let mut options = script.options.clone().unwrap_or_default();
        for option in &mut options {
            match option {
                TcpOption::Sack(blocks) => {
                    for (left, right) in blocks {
                        *left = self.local.to_wire(*left, is_syn);
                        *right = self.local.to_wire(*right, is_syn);
                    }
                }
                TcpOption::Timestamp { ecr, .. } if has_ack => *ecr = self.echo(*ecr)?,
                _ => {}
            }
        }
        let seq = self.remote.to_wire(script.seq, is_syn);
        let position = seq
            .wrapping_sub(self.remote.wire)
            .wrapping_sub(u32::from(!is_syn));
        Ok(Segment {
            source: or_own(source, self.remote_port),
            destination: or_own(destination, self.local_port),
            seq,
            ack: if has_ack {
                self.local.to_wire(script.ack, is_syn)
            } else {
                script.ack
            },
            flags: script.flags | script.ace.map_or(0, |ace| (ace & 3) << 6),
            ae: script.ace.is_some_and(|ace| ace & 4 != 0),
            window: script.window.unwrap_or(0),
            urgent: script.urgent,
            options,
            payload: (0..u32::from(script.len))
                .map(|n| octet(position.wrapping_add(n)))
                .collect(),
            tos,
        })
    }

    /// The wire's timestamp for the script's `ecr`: the one that was sent, or as far from the
    /// first.
    fn echo(&self, ecr: u32) -> Result<u32, String> {
        if let Some(sent) = self.timestamps.get(&ecr) {
            return Ok(*sent);
        }
        match self.first_timestamp {
            Some((script, wire)) => Ok(ecr.wrapping_sub(script).wrapping_add(wire)),
            None => Err(format!("ecr {ecr} before any timestamp was sent")),
        }
    }

    /// A segment that is sent, in the script's numbers.
    pub(super) fn to_script(&self, segment: &Segment) -> Segment {
        let is_syn = segment.flags & flags::SYN != 0;
        let mut script = segment.clone();
        script.seq = self.local.to_script(segment.seq, is_syn);
        if segment.flags & flags::ACK != 0 {
            script.ack = self.remote.to_script(segment.ack, is_syn);
        }
        for option in &mut script.options {
            if let TcpOption::Sack(blocks) = option {
                for (left, right) in blocks {
                    *left = self.remote.to_script(*left, is_syn);
                    *right = self.remote.to_script(*right, is_syn);
                }
            }
        }
        script
    }

    /// Notes which timestamp the script gives to `actual`'s, puts the script's numbers in `actual`,
    /// and tells by how many ticks they differ, if both have timestamps.
    pub(super) fn map_timestamp(
        &mut self,
        wanted: &TcpSegment,
        actual: &mut Segment,
    ) -> Option<u32> {
        let is_timestamp = |option: &&TcpOption| matches!(option, TcpOption::Timestamp { .. });
        let wanted = wanted.options.iter().flatten().find(is_timestamp)?;
        let TcpOption::Timestamp { val: script, .. } = *wanted else {
            return None;
        };
        let actual = actual.options.iter_mut().find_map(|option| match option {
            TcpOption::Timestamp { val, .. } => Some(val),
            _ => None,
        })?;
        let (first_script, first_wire) = *self.first_timestamp.get_or_insert((script, *actual));
        self.timestamps.insert(script, *actual);
        *actual = first_script.wrapping_add(actual.wrapping_sub(first_wire));
        let ticks = actual.wrapping_sub(script).cast_signed().unsigned_abs();
        // Compared by the caller, who knows the tolerance.
        *actual = script;
        Some(ticks)
    }
}
