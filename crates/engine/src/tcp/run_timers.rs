//! The internal thread runs what has expired.

use crate::sockets::host::Host;
use crate::tcp::clock::now;
use crate::tcp::globals::Globals;
use crate::tcp::socket::{TcpSocket, TcpStack};

/// In the internal thread: looks after the sockets whose time has come. Objects that nobody uses
/// any more go to `give`. Returns whether there were any.
pub(crate) fn run_timers<S: TcpStack>(
    host: &Host<S>,
    globals: &Globals<S>,
    mut give: impl FnMut(&'static TcpSocket<S>),
) -> bool {
    let mut were_any = false;
    while let Some(socket) = globals.timers.next_expired(now()).and_then(S::as_tcp) {
        were_any = true;
        if socket.look_after(host) {
            give(socket);
        }
    }
    were_any
}
