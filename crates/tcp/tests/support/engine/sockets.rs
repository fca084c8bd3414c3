//! What descriptors stand for.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tcp::{FastOpenAttempt, FastOpenKeys, Listener, Options};

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
    /// `connect` has told of the connection (`SS_CONNECTED`).
    pub(super) is_connected: bool,
    /// `TCP_FASTOPEN_CONNECT`
    pub(super) defers_connect: bool,
    /// `TCP_FASTOPEN_NO_COOKIE`
    pub(super) is_cookieless: bool,
    /// `TCP_FASTOPEN` and `TCP_FASTOPEN_KEY`, for when it listens.
    pub(super) fast_open_limit: Option<u32>,
    pub(super) fast_open_keys: Option<FastOpenKeys>,
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
    /// `connect` was called; the first write sends the SYN.
    Deferred(FastOpenAttempt),
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
            is_connected: false,
            defers_connect: false,
            is_cookieless: false,
            fast_open_limit: None,
            fast_open_keys: None,
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
