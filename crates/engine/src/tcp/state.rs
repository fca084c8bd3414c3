//! What the sockets and the process keep of connections: no socket is known here.

pub(super) mod counted;
pub(super) mod defaults;
pub(super) mod destroyed;
pub(super) mod exempt;
pub(super) mod exempt_table;
pub(super) mod habit;
pub(super) mod local;
pub(super) mod moving;
pub(super) mod origin;
pub(super) mod orphan;
pub(super) mod path_mtus;
pub(super) mod reaper;
pub(super) mod reopenings;
pub(super) mod saved_syns;
pub(super) mod shared_listeners;
pub(super) mod time_wait;
pub(super) mod timers;
pub(super) mod unmatched;
pub(super) mod waiting;
