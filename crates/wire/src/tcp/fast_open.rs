//! The Fast Open option (RFC 7413 §4.1.1), also in the form it had before it got a number.

use super::options::Writer;

/// The option of a SYN: asks for a cookie, or is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpen {
    bytes: [u8; Self::MAX_COOKIE_LEN],
    len: u8,
    is_experimental: bool,
}

impl FastOpen {
    /// The longest cookie, in octets.
    pub const MAX_COOKIE_LEN: usize = 16;

    /// The shortest cookie, in octets.
    pub const MIN_COOKIE_LEN: usize = 4;

    /// Asks for a cookie. `is_experimental`: under the number for experiments with a magic (RFC
    /// 6994), as before RFC 7413.
    pub const fn request(is_experimental: bool) -> Self {
        Self {
            bytes: [0; Self::MAX_COOKIE_LEN],
            len: 0,
            is_experimental,
        }
    }

    /// A cookie; `None` if its length is not even or out of range.
    pub fn from_cookie(cookie: &[u8], is_experimental: bool) -> Option<Self> {
        let range = Self::MIN_COOKIE_LEN..=Self::MAX_COOKIE_LEN;
        if !cookie.len().is_multiple_of(2) || !range.contains(&cookie.len()) {
            return None;
        }
        let mut option = Self::request(is_experimental);
        option
            .bytes
            .get_mut(..cookie.len())?
            .copy_from_slice(cookie);
        option.len = u8::try_from(cookie.len()).ok()?;
        Some(option)
    }

    /// The cookie, or nothing if one is asked for.
    pub fn cookie(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Whether the option has the experimental form; the answer should have the same.
    pub const fn is_experimental(&self) -> bool {
        self.is_experimental
    }

    /// What an option with `data` makes of what an earlier one said. As Linux
    /// (`tcp_parse_fastopen_option`), an odd length changes nothing, and an impossible one revokes.
    pub(super) fn parse(earlier: Option<Self>, data: &[u8], is_experimental: bool) -> Option<Self> {
        match data.len() {
            0 => Some(Self::request(is_experimental)),
            len if !len.is_multiple_of(2) => earlier,
            _ => Self::from_cookie(data, is_experimental),
        }
    }

    /// Padded to whole words.
    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        let [high, low] = MAGIC;
        if self.is_experimental {
            writer.put(&[EXPERIMENT, self.len.wrapping_add(4), high, low]);
        } else {
            writer.put(&[FAST_OPEN, self.len.wrapping_add(2)]);
        }
        writer.put(self.cookie());
        if !writer.len().is_multiple_of(4) {
            writer.put(&[super::options::NOP; 2]);
        }
    }
}

impl core::fmt::Debug for FastOpen {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = if self.is_experimental { "FOEXP" } else { "FO" };
        write!(formatter, "{name} {:02x?}", self.cookie())
    }
}

/// RFC 7413 §7
pub(super) const FAST_OPEN: u8 = 34;
/// RFC 4727
pub(super) const EXPERIMENT: u8 = 254;
/// RFC 6994's identifier of Fast Open.
pub(super) const MAGIC: [u8; 2] = [0xf9, 0x89];
