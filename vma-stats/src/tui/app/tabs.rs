//! The screens there are.

/// A screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Tab {
    Sockets,
    Rings,
    Epoll,
    Tcp,
    Multicast,
    Events,
    Settings,
    Processes,
}

impl Tab {
    pub(in crate::tui) const ALL: [Self; 8] = [
        Self::Sockets,
        Self::Rings,
        Self::Epoll,
        Self::Tcp,
        Self::Multicast,
        Self::Events,
        Self::Settings,
        Self::Processes,
    ];

    pub(in crate::tui) fn name(self) -> &'static str {
        match self {
            Self::Sockets => "Sockets",
            Self::Rings => "Rings",
            Self::Epoll => "Epoll",
            Self::Tcp => "TCP",
            Self::Multicast => "Multicast",
            Self::Events => "Events",
            Self::Settings => "Settings",
            Self::Processes => "Processes",
        }
    }

    /// For narrow terminals.
    pub(in crate::tui) fn short_name(self) -> &'static str {
        match self {
            Self::Multicast => "Mcast",
            Self::Settings => "Config",
            Self::Processes => "Procs",
            other => other.name(),
        }
    }
}
