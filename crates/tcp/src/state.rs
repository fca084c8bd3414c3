//! The states of a connection.

/// RFC 9293 §3.3.2, figure 5. LISTEN is [`Listener`](crate::Listener)'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    #[default]
    Closed,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl State {
    /// Both initial sequence numbers are known to both sides.
    #[inline]
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::SynSent | Self::SynReceived)
    }

    /// The application may write.
    #[inline]
    #[must_use]
    pub const fn can_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// The peer may send data.
    #[inline]
    #[must_use]
    pub const fn can_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Our FIN is in the send queue or has been sent.
    #[inline]
    #[must_use]
    pub const fn has_fin(self) -> bool {
        matches!(
            self,
            Self::FinWait1 | Self::FinWait2 | Self::Closing | Self::LastAck | Self::TimeWait
        )
    }

    /// The peer's FIN has been received.
    #[inline]
    #[must_use]
    pub const fn has_peer_fin(self) -> bool {
        matches!(
            self,
            Self::CloseWait | Self::Closing | Self::LastAck | Self::TimeWait
        )
    }
}
