//! What is kept of a connection that the program has closed.

use std::time::Duration;

use ::tcp::Instant;
use descriptors::OwnDescriptor;

/// After what time it becomes the kernel's. What a peer has not answered by then, it may leave
/// unanswered for long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is kept of a socket that the program has closed.
#[derive(Debug)]
pub(in crate::tcp) struct Orphan {
    /// `None`: it had none, and none could be made.
    pub(in crate::tcp) copy: Option<OwnDescriptor>,
    pub(in crate::tcp) leaves_at: Instant,
}

impl Orphan {
    pub(in crate::tcp) fn new(copy: Option<OwnDescriptor>, now: Instant) -> Self {
        Self {
            copy,
            leaves_at: now + PATIENCE,
        }
    }

    /// The same without the kernel's socket, which is closed.
    pub(in crate::tcp) fn without_copy(self) -> Self {
        Self { copy: None, ..self }
    }

    /// When the connection becomes the kernel's.
    pub(in crate::tcp) fn leaves_at(&self) -> Instant {
        self.leaves_at
    }
}
