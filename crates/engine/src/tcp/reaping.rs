//! Connections that are over and that nobody has: what is left of them goes while a call polls in
//! vain, and of some with each call that makes a socket. So connections that come and go cost no
//! switch to the internal thread, which ends the others after a while.

use crate::tcp::globals::Globals;
use crate::tcp::socket::{TcpSocket, TcpStack};

/// So many a call that makes a socket: more than come by one.
const AT_ONCE: usize = 4;

/// Ends some of them; objects that nobody uses any more go to `give`. Under the control lock.
pub(crate) fn end_some<S: TcpStack>(
    globals: &Globals<S>,
    mut give: impl FnMut(&'static TcpSocket<S>),
) {
    for _ in 0..AT_ONCE {
        end_one(globals, &mut give);
    }
}

/// Ends one of them, in the same way.
pub(crate) fn end_one<S: TcpStack>(globals: &Globals<S>, give: impl FnOnce(&'static TcpSocket<S>)) {
    if let Some(socket) = globals.ended.next().and_then(S::as_tcp)
        && socket.end_listed()
    {
        give(socket);
    }
}
