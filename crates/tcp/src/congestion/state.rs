//! The state of a connection's algorithm, and what a reduction changes.

use super::controller::Controller;
use super::cubic::Cubic;
use super::new_reno::NewReno;
use super::none::Uncontrolled;
use super::window::Window;

/// The algorithm that a connection has.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "in place beside the window: no pointer to follow for each acknowledgement"
)]
pub(super) enum State {
    NewReno(NewReno),
    Cubic(Cubic),
    Uncontrolled(Uncontrolled),
}

/// Calls the controller's method without an indirect call.
macro_rules! controller {
    ($state:expr, $method:ident($($argument:expr),*)) => {
        match $state {
            State::NewReno(controller) => controller.$method($($argument),*),
            State::Cubic(controller) => controller.$method($($argument),*),
            State::Uncontrolled(controller) => controller.$method($($argument),*),
        }
    };
}
pub(super) use controller;

impl State {
    pub(super) fn checkpoint(&mut self) -> Self {
        match self {
            Self::NewReno(controller) => Self::NewReno(controller.checkpoint()),
            Self::Cubic(controller) => Self::Cubic(controller.checkpoint()),
            Self::Uncontrolled(controller) => Self::Uncontrolled(controller.checkpoint()),
        }
    }

    pub(super) fn restore(&mut self, before: Self) {
        match (self, before) {
            (Self::NewReno(controller), Self::NewReno(before)) => controller.on_spurious(before),
            (Self::Cubic(controller), Self::Cubic(before)) => controller.on_spurious(before),
            (Self::Uncontrolled(controller), Self::Uncontrolled(before)) => {
                controller.on_spurious(before);
            }
            (Self::NewReno(_) | Self::Cubic(_) | Self::Uncontrolled(_), _) => {}
        }
    }
}

/// What a reduction changed.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) window: Window,
    pub(super) state: State,
    /// The part of the window that was used, of which the reduction left a portion.
    pub(super) reduced: u32,
    /// The reduction before, if it is in doubt as well.
    pub(super) earlier: Option<Box<Self>>,
}
