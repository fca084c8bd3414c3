//! An interface that could not be opened, and who has it.

use crate::links::holder::Holder;
use crate::reason::Reason;

/// How long an interface that could not be opened is left alone.
const OPEN_AGAIN_NSEC: u64 = 1_000_000_000;

/// An interface that could not be opened.
#[derive(Debug)]
pub(crate) struct NotOpen {
    failed_nsec: u64,
    /// Another process has it, or will.
    pub(super) held: Option<Held>,
}

/// By whom, as far as that can be found out.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) name: String,
    pub(super) holder: Option<Holder>,
    /// It is kept free for the broker that has opened it until it ended.
    pub(super) awaits_broker: bool,
}

impl NotOpen {
    pub(crate) fn failed() -> Self {
        Self {
            failed_nsec: sys::tick_nsec(),
            held: None,
        }
    }

    pub(super) fn held(name: &str, holder: Option<Holder>) -> Self {
        let name = name.to_owned();
        Self {
            held: Some(Held {
                name,
                holder,
                awaits_broker: false,
            }),
            ..Self::failed()
        }
    }

    pub(super) fn broker_ended(name: &str) -> Self {
        let name = name.to_owned();
        Self {
            held: Some(Held {
                name,
                holder: None,
                awaits_broker: true,
            }),
            ..Self::failed()
        }
    }

    pub(crate) fn reason(&self) -> Reason {
        match &self.held {
            Some(_) if self.awaits_broker() => Reason::BrokerEnded,
            Some(_) => Reason::Held,
            None => Reason::OpenFailed,
        }
    }

    /// Whether it is to be tried again when somebody asks.
    pub(crate) fn is_due(&self) -> bool {
        sys::tick_nsec() >= self.failed_nsec + OPEN_AGAIN_NSEC
    }

    /// Whether somebody has it who is known and has not ended, or will have it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaits_broker() || self.holder().is_some_and(Holder::is_alive)
    }

    /// Whether it is kept free for a broker that comes back.
    pub(crate) fn awaits_broker(&self) -> bool {
        self.held.as_ref().is_some_and(|it| it.awaits_broker)
    }

    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.held.as_ref()?.holder.as_ref()
    }

    /// The holder, for another attempt that finds the interface held again.
    pub(crate) fn into_holder(self) -> Option<Holder> {
        self.held?.holder.filter(Holder::is_alive)
    }
}
