//! Socket addresses as the kernel has them, and as the program's memory holds them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{c_int, c_void, sa_family_t, sockaddr_in, sockaddr_in6, socklen_t};

const INET6_LEN: usize = size_of::<sockaddr_in6>();
/// Without the scope: the kernel takes such an address, too (`SIN6_LEN_RFC2133`).
const INET6_LEN_MIN: usize = 24;
const _: () = assert!(SOCKADDR_IN_LEN == 16 && INET6_LEN == 28);

/// Bytes of a `struct sockaddr_in`.
pub const SOCKADDR_IN_LEN: usize = size_of::<sockaddr_in>();

/// A `struct sockaddr_in`.
#[inline]
pub fn sockaddr_in(address: SocketAddrV4) -> [u8; SOCKADDR_IN_LEN] {
    let mut bytes = [0; SOCKADDR_IN_LEN];
    bytes[..2].copy_from_slice(&(libc::AF_INET as sa_family_t).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&address.ip().octets());
    bytes
}

/// A `struct sockaddr_in` or `struct sockaddr_in6`.
#[derive(Clone, Copy, Debug)]
pub struct Sockaddr {
    bytes: [u8; INET6_LEN],
    len: usize,
}

impl Sockaddr {
    /// Its bytes: 16 or 28.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl From<SocketAddr> for Sockaddr {
    #[inline]
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; INET6_LEN];
        let family = match address {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        bytes[..2].copy_from_slice(&(family as sa_family_t).to_ne_bytes());
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let len = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                SOCKADDR_IN_LEN
            }
            SocketAddr::V6(address) => {
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..].copy_from_slice(&address.scope_id().to_ne_bytes());
                INET6_LEN
            }
        };
        Self { bytes, len }
    }
}

/// Reads an address of IPv4. `None`: it is of another family.
///
/// # Safety
/// `address` must be readable for [`SOCKADDR_IN_LEN`] bytes.
#[inline(always)]
pub unsafe fn read_sockaddr_in(address: *const c_void) -> Option<SocketAddrV4> {
    // SAFETY: the caller's promise.
    let start = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
    // As it lies in memory.
    let ip = Ipv4Addr::from(start.sin_addr.s_addr.to_ne_bytes());
    (c_int::from(start.sin_family) == libc::AF_INET)
        .then(|| SocketAddrV4::new(ip, u16::from_be(start.sin_port)))
}

/// Reads a socket address; `None` if it is too short or of another family.
///
/// # Safety
/// `address` must be readable for `len` bytes, or for those of a `struct sockaddr_in6` if they are
/// fewer.
#[inline]
pub unsafe fn read_sockaddr(address: *const c_void, len: socklen_t) -> Option<SocketAddr> {
    let len = len as usize;
    if address.is_null() || len < SOCKADDR_IN_LEN {
        return None;
    }
    // SAFETY: the caller says that `len` bytes are readable, and they are enough.
    if let Some(address) = unsafe { read_sockaddr_in(address) } {
        return Some(address.into());
    }
    // SAFETY: as above.
    let family = unsafe { address.cast::<sa_family_t>().read_unaligned() };
    if c_int::from(family) != libc::AF_INET6 || len < INET6_LEN_MIN {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { read_inet6(address, len) })
}

/// Apart from the shorter way of IPv4.
///
/// # Safety
/// As for [`read_sockaddr`], and at least [`INET6_LEN_MIN`] bytes.
#[inline(never)]
unsafe fn read_inet6(address: *const c_void, len: usize) -> SocketAddr {
    let start = address.cast::<[u8; INET6_LEN_MIN]>();
    // SAFETY: the caller's promise.
    let [_, _, p0, p1, f0, f1, f2, f3, ip @ ..] = unsafe { start.read_unaligned() };
    let scope = (len >= INET6_LEN).then(|| {
        let place = start.wrapping_add(1).cast::<u32>();
        // SAFETY: the caller's promise.
        unsafe { place.read_unaligned() }
    });
    let port = u16::from_be_bytes([p0, p1]);
    let flow = u32::from_ne_bytes([f0, f1, f2, f3]);
    SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope.unwrap_or(0)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<SocketAddr> {
        // SAFETY: the bytes are readable.
        unsafe { read_sockaddr(bytes.as_ptr().cast(), bytes.len() as socklen_t) }
    }

    #[test]
    fn what_was_written_reads_back() {
        for text in ["10.1.2.3:4097", "[2001:db8::7%3]:80", "[::ffff:10.0.0.1]:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let written = Sockaddr::from(address);
            assert_eq!(read(written.as_bytes()), Some(address));
            let (family, len) = match address {
                SocketAddr::V4(_) => (libc::AF_INET, 16),
                SocketAddr::V6(_) => (libc::AF_INET6, 28),
            };
            assert_eq!(written.as_bytes()[..2], (family as u16).to_ne_bytes());
            assert_eq!(written.as_bytes().len(), len);
        }
    }

    #[test]
    fn what_is_too_short_is_no_address() {
        let inet = Sockaddr::from("10.1.2.3:4097".parse::<SocketAddr>().unwrap());
        assert_eq!(read(&inet.as_bytes()[..15]), None);
        let inet6: SocketAddr = "[2001:db8::7%3]:80".parse().unwrap();
        let bytes = Sockaddr::from(inet6);
        assert_eq!(read(&bytes.as_bytes()[..23]), None);
        let without_scope = "[2001:db8::7]:80".parse().unwrap();
        assert_eq!(read(&bytes.as_bytes()[..24]), Some(without_scope));
        assert_eq!(read(&bytes.as_bytes()[..27]), Some(without_scope));
        let mut other = *bytes.as_bytes().first_chunk::<28>().unwrap();
        other[..2].copy_from_slice(&1u16.to_ne_bytes());
        assert_eq!(read(&other), None);
        // SAFETY: nothing is read.
        assert_eq!(unsafe { read_sockaddr(std::ptr::null(), 28) }, None);
    }
}
