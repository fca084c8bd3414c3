//! Messages with descriptors, over a socket that keeps messages apart.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors that come along with one message.
pub(crate) const FDS_MAX: usize = 64;
const SPACE: usize = rustix::cmsg_space!(ScmRights(FDS_MAX));

pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut along = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !along.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut along, flags)?;
    Ok(())
}

/// How many bytes have come, and what has come along.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut along, flags)?;
    let fds = along.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((received.bytes, fds.flatten().collect()))
}
