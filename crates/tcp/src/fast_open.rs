//! Fast Open (RFC 7413): data in the SYN. What a stack has of it beside its connections: which uses
//! of it are on, the keys of a server's cookies, and a client's memory of the cookies that it was
//! given.

use core::net::IpAddr;

use siphasher::sip::SipHasher24;

use crate::address;

mod cache;

pub use cache::{FastOpenAttempt, FastOpenCache, FastOpenLesson};
pub use wire::tcp::FastOpen;

/// `tcp_fastopen`: which uses are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are independent, as the bits of the sysctl are"
)]
pub struct FastOpenModes {
    /// Connections may be opened with data in the SYN.
    pub client: bool,
    /// Listeners that ask for it (`TCP_FASTOPEN`) take data from SYNs.
    pub server: bool,
    /// Data is sent without a cookie.
    pub client_without_cookie: bool,
    /// Data is taken without a cookie.
    pub server_without_cookie: bool,
    /// Listeners need not ask: their limit is the backlog.
    pub all_listeners: bool,
}

impl FastOpenModes {
    /// From the sysctl's bits (kernel `Documentation/networking/ip-sysctl.rst`).
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self {
            client: bits & 0x1 != 0,
            server: bits & 0x2 != 0,
            client_without_cookie: bits & 0x4 != 0,
            server_without_cookie: bits & 0x200 != 0,
            all_listeners: bits & 0x400 != 0,
        }
    }
}

impl Default for FastOpenModes {
    /// As Linux: clients only.
    fn default() -> Self {
        Self::from_bits(0x1)
    }
}

/// The keys of a server's cookies (`tcp_fastopen_key`, `TCP_FASTOPEN_KEY`). All servers behind one
/// address need the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpenKeys {
    primary: [u8; 16],
    /// Cookies of this one are good, too, and are replaced: so keys change without a gap.
    backup: Option<[u8; 16]>,
}

impl core::fmt::Debug for FastOpenKeys {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("FastOpenKeys(..)")
    }
}

/// What a cookie is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookieWorth {
    Nothing,
    Good,
    /// Made with the backup key.
    Old,
}

impl FastOpenKeys {
    #[must_use]
    pub const fn new(primary: [u8; 16], backup: Option<[u8; 16]>) -> Self {
        Self { primary, backup }
    }

    /// The keys of `TCP_FASTOPEN_KEY`: 16 octets, or 32 with the backup key; `None` for any other
    /// length (`EINVAL`).
    #[must_use]
    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let (primary, rest) = octets.split_first_chunk::<16>()?;
        match rest {
            [] => Some(Self::new(*primary, None)),
            backup => Some(Self::new(*primary, Some(backup.try_into().ok()?))),
        }
    }

    /// The cookie of a client (RFC 7413 §4.1.2), in its wire form. It is that of Linux, so that
    /// servers may share a key.
    pub(crate) fn cookie(
        &self,
        client: IpAddr,
        server: IpAddr,
        is_experimental: bool,
    ) -> Option<FastOpen> {
        let octets = mac(&self.primary, client, server);
        FastOpen::from_cookie(&octets, is_experimental)
    }

    pub(crate) fn judge(&self, cookie: &[u8], client: IpAddr, server: IpAddr) -> CookieWorth {
        if cookie == mac(&self.primary, client, server) {
            return CookieWorth::Good;
        }
        match &self.backup {
            Some(key) if cookie == mac(key, client, server) => CookieWorth::Old,
            _ => CookieWorth::Nothing,
        }
    }
}

/// What to do with a SYN; for [`Connection::open_fast`](crate::Connection::open_fast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpenReply {
    /// The connection opens at once, with the SYN's data.
    pub is_open: bool,
    /// The cookie in the SYN-ACK.
    pub option: Option<FastOpen>,
}

/// How the handshake of a connection that was opened fast ended; for
/// [`Listener::on_fast_open_end`](crate::Listener::on_fast_open_end).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenEnd {
    pub was_reset: bool,
    pub was_accepted: bool,
}

/// SipHash-2-4 over both addresses, little-endian (`__tcp_fastopen_cookie_gen_cipher`).
fn mac(key: &[u8; 16], client: IpAddr, server: IpAddr) -> [u8; 8] {
    let hasher = SipHasher24::new_with_key(key);
    let hash = match (client, server) {
        (IpAddr::V4(client), IpAddr::V4(server)) => {
            let [a, b, c, d] = client.octets();
            let [e, f, g, h] = server.octets();
            hasher.hash(&[a, b, c, d, e, f, g, h])
        }
        (client, server) => {
            let mut message = [0; 32];
            let octets = [client, server].map(address::octets);
            for (octet, value) in message.iter_mut().zip(octets.as_flattened()) {
                *octet = *value;
            }
            hasher.hash(&message)
        }
    };
    hash.to_le_bytes()
}

#[cfg(test)]
mod tests;
