//! What goes next: as much new data as the peer's window, the congestion window, Nagle and the cork
//! allow.

use super::Sender;
use crate::{Options, SeqNumber};

/// New data to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSegment {
    pub(crate) start: SeqNumber,
    pub(crate) len: u32,
    pub(crate) is_fin: bool,
    pub(crate) is_push: bool,
}

/// Why there is nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Everything is sent.
    Empty,
    /// By the peer's window.
    Window,
    /// By the congestion window.
    Congestion,
    /// RFC 9293 §3.7.4: a small segment is outstanding.
    Nagle,
    /// `TCP_CORK` or `MSG_MORE`.
    Cork,
}

/// What bounds new data, beside the peer's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Octets of payload in a segment.
    pub(crate) mss: u32,
    /// Octets that the congestion window has room for.
    pub(crate) congestion: u32,
    /// Octets that may go in one piece: one segment, or more if the device cuts them.
    pub(crate) piece: u32,
}

impl Limits {
    /// How long the first segment of `ready` octets is.
    #[inline]
    fn first_segment(&self, ready: u32, window: u32) -> Result<u32, Blocked> {
        let len = ready.min(self.mss);
        // RFC 9293 §3.8.6.2.1: not a part of what could go in one segment; the probe timer
        // overrides that.
        if len > window {
            return Err(Blocked::Window);
        }
        if len > self.congestion {
            return Err(Blocked::Congestion);
        }
        Ok(len)
    }

    /// How many of `ready` octets may go in one piece.
    fn longest_piece(&self, ready: u32, window: u32) -> u32 {
        ready.min(window).min(self.congestion).min(self.piece)
    }

    /// `len` without what does not fill a segment.
    fn whole_segments(&self, len: u32) -> u32 {
        len.saturating_sub(len.checked_rem(self.mss).unwrap_or(0))
    }
}

impl Sender {
    /// The next new segment.
    #[inline]
    pub(crate) fn next_segment(
        &self,
        limits: &Limits,
        options: &Options,
    ) -> Result<NewSegment, Blocked> {
        if self.is_fin_sent() {
            return Err(Blocked::Empty);
        }
        let start = self.snd_nxt;
        let unsent = self.unsent();
        let window = u32::try_from(self.window_end().distance_from(start)).unwrap_or(0);
        if unsent == 0 {
            return self.bare_fin(window);
        }
        if let Some(marks) = self.marks()
            && let Some(end) = marks.record_end(start)
            && end < self.queue.end()
        {
            return Self::next_of_record(start, end, window, limits);
        }
        let len = limits.first_segment(unsent, window)?;
        if len < limits.mss {
            self.check_small(options)?;
        }
        let len = self.extend_piece(len, unsent, window, limits, options);
        let end = start + len;
        let is_last = len == unsent;
        Ok(NewSegment {
            start,
            len,
            is_fin: is_last && self.is_fin_queued && len < window,
            is_push: is_last || end > self.pushed + self.max_wnd / 2,
        })
    }

    /// The same where more is queued behind the record that comes next. Its last segment goes
    /// however small it is, as with Linux: Nagle and the cork hold back only what can still grow.
    #[cold]
    fn next_of_record(
        start: SeqNumber,
        end: SeqNumber,
        window: u32,
        limits: &Limits,
    ) -> Result<NewSegment, Blocked> {
        let rest = end - start;
        let first = limits.first_segment(rest, window)?;
        let most = limits.longest_piece(rest, window);
        let len = if most == rest {
            most
        } else {
            limits.whole_segments(most).max(first)
        };
        Ok(NewSegment {
            start,
            len,
            is_fin: false,
            is_push: len == rest,
        })
    }

    fn bare_fin(&self, window: u32) -> Result<NewSegment, Blocked> {
        if !self.is_fin_queued {
            return Err(Blocked::Empty);
        }
        if window == 0 {
            return Err(Blocked::Window);
        }
        Ok(NewSegment {
            start: self.snd_nxt,
            len: 0,
            is_fin: true,
            is_push: false,
        })
    }

    /// With a device that segments: as many whole segments as everything allows, and the small rest
    /// if it may go.
    fn extend_piece(
        &self,
        len: u32,
        unsent: u32,
        window: u32,
        limits: &Limits,
        options: &Options,
    ) -> u32 {
        if limits.piece < limits.mss.saturating_mul(2) || len < limits.mss {
            return len;
        }
        let most = limits.longest_piece(unsent, window);
        let whole = limits.whole_segments(most);
        if whole < most && most == unsent && self.check_small(options).is_ok() {
            return most;
        }
        whole.max(len)
    }
}
