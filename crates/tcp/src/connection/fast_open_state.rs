//! What a connection knows of Fast Open.

use crate::fast_open::{FastOpen, FastOpenEnd, FastOpenLesson};
use crate::{FastOpenFailure, Instant};

/// What a connection knows of its Fast Open. Most have none.
#[derive(Debug, Default)]
pub(super) struct FastOpenState {
    /// Of the first SYN or SYN-ACK; those sent again are plain.
    pub(super) option: Option<FastOpen>,
    /// Octets that went with the SYN.
    pub(super) syn_data_len: u32,
    pub(super) is_syn_sent: bool,
    /// When the SYN-ACK is sent again.
    pub(super) syn_ack_at: Option<Instant>,
    /// Data of the SYN was acknowledged, by either side.
    pub(super) is_data_acked: bool,
    pub(super) failure: FastOpenFailure,
    /// An application waits for the handshake with more data: that will carry the last ACK.
    pub(super) is_writer_waiting: bool,
    /// If data comes back, the network lets Fast Open through.
    pub(super) is_check: bool,
    pub(super) lesson: FastOpenLesson,
    /// Passive: the application has the connection.
    pub(super) is_accepted: bool,
    pub(super) end: Option<FastOpenEnd>,
}
