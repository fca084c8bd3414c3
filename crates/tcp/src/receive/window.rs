//! The window to offer (RFC 9293 §3.8.6; kernel `tcp_select_window`, `tcp_grow_window`).

use wire::tcp::MAX_WINDOW_SCALE;

use crate::{Config, Instant, Options, SeqNumber};

mod tuning;

use tuning::Tuning;

/// Window and buffer of the receiving side, in octets.
///
/// In four octets what they have room for: received data touches it (`connection/layout.rs`).
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveWindow {
    /// `SO_RCVBUF`: memory; half of it is for data (`tcp_adv_win_scale` = 1).
    buffer: u32,
    /// The application has set it or a clamp (`TCP_WINDOW_CLAMP`): it does not grow.
    is_fixed: bool,
    /// What was offered, from the last acknowledgement's number on (`RCV.WND`).
    offered: u32,
    /// The last acknowledgement's number.
    offered_from: SeqNumber,
    /// RFC 7323 §2: the shift of the windows we send.
    scale: u8,
    /// The most that is offered at present: grows with proof that the peer sends full segments
    /// (`rcv_ssthresh`).
    threshold: u32,
    /// The most that is ever offered (`window_clamp`).
    clamp: u32,
    mss: u16,
    /// How the buffer grows.
    pub(crate) tuning: Tuning,
}

impl ReceiveWindow {
    /// Window and scale to begin with, for a peer whose segments hold `mss` octets.
    pub(crate) fn new(options: &Options, mss: u16, config: &Config) -> Self {
        let buffer = options.receive_buffer;
        let space = window_of(buffer);
        let clamp = bounded(space, options.window_clamp);
        let is_fixed = is_fixed(options);
        // The scale is fixed for the whole life, so it must do for all that the buffer can grow to.
        let most = if is_fixed {
            clamp
        } else {
            space.max(config.receive_buffer_max)
        };
        let scale = if config.window_scaling {
            scale_for(most)
        } else {
            0
        };
        let mut window = Self {
            buffer,
            is_fixed,
            scale,
            clamp: clamp.min(u32::from(u16::MAX) << scale),
            ..Self::default()
        };
        window.open(mss);
        window
    }

    /// Chooses the first window (`tcp_select_initial_window`): as many segments of `mss` octets as
    /// there is room for.
    #[inline]
    pub(crate) fn open(&mut self, mss: u16) {
        let mss = u32::from(mss.max(1));
        let most = self.clamp;
        self.threshold = if most > mss {
            round_down(most, mss)
        } else {
            most
        };
        // What a SYN says is not scaled (RFC 7323 §2.2).
        self.offered = self.threshold.min(u32::from(u16::MAX));
    }

    /// The handshake is over; `is_scaling` says whether both sides agreed to scale, `mss` is what
    /// the peer's segments can hold beside the options that were agreed upon
    /// (`tcp_init_buffer_space`).
    pub(crate) fn on_established(
        &mut self,
        now: Instant,
        rcv_nxt: SeqNumber,
        is_scaling: bool,
        mss: u16,
    ) {
        if !is_scaling {
            self.scale = 0;
            self.clamp = self.clamp.min(u32::from(u16::MAX));
            self.threshold = self.threshold.min(self.clamp);
        }
        // What the SYN could not say is good from here on; what it said is not taken back, however
        // small the buffer became since.
        self.offered = self.offered.max(self.threshold);
        self.mss = mss;
        let mss = u32::from(mss);
        let all = window_of(self.buffer);
        // Room for one segment is kept back.
        if self.clamp > mss.saturating_mul(2) && self.clamp.saturating_add(mss) > all {
            self.clamp = all.saturating_sub(mss).max(mss.saturating_mul(2));
        }
        self.threshold = self.threshold.min(self.clamp);
        let window = self.threshold.min(self.offered);
        self.tuning.on_established(now, rcv_nxt, window, mss);
    }

    /// The first acknowledgement number that goes out, with the SYN.
    pub(crate) fn start_at(&mut self, rcv_nxt: SeqNumber) {
        self.offered_from = rcv_nxt;
        self.tuning.start_at(rcv_nxt);
    }

    /// The part of the offered window that is not used up: what is acceptable from `rcv_nxt` on.
    #[inline]
    pub(crate) fn remaining(&self, rcv_nxt: SeqNumber) -> u32 {
        // `RCV.NXT` is never before the last acknowledgement, nor beyond the window that it
        // offered.
        self.offered
            .saturating_sub(rcv_nxt.0.wrapping_sub(self.offered_from.0))
    }

    /// Octets received since the last acknowledgement.
    #[inline]
    pub(crate) fn unacknowledged(&self, rcv_nxt: SeqNumber) -> u32 {
        rcv_nxt.0.wrapping_sub(self.offered_from.0)
    }

    /// Chooses the window for an acknowledgement of `rcv_nxt` with `queued` octets unread. Returns
    /// the header field.
    #[inline]
    pub(crate) fn advertise(&mut self, rcv_nxt: SeqNumber, queued: u32, rcv_mss: u16) -> u16 {
        let current = self.remaining(rcv_nxt);
        let mut window = self.select(queued, rcv_mss, current);
        // RFC 9293 §3.8.6: "a TCP receiver SHOULD NOT shrink the window" (SHLD-14).
        if window < current {
            window = round_up(current, 1 << self.scale);
        }
        let most = u32::from(u16::MAX) << self.scale;
        let window = window.min(most);
        self.offered = window;
        self.offered_from = rcv_nxt;
        u16::try_from(window >> self.scale).unwrap_or(u16::MAX)
    }

    /// The window of a SYN, which is never scaled (RFC 7323 §2.2).
    pub(crate) fn advertise_in_syn(&mut self, rcv_nxt: SeqNumber) -> u16 {
        self.offered_from = rcv_nxt;
        u16::try_from(self.offered).unwrap_or(u16::MAX)
    }

    /// So many octets were read, and stay where they are: the buffer is smaller meanwhile.
    pub(crate) fn hold(&mut self, octets: u32) {
        self.buffer = self
            .buffer
            .saturating_sub(octets.saturating_mul(BUFFER_PER_WINDOW));
    }

    /// So many are free.
    pub(crate) fn release(&mut self, octets: u32) {
        self.buffer = self
            .buffer
            .saturating_add(octets.saturating_mul(BUFFER_PER_WINDOW));
    }

    /// `__tcp_select_window`: avoids the silly window syndrome (RFC 9293 §3.8.6.2.2) on the
    /// receiving side.
    fn select(&self, queued: u32, rcv_mss: u16, current: u32) -> u32 {
        let full = window_of(self.buffer).min(self.clamp);
        let mut free = window_of(self.buffer).saturating_sub(queued);
        let mss = u32::from(rcv_mss).min(full).max(1);
        if free < full / 2 {
            free = round_down(free, 1 << self.scale);
            // Nothing, until it is worth a segment.
            if free < full >> 4 || free < mss {
                return 0;
            }
        }
        let free = free.min(self.threshold);
        if self.scale > 0 {
            return round_up(free, 1 << self.scale);
        }
        // Without a scale the steps are whole segments.
        if current <= free.saturating_sub(mss) || current > free {
            // A segment longer than what was ever offered must not make every window too small for
            // it.
            round_down(free, mss.min(free))
        } else {
            current
        }
    }

    /// Data arrived, `len` octets of it, with `queued` unread (`tcp_grow_window`). What waits
    /// behind a gap is no less room: it lies within the window.
    #[inline]
    pub(crate) fn on_data(&mut self, len: u32, queued: u32) {
        if len < GROWTH_LEN_MIN {
            return;
        }
        let room = self
            .clamp
            .min(window_of(self.buffer).saturating_sub(queued));
        if let Some(room) = room.checked_sub(self.threshold) {
            let growth = u32::from(self.mss).saturating_mul(2);
            self.threshold = self.threshold.saturating_add(growth.min(room));
        }
    }

    /// Data arrived behind a gap and ends `beyond` octets from `RCV.NXT`: in a window that a peer
    /// has, beside what it sends in a round trip. The buffer has to hold both
    /// (`tcp_data_queue_ofo`).
    pub(crate) fn on_data_behind_gap(&mut self, beyond: u32, config: &Config) {
        self.grow_buffer(self.tuning.space(), beyond, config);
    }

    /// The application has read up to `read_nxt` and left `queued` octets; what waits behind gaps
    /// ends `beyond` octets from `RCV.NXT`. Dynamic right-sizing (`tcp_rcv_space_adjust`), once in
    /// a round trip: the buffer holds twice of what is read in it.
    pub(crate) fn on_read(
        &mut self,
        now: Instant,
        read_nxt: SeqNumber,
        queued: u32,
        beyond: u32,
        config: &Config,
    ) {
        if let Some(copied) = self.tuning.on_read(now, read_nxt, queued) {
            self.grow_buffer(copied, beyond, config);
        }
    }

    /// As [`Tuning::buffer_for`] says, if the application leaves it to us.
    fn grow_buffer(&mut self, copied: u32, beyond: u32, config: &Config) {
        let wanted = self.tuning.buffer_for(copied, beyond);
        let buffer = wanted.min(config.receive_buffer_max);
        if config.moderate_receive_buffer && !self.is_fixed && buffer > self.buffer {
            self.set_buffer(buffer, 0);
        }
    }

    /// Memory is short: what is offered next is little, and grows with what arrives
    /// (`tcp_adjust_rcv_ssthresh`).
    pub(crate) fn restrain(&mut self) {
        // Before the handshake is over only the first window is known.
        if self.mss > 0 {
            let most = u32::from(self.mss).saturating_mul(RESTRAINED_SEGMENTS);
            self.threshold = self.threshold.min(most);
        }
    }

    /// `SO_RCVBUF` from the application: fixed from here on.
    pub(crate) fn lock_buffer(&mut self, options: &Options) {
        self.is_fixed = is_fixed(options);
        self.set_buffer(options.receive_buffer, options.window_clamp);
    }

    /// `user_clamp` is nothing, or `TCP_WINDOW_CLAMP`.
    fn set_buffer(&mut self, buffer: u32, user_clamp: u32) {
        self.buffer = buffer;
        let clamp = window_of(buffer).min(u32::from(u16::MAX) << self.scale);
        self.clamp = bounded(clamp, user_clamp);
    }

    /// `TCP_WINDOW_CLAMP`.
    pub(crate) fn follow_user_clamp(&mut self, options: &Options) {
        self.is_fixed = is_fixed(options);
        self.set_buffer(self.buffer, options.window_clamp);
        self.threshold = self.threshold.min(self.clamp);
    }

    /// Whether reading made the window at least twice what the peer knows of, so that it should
    /// hear of it.
    pub(crate) fn should_update(&self, rcv_nxt: SeqNumber, queued: u32, rcv_mss: u16) -> bool {
        let current = self.remaining(rcv_nxt);
        if current.saturating_mul(2) > self.clamp {
            return false;
        }
        let window = self.select(queued, rcv_mss, current);
        window > 0 && window >= current.saturating_mul(2)
    }

    #[inline]
    pub(crate) fn is_growing(&self, rcv_nxt: SeqNumber, queued: u32, rcv_mss: u16) -> bool {
        self.select(queued, rcv_mss, self.remaining(rcv_nxt)) >= self.offered
    }

    #[inline]
    pub(crate) fn buffer(&self) -> u32 {
        self.buffer
    }

    pub(crate) fn scale(&self) -> u8 {
        self.scale
    }

    pub(crate) fn offered(&self) -> u32 {
        self.offered
    }

    pub(crate) fn offered_from(&self) -> SeqNumber {
        self.offered_from
    }

    pub(crate) fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Continues where another stack left off (`TCP_REPAIR_WINDOW`).
    pub(crate) fn restore(
        &mut self,
        scale: u8,
        offered: u32,
        offered_from: SeqNumber,
        options: &Options,
    ) {
        self.scale = scale.min(MAX_WINDOW_SCALE);
        self.offered = offered;
        self.offered_from = offered_from;
        self.threshold = self.threshold.max(offered);
        self.set_buffer(self.buffer, options.window_clamp);
    }

    /// At least so much memory, for a window that another stack has offered.
    pub(crate) fn widen(&mut self, buffer: u32, options: &Options) {
        self.set_buffer(self.buffer.max(buffer), options.window_clamp);
    }
}

/// The octets of data that a buffer has room for, beside its overhead (`tcp_adv_win_scale` = 1).
const fn window_of(buffer: u32) -> u32 {
    buffer / BUFFER_PER_WINDOW
}

const BUFFER_PER_WINDOW: u32 = 2;

/// `TCP_WINDOW_CLAMP` bounds if it is not nothing.
fn bounded(window: u32, user_clamp: u32) -> u32 {
    if user_clamp > 0 {
        window.min(user_clamp)
    } else {
        window
    }
}

/// Whether the application has decided how large the buffer is.
fn is_fixed(options: &Options) -> bool {
    options.is_receive_buffer_locked || options.window_clamp > 0
}

/// The least scale with which `window` can be expressed.
fn scale_for(window: u32) -> u8 {
    let bits = u32::BITS.saturating_sub(window.leading_zeros());
    u8::try_from(bits.saturating_sub(16))
        .unwrap_or(0)
        .min(MAX_WINDOW_SCALE)
}

const fn round_down(value: u32, unit: u32) -> u32 {
    match value.checked_rem(unit) {
        Some(rest) => value.saturating_sub(rest),
        None => value,
    }
}

const fn round_up(value: u32, unit: u32) -> u32 {
    round_down(value.saturating_add(unit.saturating_sub(1)), unit)
}

/// What is offered while memory is short.
const RESTRAINED_SEGMENTS: u32 = 4;

/// Shorter segments are no evidence that the buffer is used well.
const GROWTH_LEN_MIN: u32 = 128;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_first_window_that_is_used_up_lets_the_buffer_grow() {
        let config = Config::default();
        let options = Options::default().with_defaults(&config);
        let buffer = options.receive_buffer;
        let mut window = ReceiveWindow::new(&options, 1460, &config);
        let start = Instant::from_nanos(1);
        window.start_at(SeqNumber(7));
        window.on_established(start, SeqNumber(7), true, 1448);
        let round_trip = Duration::from_millis(10);
        window.tuning.on_rtt(1, Some(round_trip.into()), false);
        // More than is offered cannot come in one round trip.
        let read_nxt = SeqNumber(7) + window.offered();
        assert!(window.tuning.is_round_trip_over(start + round_trip));
        window.on_read(start + round_trip, read_nxt, 0, 0, &config);
        assert!(window.buffer() > buffer);
    }
}
