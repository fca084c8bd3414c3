//! The structures that lie in a segment.

use crate::layout::{Header, SectionRow};
use crate::mapping::Shared;

// SAFETY: `repr(C)`, fields are atomics and arrays of atomics.
unsafe impl Shared for Header {}
// SAFETY: `repr(C)`, fields are atomics.
unsafe impl Shared for SectionRow {}

macro_rules! shared_entries {
    ($( $entry:ident )*) => {
        $(
            // SAFETY: `repr(C)`, the table allows field types that are made of atomics only.
            unsafe impl Shared for crate::schema::$entry {}
        )*
    };
}

shared_entries! {
    SocketStats RingStats PoolStats ReasonStats SettingStats RuleStats KernelSocketStats NoteStats
    TcpStats MultiplexerStats QueueStats GroupStats EventStats
}
