//! IP packets as they are, on a link whose far end is the test.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::namespace::Namespace;
use crate::skip::Skip;
use crate::sys;

/// A point-to-point link (TUN): what the kernel of a namespace sends into it is received here.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes interface `name` in `namespace`, with `address` (prefix length 24), up. Like all links of tests it has no
    /// IPv6 address, so that the kernel sends nothing on its own.
    pub fn create(
        namespace: &Namespace,
        name: &str,
        address: Ipv4Addr,
        mtu_bytes: u16,
    ) -> Result<Self, Skip> {
        let reason = |error: io::Error| Skip::new(format!("cannot make a TUN device: {error}"));
        let link = CString::new(name).map_err(|error| reason(error.into()))?;
        let file = namespace.enter(|| sys::tun_device(&link)).map_err(reason)?;
        let lines = format!(
            "link set {name} mtu {mtu_bytes} addrgenmode none\n\
             address add {address}/24 dev {name}\n\
             link set {name} up\n"
        );
        namespace.ip_batch(&lines).map_err(reason)?;
        Ok(Self { file })
    }

    /// Lets `packet` arrive at the namespace's kernel.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write_all(packet)
    }

    /// The next packet that the namespace's kernel sends, into `buffer`; `None` if there is none within `timeout`.
    /// Returns its length.
    pub fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<usize>> {
        let deadline = Instant::now() + timeout;
        loop {
            match (&self.file).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !sys::wait_readable(self.file.as_fd(), left)? {
                return Ok(None);
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
