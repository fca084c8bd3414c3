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
    /// Every state, in the order of their declaration.
    pub const ALL: [Self; 10] = [
        Self::Closed,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::Closing,
        Self::LastAck,
        Self::TimeWait,
    ];

    /// Both initial sequence numbers are known to both sides.
    #[inline]
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::SynSent | Self::SynReceived)
    }

    /// The number that Linux has for the state, as in `tcpi_state` (kernel
    /// `include/net/tcp_states.h`).
    #[must_use]
    pub const fn linux_number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynReceived => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Closed => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            // 10 is LISTEN.
            Self::Closing => 11,
        }
    }

    /// The state of which [`linux_number`](Self::linux_number) is `number`; `None` for LISTEN and
    /// what is no state.
    #[must_use]
    pub fn from_linux_number(number: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.linux_number() == number)
    }

    /// A connection in this state can be moved to another stack
    /// ([`Connection::export`](crate::Connection::export)): the handshake is over, and the peer may
    /// still send or await something.
    #[inline]
    #[must_use]
    pub const fn is_exportable(self) -> bool {
        self.is_synchronized() && !matches!(self, Self::TimeWait)
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

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn every_state_is_listed_once() {
        for (index, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index, "{state:?}");
        }
    }

    #[test]
    fn linux_numbers_are_all_but_that_of_listen() {
        let known: Vec<u8> = (0..=u8::MAX)
            .filter(|number| State::from_linux_number(*number).is_some())
            .collect();
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
        for state in State::ALL {
            assert_eq!(State::from_linux_number(state.linux_number()), Some(state));
        }
    }
}
