//! The extra API of libvma, for programs that run with it preloaded or without: without,
//! [`Api::get`] finds nothing, and the program uses its sockets as ever.
//!
//! ```
//! use std::net::UdpSocket;
//! use std::os::fd::AsFd;
//!
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! socket.send_to(b"question", socket.local_addr()?)?;
//! let mut buffer = [0; 2048];
//! match vma_api::Api::get() {
//!     // Packets as they are in the library's memory.
//!     Some(api) => {
//!         let received = api.receive(socket.as_fd(), &mut buffer, 0)?;
//!         received.for_each(|octets| assert_eq!(octets, b"question"));
//!     }
//!     None => assert_eq!(socket.recv(&mut buffer)?, 8),
//! }
//! # Ok::<_, std::io::Error>(())
//! ```

#![warn(missing_docs)]

pub mod abi;
mod callback;
mod packets;
mod ring;

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, pthread_t, socklen_t};

use abi::{SO_VMA_GET_API, Table};
pub use callback::{Held, Seen, Verdict};
pub use packets::Received;
pub use ring::{Arrived, Ring, RingPacket, What};

/// The library that is preloaded into this process.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    table: &'static Table,
}

impl Api {
    /// `None`: no library is preloaded.
    pub fn get() -> Option<Self> {
        let mut table: *const Table = std::ptr::null();
        const LEN: socklen_t = 8;
        const _: () = assert!(LEN as usize == size_of::<*const Table>());
        let mut len = LEN;
        // SAFETY: the library writes a pointer there; the kernel refuses the descriptor.
        let found = unsafe {
            libc::getsockopt(
                -1,
                libc::SOL_SOCKET,
                SO_VMA_GET_API,
                (&raw mut table).cast(),
                &raw mut len,
            )
        };
        if found != 0 {
            return None;
        }
        // SAFETY: null, or the library's table, which lasts as long as the process.
        unsafe { table.as_ref() }.map(|table| Self { table })
    }

    /// The functions themselves.
    pub fn table(self) -> &'static Table {
        self.table
    }

    /// Whether the library has all of these functions ([`abi::supported`]).
    pub fn supports(self, functions: u64) -> bool {
        self.table.vma_extra_supported_mask & functions == functions
    }

    /// Puts a rule of `libvma.conf` in front of all others. Sockets that were bound or connected
    /// before keep to those that were in force then.
    ///
    /// # Errors
    /// `EINVAL`: it is no rule; the library's log says where.
    pub fn add_rule(self, rule: &str) -> io::Result<()> {
        let rule = CString::new(rule)?;
        // SAFETY: a string.
        check(unsafe { (self.table.add_conf_rule)(rule.as_ptr()) }).map(drop)
    }

    /// Whether sockets that a thread makes from here on are accelerated.
    ///
    /// # Errors
    /// The call is made from within the library.
    pub fn offload_thread(self, thread: pthread_t, offload: bool) -> io::Result<()> {
        // SAFETY: integers.
        check(unsafe { (self.table.thread_offload)(c_int::from(offload), thread) }).map(drop)
    }

    /// Writes the counters of a socket, or of all, into the library's log, at a level of
    /// `vlog_levels_t` (3: information).
    ///
    /// # Errors
    /// `EINVAL`: the library does not know the socket.
    pub fn dump_statistics(self, socket: Option<BorrowedFd<'_>>, level: c_int) -> io::Result<()> {
        let fd = socket.map_or(0, |socket| socket.as_raw_fd());
        // SAFETY: integers.
        check(unsafe { (self.table.dump_fd_stats)(fd, level) }).map(drop)
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
