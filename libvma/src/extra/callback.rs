//! Functions of the program's that see packets first.

use engine::{Callback, Errno};
use libc::{c_int, c_void};
use vma_api::abi::RecvCallback;

use super::packets::socket_behind;
use crate::guard::{contained, fail};

/// Has a function see each packet of a socket before it is received.
pub(super) unsafe extern "C" fn register_recv_callback(
    fd: c_int,
    callback: Option<RecvCallback>,
    context: *mut c_void,
) -> c_int {
    let Some((engine, socket)) = socket_behind(fd) else {
        return fail(libc::EINVAL);
    };
    let callback = callback.map(|function| Callback {
        function: function as usize,
        context: context.expose_provenance(),
    });
    match contained(|| engine.show_packets(socket, callback)) {
        Ok(Ok(())) => 0,
        Ok(Err(Errno(errno))) => fail(errno),
        Err(_) => fail(libc::EINVAL),
    }
}
