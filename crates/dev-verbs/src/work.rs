//! What a send queue of either kind does: the provider's by its calls, or `mlx5`'s in memory.

/// A frame: where it begins, from the start of the pool, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// What the device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// This request and all before it, by their number.
    pub(crate) last: Option<u64>,
    /// The queue takes no more.
    pub(crate) is_lost: bool,
}

/// A send queue. Requests have numbers in turn, from zero.
pub(crate) trait Work {
    /// Whether it has room for one more frame, of which so many bytes at most go into the queue.
    fn has_room(&self, inline_max: u32) -> bool;

    /// Puts a frame in; there is room. Returns whether its memory is free already.
    fn put(&mut self, frame: Place, is_inline: bool, is_signaled: bool) -> bool;

    /// Tells the device of what was put in. Returns how many requests it knows from here on, and
    /// the error number that kept the others.
    fn ring(&mut self) -> (usize, Result<(), i32>);

    /// What was done since the last call.
    fn done(&mut self) -> Done;
}
