//! What descriptors stand for.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tcp::{Listener, Options};

/// A descriptor.
pub(super) struct Socket {
    pub(super) kind: Kind,
    pub(super) options: Options,
    /// What `setsockopt` was given and `getsockopt` gives back, by level and name.
    pub(super) values: HashMap<(i32, i32), i64>,
    pub(super) is_non_blocking: bool,
    /// `SO_LINGER`, in seconds.
    pub(super) linger: Option<i64>,
    pub(super) port: Option<u16>,
}

pub(super) enum Kind {
    /// Neither connected nor listening.
    Fresh,
    Listening {
        listener: Listener,
        /// Established and not accepted yet.
        queue: VecDeque<usize>,
    },
    Connected(usize),
    Epoll(BTreeMap<i32, Watched>),
}

/// An entry of an epoll set.
pub(super) struct Watched {
    pub(super) events: i64,
    /// Something happened since it was reported.
    pub(super) is_ready: bool,
}

/// A connection whose handshake is not over.
pub(super) struct Embryo {
    /// The listening socket's descriptor.
    pub(super) listener: i32,
}

impl Socket {
    pub(super) fn new(kind: Kind, options: Options) -> Self {
        Self {
            kind,
            options,
            values: HashMap::new(),
            is_non_blocking: false,
            linger: None,
            port: None,
        }
    }
}

impl Kind {
    pub(super) fn connection(&self) -> Option<usize> {
        match self {
            Self::Connected(id) => Some(*id),
            _ => None,
        }
    }

    /// Whether connection `id` waits to be accepted here.
    pub(super) fn queues(&self, id: usize) -> bool {
        matches!(self, Self::Listening { queue, .. } if queue.contains(&id))
    }
}
