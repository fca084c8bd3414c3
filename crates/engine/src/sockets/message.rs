//! The application's buffers in a receive or send call. They are the application's claim until
//! used: lengths are bounded and bad pointers are refused here, in one place.

mod name;

use std::net::SocketAddr;
use std::slice;

use libc::c_int;
use links::family::Family;
use sys::Errno;

use crate::sockets::control::{ControlCopy, ControlRoom};
use crate::sockets::user_memory::{is_readable, is_writable};
use crate::sockets::zero_copy::PacketSink;

/// Most buffers that `recvmsg(2)` and `sendmsg(2)` take (`UIO_MAXIOV`).
const IOV_MAX: usize = 1024;
/// Most bytes of an address of any family.
const NAME_BYTES_MAX: usize = size_of::<libc::sockaddr_storage>();
/// Most bytes of one call (`MAX_RW_COUNT`): of a single buffer no more are looked at.
const BYTES_MAX: usize = 0x7fff_f000;
/// Of a stream's buffers so much is looked at once.
const PIECE_BYTES: usize = 1 << 16;
/// More than a datagram can carry.
const PAYLOAD_BYTES_MAX: usize = 1 << 16;

/// A flag of send calls (`VMA_SND_FLAGS_DUMMY` of VMA's extra API, where the kernel has `MSG_SYN`
/// for itself): all is done but the sending, so that the next message finds its way in the cache.
/// Of a socket of the kernel's there is nothing to send so (`EINVAL`).
pub const DUMMY_SEND: c_int = 0x400;

/// A `struct msghdr` of the application, or one made of the arguments of a simpler call.
#[derive(Debug)]
pub struct Message<'a> {
    header: &'a mut libc::msghdr,
    /// What [`find_malformed`](Self::find_malformed) has found.
    only_part: Option<libc::iovec>,
    /// Packets go there instead.
    sink: Option<&'a mut PacketSink>,
}

impl<'a> Message<'a> {
    /// # Safety
    /// What the header points at must belong to the application: what it may not read or write is
    /// found out, but other memory than its own would be read and written.
    pub unsafe fn new(header: &'a mut libc::msghdr) -> Self {
        Self {
            header,
            only_part: None,
            sink: None,
        }
    }

    /// The same for a receive call that takes packets as they are, where that is possible.
    ///
    /// # Safety
    /// That of [`new`](Self::new).
    pub unsafe fn with_sink(
        header: &'a mut libc::msghdr,
        sink: Option<&'a mut PacketSink>,
    ) -> Self {
        Self {
            header,
            only_part: None,
            sink,
        }
    }

    /// Where packets go instead of their copies, if they do.
    #[inline]
    pub(crate) fn sink(&mut self) -> Option<&mut PacketSink> {
        self.sink.as_deref_mut()
    }

    /// The same of a call with these flags: a look leaves packets where they are.
    #[inline]
    pub(crate) fn takes_packets(&self, flags: c_int) -> bool {
        self.sink.is_some() && flags & (libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_OOB) == 0
    }

    /// Whether the kernel's socket must not be read, as that takes a copy.
    pub(crate) fn refuses_copies(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.is_forced)
    }

    /// A packet has gone into the sink, from there.
    pub(crate) fn received_packet(
        &mut self,
        source: SocketAddr,
        family: Family,
    ) -> Result<(), Errno> {
        self.tell_received(true, source, family)
    }

    /// For a system call with the same message.
    pub(crate) fn header(&mut self) -> *mut libc::msghdr {
        self.header
    }

    /// For a system call that sends the message, if it has several buffers.
    pub(crate) fn header_of_parts(&self) -> Option<*const libc::msghdr> {
        (self.header.msg_iovlen > 1).then_some(std::ptr::from_ref(&*self.header))
    }

    /// Whether the call asks for or carries control data.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.header.msg_controllen != 0
    }

    /// The room for control data. To be asked for before [`receive`](Self::receive), which leaves
    /// none.
    pub(crate) fn control_room(&self) -> ControlRoom {
        let start = self.header.msg_control.cast::<u8>();
        // SAFETY: what the header points at is the application's (contract of `new`).
        unsafe { ControlRoom::new(start, self.header.msg_controllen) }
    }

    /// Says what was written there.
    pub(crate) fn told(&mut self, room: &ControlRoom) {
        self.header.msg_controllen = room.used;
        if room.is_cut {
            self.header.msg_flags |= libc::MSG_CTRUNC;
        }
    }

    /// Changes an item of four bytes in what the kernel has written.
    pub(crate) fn change_item(
        &mut self,
        level: c_int,
        kind: c_int,
        change: impl FnOnce([u8; 4]) -> [u8; 4],
    ) {
        let Some(copy) = self.control() else {
            return;
        };
        let Some((at, value)) = copy.find(level, kind) else {
            return;
        };
        let value = change(value);
        let place = self.header.msg_control.cast::<u8>().wrapping_add(at);
        if is_writable(place, value.len()) {
            // SAFETY: writable (checked above), and the application's (contract of `new`).
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), place, value.len()) };
        }
    }

    /// What a send call carries beside the data. `None`: only the kernel can judge it.
    pub(crate) fn control(&self) -> Option<ControlCopy> {
        let start = self.header.msg_control.cast_const().cast::<u8>();
        // SAFETY: what the header points at is the application's (contract of `new`).
        unsafe { ControlCopy::of(start, self.header.msg_controllen) }
    }

    /// The bytes to send if they lie in one buffer, and no more than a datagram can carry.
    #[inline(always)]
    pub(crate) fn only_payload(&self) -> Option<&[u8]> {
        let part = self.find_only_part()?;
        if part.iov_len > PAYLOAD_BYTES_MAX || !is_readable(part.iov_base, part.iov_len) {
            return None;
        }
        if part.iov_len == 0 {
            return Some(&[]);
        }
        // SAFETY: as in `payload`.
        Some(unsafe { slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) })
    }

    /// The bytes to send, and how many they are. `Err`: a claim that the kernel has to judge.
    #[inline(always)]
    pub(crate) fn payload(&self) -> Result<(usize, impl Iterator<Item = &[u8]>), ()> {
        let parts = self.parts()?;
        let mut len = 0usize;
        for part in parts.clone() {
            len = len.checked_add(part.iov_len).ok_or(())?;
            // Nothing is read of what no datagram can carry.
            if len <= PAYLOAD_BYTES_MAX && !is_readable(part.iov_base, part.iov_len) {
                return Err(());
            }
        }
        let slices = parts.filter(|part| part.iov_len > 0).map(|part| {
            // SAFETY: readable for its length (checked above; contract of `new`).
            unsafe { slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) }
        });
        Ok((len, slices))
    }

    /// Whether the kernel would refuse the list of buffers, before it looks at the socket. Like the
    /// kernel, it reads the list once.
    #[inline]
    pub(crate) fn find_malformed(&mut self) -> bool {
        self.only_part = self.find_only_part();
        self.only_part.is_none() && self.are_parts_bad()
    }

    #[inline(never)]
    fn are_parts_bad(&self) -> bool {
        self.parts().is_err()
    }

    /// The buffer, if there is one, and the kernel would not refuse it: mostly.
    #[inline(always)]
    fn find_only_part(&self) -> Option<libc::iovec> {
        let start = self.header.msg_iov.cast_const();
        if self.header.msg_iovlen != 1 || !is_readable(start, size_of::<libc::iovec>()) {
            return None;
        }
        // SAFETY: readable for an entry (checked above; contract of `new`), aligned or not.
        let part = unsafe { start.read_unaligned() };
        let end = part.iov_base.addr().saturating_add(part.iov_len);
        (end <= USER_END).then_some(part)
    }

    /// Copies a received datagram into the buffers and fills in address and flags. Returns how many
    /// bytes fitted.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        data: &[u8],
        source: SocketAddr,
        family: Family,
    ) -> Result<usize, Errno> {
        let Some(part) = self.only_part else {
            return self.receive_in_parts(data, source, family);
        };
        let len = part.iov_len.min(data.len());
        if !is_writable(part.iov_base, len) {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: as in `receive_in_parts`.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), part.iov_base.cast::<u8>(), len);
        }
        self.tell_received(len == data.len(), source, family)?;
        Ok(len)
    }

    /// The same with any number of buffers, or a list of them that is bad.
    #[inline(never)]
    fn receive_in_parts(
        &mut self,
        data: &[u8],
        source: SocketAddr,
        family: Family,
    ) -> Result<usize, Errno> {
        let mut rest = data;
        for part in self.parts().map_err(|()| Errno(libc::EMSGSIZE))? {
            let len = part.iov_len.min(rest.len());
            if len == 0 {
                continue;
            }
            if !is_writable(part.iov_base, len) {
                return Err(Errno(libc::EFAULT));
            }
            let (now, later) = rest.split_at(len);
            // SAFETY: the buffer is writable for `iov_len >= len` bytes (contract of `new`), and
            // frames are the library's own memory, so the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), part.iov_base.cast::<u8>(), len) };
            rest = later;
        }
        self.tell_received(rest.is_empty(), source, family)?;
        Ok(data.len() - rest.len())
    }

    /// The same of several datagrams as one, of `len` bytes together, for which there is room.
    pub(crate) fn receive_joined<'d>(
        &mut self,
        data: impl Iterator<Item = &'d [u8]>,
        len: usize,
        source: SocketAddr,
        family: Family,
    ) -> Result<usize, Errno> {
        let (copied, filled) = self.fill_with(data, len);
        filled?;
        self.tell_received(true, source, family)?;
        Ok(copied)
    }

    /// What the program is told beside the data. `whole`: all of the datagram is in its buffers.
    #[inline(always)]
    fn tell_received(
        &mut self,
        whole: bool,
        source: SocketAddr,
        family: Family,
    ) -> Result<(), Errno> {
        self.header.msg_flags = if whole { 0 } else { libc::MSG_TRUNC };
        self.header.msg_controllen = 0;
        self.set_name(source, family)
    }

    /// Bytes of all buffers. `Err`: the kernel refuses the list.
    #[inline]
    pub(crate) fn total_len(&self) -> Result<usize, Errno> {
        let mut parts = self.parts().map_err(|()| Errno(libc::EFAULT))?;
        let sum = parts.try_fold(0usize, |sum, part| sum.checked_add(part.iov_len));
        Ok(sum.unwrap_or(BYTES_MAX).min(BYTES_MAX))
    }

    /// As many octets as a call would send that sends all of them. `Err`: not all are readable.
    #[cold]
    pub(crate) fn sent_dummy(&self) -> Result<usize, Errno> {
        let mut len = 0;
        self.show(0, |piece| {
            len += piece.len();
            piece.len()
        })?;
        Ok(len)
    }

    /// Shows the bytes from `skip` on, in pieces, until `take` takes less than it is shown. `Err`:
    /// a piece is not readable.
    #[inline]
    pub(crate) fn show(
        &self,
        mut skip: usize,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> Result<(), Errno> {
        for part in self.parts().map_err(|()| Errno(libc::EFAULT))? {
            while skip < part.iov_len {
                let len = (part.iov_len - skip).min(PIECE_BYTES);
                let start = part.iov_base.cast::<u8>().wrapping_add(skip);
                if !is_readable(start, len) {
                    return Err(Errno(libc::EFAULT));
                }
                // SAFETY: readable for `len` bytes (checked above; contract of `new`).
                let taken = take(unsafe { slice::from_raw_parts(start, len) });
                if taken < len {
                    return Ok(());
                }
                skip += len;
            }
            skip -= part.iov_len;
        }
        Ok(())
    }

    /// Has the buffers filled from `skip` on, in pieces, until `give` gives less than there is room
    /// for, or has been asked for `most` bytes. `Err`: a piece is not writable. Room that is not
    /// needed is not looked at.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        mut skip: usize,
        mut most: usize,
        mut give: impl FnMut(&mut [u8]) -> usize,
    ) -> Result<(), Errno> {
        for part in self.parts().map_err(|()| Errno(libc::EFAULT))? {
            while skip < part.iov_len {
                let len = (part.iov_len - skip).min(PIECE_BYTES).min(most);
                let start = part.iov_base.cast::<u8>().wrapping_add(skip);
                if !is_writable(start, len) {
                    return Err(Errno(libc::EFAULT));
                }
                // SAFETY: writable for `len` bytes (checked above; contract of `new`), and nobody
                // else's during the call.
                let given = give(unsafe { slice::from_raw_parts_mut(start, len) });
                most -= len;
                if given < len || most == 0 {
                    return Ok(());
                }
                skip += len;
            }
            skip -= part.iov_len;
        }
        Ok(())
    }

    /// Fills the buffers with the bytes of `data`, `most` of them. Returns how many fitted; `Err`
    /// beside it: a buffer is not writable.
    pub(crate) fn fill_with<'d>(
        &mut self,
        mut data: impl Iterator<Item = &'d [u8]>,
        most: usize,
    ) -> (usize, Result<(), Errno>) {
        let mut piece: &[u8] = &[];
        let mut total = 0;
        let filled = self.fill(0, most, |mut room| {
            let mut given = 0;
            while !room.is_empty() {
                if piece.is_empty() {
                    match data.next() {
                        Some(next) => piece = next,
                        None => break,
                    }
                }
                let count = piece.len().min(room.len());
                let (now, later) = room.split_at_mut(count);
                now.copy_from_slice(&piece[..count]);
                (piece, room) = (&piece[count..], later);
                given += count;
            }
            total += given;
            given
        });
        (total, filled)
    }

    /// What a call that has received from a stream leaves beside the data: no address, no control
    /// data.
    #[inline]
    pub(crate) fn received_from_stream(&mut self, flags: c_int) {
        self.header.msg_flags = flags;
        self.header.msg_controllen = 0;
        self.header.msg_namelen = 0;
    }

    /// The buffers. `Err`: the kernel refuses the list, or one of a buffer that cannot be the
    /// program's, whether it is needed or not.
    #[inline(always)]
    fn parts(&self) -> Result<impl Iterator<Item = libc::iovec> + Clone + use<'a>, ()> {
        // The field's type differs between C libraries.
        #[allow(
            clippy::useless_conversion,
            reason = "the field is a socklen_t on other C libraries"
        )]
        let count = usize::try_from(self.header.msg_iovlen).map_err(|_| ())?;
        let start = self.header.msg_iov.cast_const();
        let len = size_of::<libc::iovec>() * count.min(IOV_MAX);
        if count > IOV_MAX || !is_readable(start, len) {
            return Err(());
        }
        // SAFETY: readable for `msg_iovlen` entries (checked above; contract of `new`), aligned or
        // not.
        let part = move |index| unsafe { start.wrapping_add(index).read_unaligned() };
        let parts = (0..count).map(part);
        let is_good = |part: libc::iovec| match count {
            1 => part.iov_len.cast_signed() >= 0 && is_range(&part, part.iov_len.min(BYTES_MAX)),
            _ => is_range(&part, part.iov_len),
        };
        // Not by `all`, which would be called, as often as this is used.
        for part in parts.clone() {
            if !is_good(part) {
                return Err(());
            }
        }
        Ok(parts)
    }
}

/// Where the memory of programs ends, unless they ask for more on purpose.
const USER_END: usize = 1 << 47;

/// Whether `len` bytes from the buffer's start on lie where a program's memory can be.
#[inline]
fn is_range(part: &libc::iovec, len: usize) -> bool {
    let Some(end) = part.iov_base.addr().checked_add(len) else {
        return false;
    };
    end <= USER_END || is_readable(std::ptr::without_provenance::<u8>(end - 1), 1)
}
