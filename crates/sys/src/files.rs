//! Files of the program, of which octets are sent.

use std::mem;
use std::ptr;

use libc::{c_int, off64_t};

use super::{Errno, check};

/// What `fstat(2)` says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// One of `S_IFMT`.
    pub kind: libc::mode_t,
    pub len: u64,
}

pub fn file_status(fd: c_int) -> Result<FileStatus, Errno> {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `struct stat`.
    check(unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut status) })?;
    Ok(FileStatus {
        kind: status.st_mode & libc::S_IFMT,
        len: status.st_size.try_into().unwrap_or(0),
    })
}

/// Where the next `read(2)` would begin.
pub fn file_position(fd: c_int) -> Result<off64_t, Errno> {
    seek(fd, 0, libc::SEEK_CUR)
}

pub fn set_file_position(fd: c_int, position: off64_t) -> Result<(), Errno> {
    seek(fd, position, libc::SEEK_SET).map(drop)
}

fn seek(fd: c_int, offset: off64_t, whence: c_int) -> Result<off64_t, Errno> {
    // SAFETY: integers.
    check(unsafe { libc::syscall(libc::SYS_lseek, fd, offset, whence) })
}

/// Replaces what is in `chunk` by at most `most` octets of a file, from `at` on. Returns how many
/// there were: 0 at its end.
pub fn read_at(fd: c_int, at: off64_t, chunk: &mut Vec<u8>, most: usize) -> Result<usize, Errno> {
    chunk.clear();
    chunk.reserve_exact(most);
    // SAFETY: the vector has room for so many octets, and the kernel writes no more.
    let read =
        check(unsafe { libc::syscall(libc::SYS_pread64, fd, chunk.as_mut_ptr(), most, at) })?;
    let len = (read as usize).min(most);
    // SAFETY: the kernel has written so many.
    unsafe { chunk.set_len(len) };
    Ok(len)
}

/// Replaces what is in `chunk` by what a pipe has, at most `most` octets. Returns how many: 0 at
/// its end. Fails with `EAGAIN` if there is nothing, and with `EOPNOTSUPP` if the kernel cannot say
/// so.
pub fn read_now(pipe: c_int, chunk: &mut Vec<u8>, most: usize) -> Result<usize, Errno> {
    chunk.clear();
    chunk.reserve(most);
    let part = libc::iovec {
        iov_base: chunk.as_mut_ptr().cast(),
        iov_len: most,
    };
    // SAFETY: the vector has room for so many octets, and the kernel writes no more.
    let read = unsafe { at_once(libc::SYS_preadv2, pipe, &part) }?;
    let len = read.min(most);
    // SAFETY: the kernel has written so many.
    unsafe { chunk.set_len(len) };
    Ok(len)
}

/// Writes to a pipe what has room there now. Errors as of [`read_now`].
pub fn write_now(pipe: c_int, octets: &[u8]) -> Result<usize, Errno> {
    let part = libc::iovec {
        iov_base: octets.as_ptr().cast_mut().cast(),
        iov_len: octets.len(),
    };
    // SAFETY: the kernel reads so many octets.
    unsafe { at_once(libc::SYS_pwritev2, pipe, &part) }
}

/// # Safety
/// The buffer must be valid for `preadv2(2)` or `pwritev2(2)`, whichever is called.
unsafe fn at_once(call: libc::c_long, pipe: c_int, part: &libc::iovec) -> Result<usize, Errno> {
    // The offset is that of no file, in two words.
    let (first, offset) = (ptr::from_ref(part), (-1_i64, -1_i64));
    // SAFETY: the caller's promise.
    let moved = check(unsafe {
        libc::syscall(call, pipe, first, 1, offset.0, offset.1, libc::RWF_NOWAIT)
    })?;
    Ok(moved as usize)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn octets_are_read_where_they_are_and_the_position_stays() {
        let mut file = std::fs::File::from(memory_file());
        file.write_all(b"the letters").unwrap();
        let fd = file.as_raw_fd();
        let mut chunk = vec![7; 3];
        assert_eq!(read_at(fd, 4, &mut chunk, 100), Ok(7));
        assert_eq!(chunk, b"letters");
        assert_eq!(read_at(fd, 0, &mut chunk, 3), Ok(3));
        assert_eq!(chunk, b"the");
        assert_eq!(read_at(fd, 11, &mut chunk, 3), Ok(0));
        assert!(chunk.is_empty());
        assert_eq!(file_position(fd), Ok(11));
        set_file_position(fd, 5).unwrap();
        assert_eq!(file_position(fd), Ok(5));
        let status = file_status(fd).unwrap();
        assert_eq!((status.kind, status.len), (libc::S_IFREG, 11));
        assert_eq!(read_at(-1, 0, &mut chunk, 3), Err(Errno(libc::EBADF)));
    }

    #[test]
    fn a_pipe_is_read_and_written_without_waiting() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let (out, into) = (reader.as_raw_fd(), writer.as_raw_fd());
        let mut chunk = Vec::new();
        assert_eq!(read_now(out, &mut chunk, 9), Err(Errno(libc::EAGAIN)));
        writer.write_all(b"the letters").unwrap();
        assert_eq!(read_now(out, &mut chunk, 3), Ok(3));
        assert_eq!(chunk, b"the");
        let many = vec![7; 1 << 20];
        let room = write_now(into, &many).unwrap();
        assert!(room > 0 && room < many.len());
        assert_eq!(write_now(into, &many), Err(Errno(libc::EAGAIN)));
        let mut all = vec![0; 8 + room];
        reader.read_exact(&mut all).unwrap();
        assert_eq!(all[..8], *b" letters");
        drop(writer);
        assert_eq!(read_now(out, &mut chunk, 3), Ok(0));
    }

    fn memory_file() -> std::os::fd::OwnedFd {
        // SAFETY: a name that ends with a null byte.
        let fd = unsafe { libc::syscall(libc::SYS_memfd_create, c"letters".as_ptr(), 0) };
        // SAFETY: just made, and nobody else's.
        unsafe { super::super::owned(fd) }
    }
}
