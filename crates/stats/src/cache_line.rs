//! Lines of the processor's cache.

/// Entries and slots of different users never share a cache line.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Moves the field that follows to a new cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct LineStart;
