//! The state of a sender that neither recovery nor congestion control needs: the pacing rate, the
//! search for the path's MTU, and what only `TCP_INFO` reports. A connection that only receives has
//! none of it.

mod chronometer;
mod delivery_rate;
mod timeouts;

use crate::pacing::Pacer;
use crate::path::search::MtuSearch;

pub(crate) use chronometer::{Chronometer, Limit};
pub(crate) use delivery_rate::{DeliveryRate, Sent};
pub(crate) use timeouts::TimeoutHistory;

#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// With a rate only: of `SO_MAX_PACING_RATE`, or of congestion control.
    pub(crate) pacer: Option<Box<Pacer>>,
    /// RFC 4821
    pub(crate) mtu_search: Option<Box<MtuSearch>>,
    pub(crate) chronometer: Chronometer,
    pub(crate) delivery_rate: DeliveryRate,
    pub(crate) timeouts: TimeoutHistory,
    /// Segments whose arrival was told along with a congestion mark.
    pub(crate) delivered_ce: u32,
}

/// Two cache lines in a connection that sends.
const _: () = assert!(size_of::<Outgoing>() <= 128);
