//! Moving a connection from one stack to another: all that the peer can notice of it, as
//! `TCP_REPAIR` takes and gives it (kernel `net/ipv4/tcp.c`, `do_tcp_setsockopt`; CRIU's `soccr` is
//! its user).

use std::sync::Arc;

use wire::tcp::MAX_WINDOW_SCALE;

use super::{Connection, settings};
use crate::receive::urgent::UrgentOctet;
use crate::recovery::Recovery;
use crate::send::queue::SendQueue;
use crate::{
    Config, Error, Instant, Options, Path, Payload, Secrets, SeqNumber, State, WindowScales,
};

/// The state of a connection.
///
/// Data that arrived out of order is not part of it, and the peer sends it again (RFC 2018 §8).
/// Round-trip times, the congestion window and losses are not, either: the next stack measures
/// anew. All as with `TCP_REPAIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<P> {
    pub state: State,
    pub options: Options,
    pub snd_una: SeqNumber,
    /// Up to here, FIN included, everything was sent.
    pub snd_nxt: SeqNumber,
    /// Everything written from `snd_una` on, sent or not (`TCP_SEND_QUEUE`).
    pub unacknowledged: Vec<u8>,
    /// The next sequence number expected: behind FIN if that has arrived (`TCP_RECV_QUEUE`'s
    /// `TCP_QUEUE_SEQ`).
    pub rcv_nxt: SeqNumber,
    /// What was not read; it ends at `rcv_nxt`, or at the FIN before that.
    pub unread: Vec<P>,
    /// The urgent octet that was not passed yet. No repair takes it, and [`Connection::import`]
    /// does not: it has to be announced again.
    pub urgent: Option<UrgentOctet>,
    /// `struct tcp_repair_window`
    pub window: RepairWindow,
    /// The MSS that the peer announced (`TCPOPT_MAXSEG`).
    pub peer_mss: u16,
    /// `TCPOPT_WINDOW`; `None` if there is no scaling.
    pub window_scales: Option<WindowScales>,
    /// `TCPOPT_SACK_PERM`
    pub has_sack: bool,
    /// Both sides agreed to ECN (`TCPI_OPT_ECN`): without, a mark that the network puts on the
    /// peer's data would not be echoed. A kernel tells, but takes no such thing.
    pub has_ecn: bool,
    /// `TCPOPT_TIMESTAMP`; `None` without timestamps.
    pub timestamps: Option<RepairTimestamps>,
}

// kernel `include/net/tcp.h`
const TCPOPT_MAXSEG: u32 = 2;
const TCPOPT_WINDOW: u32 = 3;
const TCPOPT_SACK_PERM: u32 = 4;
const TCPOPT_TIMESTAMP: u32 = 8;

impl<P> Snapshot<P> {
    /// What `TCP_REPAIR_OPTIONS` takes, one after the other: `struct tcp_repair_opt`, an option's
    /// number and value.
    pub fn repair_options(&self) -> Vec<[u32; 2]> {
        let mut options = vec![[TCPOPT_MAXSEG, u32::from(self.peer_mss)]];
        if let Some(scales) = self.window_scales {
            let both = u32::from(scales.snd) | u32::from(scales.rcv) << 16;
            options.push([TCPOPT_WINDOW, both]);
        }
        if self.has_sack {
            options.push([TCPOPT_SACK_PERM, 0]);
        }
        if self.timestamps.is_some() {
            options.push([TCPOPT_TIMESTAMP, 0]);
        }
        options
    }

    /// What `TCP_REPAIR_WINDOW` takes: `struct tcp_repair_window`, in octets. To the kernel a FIN
    /// of the peer is yet to come.
    pub fn repair_window(&self) -> [u32; 5] {
        let window = &self.window;
        let fin = u32::from(self.state.has_peer_fin() && window.rcv_wup == self.rcv_nxt);
        [
            window.snd_wl1.0,
            window.snd_wnd,
            window.max_window,
            window.rcv_wnd.saturating_add(fin),
            (window.rcv_wup - fin).0,
        ]
    }
}

/// `TCP_REPAIR_WINDOW`, in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairWindow {
    pub snd_wl1: SeqNumber,
    pub snd_wnd: u32,
    pub max_window: u32,
    pub rcv_wnd: u32,
    pub rcv_wup: SeqNumber,
}

impl From<[u32; 5]> for RepairWindow {
    /// What `TCP_REPAIR_WINDOW` returns: `struct tcp_repair_window`.
    fn from([snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup]: [u32; 5]) -> Self {
        Self {
            snd_wl1: SeqNumber(snd_wl1),
            snd_wnd,
            max_window,
            rcv_wnd,
            rcv_wup: SeqNumber(rcv_wup),
        }
    }
}

/// The timestamps option's clock (`TCP_TIMESTAMP`), and what the peer's showed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairTimestamps {
    /// `TSval` at the time of the snapshot.
    pub value: u32,
    /// `TS.Recent`; 0 if it is not known, as from a kernel, which does not tell. Then the next
    /// segment's is taken.
    pub recent: u32,
}

/// What is left of a connection in TIME-WAIT or CLOSED, for whoever has its socket: no peer will
/// hear of it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains<P> {
    /// What was not read.
    pub unread: Vec<P>,
    /// The peer has sent everything: what was read ends without an error.
    pub has_peer_fin: bool,
    /// What nobody has fetched yet.
    pub error: Option<Error>,
    /// Behind everything that came, the peer's FIN included.
    pub rcv_nxt: SeqNumber,
    /// Behind everything that was sent.
    pub snd_nxt: SeqNumber,
    /// The peer has answered the SYN.
    pub had_peer: bool,
}

/// The parts of a snapshot contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSnapshot;

impl<P: Payload> Connection<P> {
    /// Takes the connection out of this stack; nothing is sent for it any more. `None` if there is
    /// nothing to continue: before the handshake is over, in TIME-WAIT and in CLOSED.
    pub fn export(mut self, now: Instant) -> Option<Snapshot<P>> {
        if !self.state.is_exportable() {
            return None;
        }
        let sender = &self.sender;
        let receiver = &mut self.receiver;
        let len = u32::try_from(sender.queue.len()).unwrap_or(u32::MAX);
        let pieces = sender.queue.slices(sender.queue.start(), len);
        let unacknowledged = pieces.collect::<Vec<_>>().concat();
        let unread = receiver.queue.take_all();
        Some(Snapshot {
            state: self.state,
            snd_una: sender.snd_una,
            snd_nxt: sender.snd_nxt,
            unacknowledged,
            rcv_nxt: receiver.rcv_nxt,
            unread,
            urgent: receiver.urgent.announced(),
            window: RepairWindow {
                snd_wl1: sender.snd_wl1(),
                snd_wnd: sender.snd_wnd,
                max_window: sender.max_wnd,
                rcv_wnd: receiver.window.offered(),
                rcv_wup: receiver.window.offered_from(),
            },
            peer_mss: self.cold.handshake.peer_mss,
            window_scales: self
                .cold
                .handshake
                .has_window_scaling
                .then(|| WindowScales {
                    snd: sender.scale,
                    rcv: receiver.window.scale(),
                }),
            has_sack: self.cold.handshake.has_sack,
            has_ecn: self.ecn.is_on,
            timestamps: self.timestamps.is_on().then(|| RepairTimestamps {
                value: self.timestamps.value(now),
                recent: self.timestamps.recent,
            }),
            options: Options {
                receive_buffer: receiver.window.buffer(),
                ..self.cold.options
            },
        })
    }

    /// Takes out what [`export`](Self::export) does not: what is left of a connection that is over.
    /// `None` in other states.
    pub fn take_remains(&mut self) -> Option<Remains<P>> {
        if !matches!(self.state, State::TimeWait | State::Closed) {
            return None;
        }
        Some(Remains {
            unread: self.receiver.queue.take_all(),
            has_peer_fin: self.receiver.has_received_fin(),
            error: self.error.take(),
            rcv_nxt: self.receiver.rcv_nxt,
            snd_nxt: self.sender.snd_nxt,
            // Each SYN says one, or it is known what that means.
            had_peer: self.cold.handshake.peer_mss > 0,
        })
    }

    /// Goes on with a connection that another stack began.
    ///
    /// # Errors
    /// The snapshot's parts contradict each other.
    pub fn import(
        now: Instant,
        config: Arc<Config>,
        path: Path,
        snapshot: Snapshot<P>,
    ) -> Result<Self, InvalidSnapshot> {
        check(&snapshot)?;
        let secrets = Secrets {
            iss: snapshot.snd_una - 1,
            timestamp_offset: 0,
        };
        let mut connection = Self::closed(now, config, snapshot.options.clone(), path, secrets);
        connection.state = snapshot.state;
        connection.cold.handshake.peer_mss = snapshot.peer_mss.max(1);
        connection.cold.handshake.has_sack = snapshot.has_sack;
        connection.ecn.is_on = snapshot.has_ecn;
        connection.cold.handshake.has_window_scaling = snapshot.window_scales.is_some();
        if let Some(timestamps) = snapshot.timestamps {
            connection.timestamps.turn_on();
            connection.timestamps.offset = timestamps
                .value
                .wrapping_sub(connection.timestamps.value(now));
            connection.timestamps.update(now, timestamps.recent);
        }
        connection.import_receiver(now, &snapshot);
        connection.import_sender(now, &snapshot);
        for payload in snapshot.unread {
            connection.receiver.queue.push(payload, false);
        }
        if !snapshot.unacknowledged.is_empty() {
            connection.measure_busy(now);
        }
        connection.grow_send_buffer(0);
        connection.restart_keep_alive(now);
        // The other stack may have delayed an acknowledgement, which nobody else will send.
        if connection.receiver.rcv_nxt > connection.receiver.window.offered_from() {
            connection.receiver.acks.owe_one();
        }
        Ok(connection)
    }

    fn import_receiver(&mut self, now: Instant, snapshot: &Snapshot<P>) {
        let mss = self.received_mss();
        let receiver = &mut self.receiver;
        receiver.rcv_nxt = snapshot.rcv_nxt;
        self.cold.handshake.irs = snapshot.rcv_nxt - 1;
        self.cold.received.start(snapshot.rcv_nxt);
        receiver.queue.clear();
        if snapshot.state.has_peer_fin() {
            receiver.set_fin(snapshot.rcv_nxt - 1);
        }
        let window = &snapshot.window;
        let scale = snapshot.window_scales.map_or(0, |scales| scales.rcv);
        let is_scaling = snapshot.window_scales.is_some();
        receiver
            .window
            .on_established(now, snapshot.rcv_nxt, is_scaling, mss);
        receiver.window.restore(
            scale,
            promised_window(snapshot),
            window.rcv_wup,
            &self.cold.options,
        );
        if !self.cold.options.is_receive_buffer_locked {
            // What was promised to the peer has to find room, beside what waits to be read.
            let unread: usize = snapshot.unread.iter().map(|data| data.as_ref().len()).sum();
            let unread = u32::try_from(unread).unwrap_or(u32::MAX);
            let needed = unread.saturating_add(window.rcv_wnd).saturating_mul(2);
            let buffer = needed.max(snapshot.options.receive_buffer);
            receiver.window.widen(
                buffer.min(self.config.receive_buffer_max),
                &self.cold.options,
            );
        }
    }

    fn import_sender(&mut self, now: Instant, snapshot: &Snapshot<P>) {
        let is_fin_acked = is_fin_acknowledged(snapshot.state);
        if !self.cold.options.is_send_buffer_locked {
            let buffer = snapshot.options.send_buffer;
            self.cold.options.send_buffer = buffer.clamp(
                self.cold.options.send_buffer,
                self.config
                    .send_buffer_max
                    .max(self.cold.options.send_buffer),
            );
        }
        let sender = &mut self.sender;
        sender.snd_una = snapshot.snd_una;
        sender.scale = snapshot.window_scales.map_or(0, |scales| scales.snd);
        // `SND.WL1` must not be beyond what the peer may send, or all its window updates would
        // count as old.
        let window_end = snapshot.window.rcv_wup + promised_window(snapshot);
        let snd_wl1 = snapshot.window.snd_wl1.min(window_end);
        // Nor so far behind that what comes seems to be older: kernels before Linux 5.10 leave it
        // behind while they only receive.
        let oldest = snapshot.rcv_nxt - WINDOW_MAX;
        let snd_wl1 = snd_wl1.max(oldest);
        sender.start_window(snd_wl1, snapshot.window.snd_wnd);
        sender.max_wnd = sender.max_wnd.max(snapshot.window.max_window);
        sender.queue = SendQueue::new(snapshot.snd_una - u32::from(is_fin_acked));
        sender.queue.push(&snapshot.unacknowledged);
        sender.is_fin_queued = snapshot.state.has_fin();
        sender.snd_nxt = snapshot.snd_nxt;
        let mss = u32::from(self.mss());
        let settings = settings(&self.config, &self.cold.options, mss, snapshot.has_sack);
        self.cold.recovery =
            Recovery::new(settings, self.cold.recovery.rtt.clone(), snapshot.snd_una);
        // What was sent is taken as sent at this moment: it is not acknowledged, or lost, before a
        // timeout says so.
        let in_flight = snapshot.snd_nxt - snapshot.snd_una;
        if in_flight > 0 {
            let is_fin_sent = self.sender.is_fin_sent();
            let octets = in_flight.saturating_sub(u32::from(is_fin_sent));
            self.cold
                .recovery
                .on_sent(snapshot.snd_una, octets, is_fin_sent, now);
        }
        self.follow_recovery();
    }
}

/// The largest window that there is: nothing older can come.
const WINDOW_MAX: u32 = (u16::MAX as u32) << MAX_WINDOW_SCALE;

/// The part of `RCV.WND` that a header can express. More would be taken back with the next segment.
fn promised_window<P>(snapshot: &Snapshot<P>) -> u32 {
    let scale = snapshot.window_scales.map_or(0, |scales| scales.rcv);
    snapshot.window.rcv_wnd.min(u32::from(u16::MAX) << scale)
}

fn is_fin_acknowledged(state: State) -> bool {
    matches!(state, State::FinWait2 | State::TimeWait)
}

fn check<P>(snapshot: &Snapshot<P>) -> Result<(), InvalidSnapshot> {
    let len = u32::try_from(snapshot.unacknowledged.len()).map_err(|_| InvalidSnapshot)?;
    let has_open_fin = snapshot.state.has_fin() && !is_fin_acknowledged(snapshot.state);
    let in_flight = snapshot.snd_nxt.distance_from(snapshot.snd_una);
    let most = i64::from(len).saturating_add(i64::from(has_open_fin));
    let (window, scales) = (&snapshot.window, snapshot.window_scales.unwrap_or_default());
    let is_consistent = snapshot.state.is_exportable()
        && (0..=most).contains(&i64::from(in_flight))
        && (!is_fin_acknowledged(snapshot.state) || len == 0)
        && scales.snd.max(scales.rcv) <= MAX_WINDOW_SCALE
        // As `tcp_repair_set_window` checks it.
        && window.max_window >= window.snd_wnd
        && window.snd_wl1 <= snapshot.rcv_nxt + promised_window(snapshot)
        && window.rcv_wup <= snapshot.rcv_nxt;
    if is_consistent {
        Ok(())
    } else {
        Err(InvalidSnapshot)
    }
}
