//! Options of sockets on which the program has set none.

use ::tcp::{Instant, Options};

use crate::tcp::egress::Headers;

/// What sockets have on which the program has set nothing. The system's settings decide, which may
/// be changed at any time.
pub(in crate::tcp) struct Defaults {
    pub(in crate::tcp) options: Options,
    pub(in crate::tcp) headers: Headers,
    pub(in crate::tcp) at: Instant,
}
