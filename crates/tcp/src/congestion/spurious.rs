//! Taking back reductions that were not needed (RFC 4015, RFC 3708, RFC 5682).
//!
//! What shows it may come when the window has been reduced again. So two of them are remembered:
//! each can be taken back while the other one stands.

use crate::Instant;

use super::controller::Controller;
use super::state::{Before, State, controller};
use super::window::Window;
use super::{Congestion, Phase};

impl Congestion {
    /// The window is about to be reduced: it and the algorithm's state were `window` and `state`.
    /// If `is_last_in_doubt`, the reduction before may be taken back, too.
    pub(super) fn remember(&mut self, window: Window, state: State, is_last_in_doubt: bool) {
        let mut earlier = self.before_reduction.take().filter(|_| is_last_in_doubt);
        if let Some(earlier) = &mut earlier {
            earlier.earlier = None;
        }
        self.before_reduction = Some(Box::new(Before {
            window,
            state,
            reduced: self.window.cwnd,
            earlier,
        }));
    }

    /// The last reduction was right.
    pub fn confirm(&mut self) {
        self.before_reduction = None;
        if let Some(bbr) = &mut self.bbr {
            bbr.confirm();
        }
    }

    /// What looked like loss was none: restores the window from before the last reduction.
    #[cold]
    pub fn on_spurious(&mut self) {
        if let Some(bbr) = &mut self.bbr {
            bbr.on_spurious(&mut self.window);
            self.phase = Phase::Open;
            return;
        }
        let Some(before) = self.before_reduction.take() else {
            return;
        };
        self.window = larger(self.window, before.window);
        self.state.restore(before.state);
        self.before_reduction = before.earlier;
        self.phase = Phase::Open;
    }

    /// The reduction before the last was not needed, the last one may have been: it is as if that
    /// one had reduced the window from before both. Slow start brings what is in flight up to that
    /// (RFC 4015 §3.2 lets `ssthresh` be restored alike).
    #[cold]
    pub fn on_earlier_spurious(&mut self, now: Instant) {
        let Some(mut last) = self.before_reduction.take() else {
            return;
        };
        if let Some(earlier) = last.earlier.take() {
            let reduced = last.reduced.max(earlier.reduced);
            last.window = larger(last.window, earlier.window);
            last.reduced = reduced;
            last.state = earlier.state.clone();
            self.state.restore(earlier.state);
            let window = Window {
                cwnd: reduced,
                ..last.window
            };
            let ssthresh = controller!(&mut self.state, on_reduction(&window, now));
            self.window.ssthresh = self.window.ssthresh.max(ssthresh);
            if matches!(self.phase, Phase::Loss { .. }) {
                controller!(&mut self.state, on_rto());
            }
        }
        self.before_reduction = Some(last);
    }
}

/// RFC 4015 §3.2: no undoing makes a window smaller.
fn larger(window: Window, before: Window) -> Window {
    Window {
        cwnd: window.cwnd.max(before.cwnd),
        ssthresh: window.ssthresh.max(before.ssthresh),
        ..window
    }
}
