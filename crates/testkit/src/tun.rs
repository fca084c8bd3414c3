//! IP packets as they are, on a link whose far end is the test.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;
use crate::skip::Skip;
use crate::sys;

/// A point-to-point link (TUN): what the kernel of a namespace sends into it is received here.
#[derive(Debug)]
pub struct Tun {
    file: File,
    /// Of the header before each packet.
    header_len: usize,
}

/// `struct virtio_net_hdr`: all zeroes is a packet as it is.
const OFFLOAD_HEADER_LEN: usize = 10;

impl Tun {
    /// Makes interface `name` in `namespace`, with `address` (prefix length 24), up. Like all links
    /// of tests it has no IPv6 address, so that the kernel sends nothing on its own.
    pub fn create(
        namespace: &Namespace,
        name: &str,
        address: Ipv4Addr,
        mtu_bytes: u16,
    ) -> Result<Self, Skip> {
        Self::make(namespace, name, address, mtu_bytes, false)
    }

    /// As [`Tun::create`], for a kernel that leaves segmentation to the device: TCP packets may be
    /// longer than the MTU, and their checksums are not filled in.
    pub fn with_offload(
        namespace: &Namespace,
        name: &str,
        address: Ipv4Addr,
        mtu_bytes: u16,
    ) -> Result<Self, Skip> {
        Self::make(namespace, name, address, mtu_bytes, true)
    }

    fn make(
        namespace: &Namespace,
        name: &str,
        address: Ipv4Addr,
        mtu_bytes: u16,
        offload: bool,
    ) -> Result<Self, Skip> {
        let reason = |error: io::Error| Skip::new(format!("cannot make a TUN device: {error}"));
        let link = CString::new(name).map_err(|error| reason(error.into()))?;
        let file = namespace
            .enter(|| sys::tun_device(&link, offload))
            .map_err(reason)?;
        // In this order: an MTU below 1280 takes IPv6 from the link, and its settings with it. A
        // kernel may have no IPv6.
        let no_ipv6_address = if Path::new("/proc/sys/net/ipv6").exists() {
            format!("link set {name} addrgenmode none\n")
        } else {
            String::new()
        };
        let lines = format!(
            "{no_ipv6_address}\
             link set {name} mtu {mtu_bytes} txqueuelen {QUEUE_PACKETS}\n\
             address add {address}/24 dev {name}\n\
             link set {name} up\n"
        );
        namespace.ip_batch(&lines).map_err(reason)?;
        let header_len = if offload { OFFLOAD_HEADER_LEN } else { 0 };
        Ok(Self { file, header_len })
    }

    /// Lets `packet` arrive at the namespace's kernel.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let header = [0; OFFLOAD_HEADER_LEN];
        let parts = [
            IoSlice::new(&header[..self.header_len]),
            IoSlice::new(packet),
        ];
        let written = (&self.file).write_vectored(&parts)?;
        assert_eq!(
            written,
            self.header_len + packet.len(),
            "a TUN device takes whole packets"
        );
        Ok(())
    }

    /// The next packet that the namespace's kernel sends, into `buffer`; `None` if there is none
    /// within `timeout`. Returns its length.
    pub fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<usize>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(length) = self.try_receive(buffer)? {
                return Ok(Some(length));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !sys::wait_readable(self.file.as_fd(), left)? {
                return Ok(None);
            }
        }
    }

    /// The next packet if there is one. Returns its length.
    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut header = [0; OFFLOAD_HEADER_LEN];
        let (header, packet) = (
            IoSliceMut::new(&mut header[..self.header_len]),
            IoSliceMut::new(buffer),
        );
        match (&self.file).read_vectored(&mut [header, packet]) {
            Ok(length) => Ok(Some(length.saturating_sub(self.header_len))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What the kernel sends while the test is not looking must not be lost: losses are the test's to
/// make.
const QUEUE_PACKETS: u32 = 10_000;

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
