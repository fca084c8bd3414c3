//! SYN cookies (RFC 4987 §3.6), in the manner of Linux (`net/ipv4/syncookies.c`): a connection's
//! first state in the sequence number of the SYN-ACK, so that a flood of SYNs takes no memory.
//!
//! The number is `hash(flow) + SEG.SEQ + count * 2^24 + (hash(flow, count) + data) mod 2^24`, where
//! `count` is the minute and `data` the index of the MSS. What else the SYN offered is in the lower
//! bits of the SYN-ACK's timestamp, which the peer echoes; without timestamps there is neither
//! window scaling nor SACK.

use core::net::SocketAddr;

use crate::secret::{Purpose, SecretKey};
use crate::timestamp::is_before;
use crate::{Instant, SeqNumber};

/// The maximum segment sizes that a cookie can tell apart, chosen by Linux from measurements: what
/// a peer offers is rounded down.
const MSS_TABLE: [u16; 4] = [536, 1300, 1440, 1460];
/// The same over IPv6 (`net/ipv6/syncookies.c`).
const IPV6_MSS_TABLE: [u16; 4] = [1220, 1420, 1440, 8940];

const fn mss_table(local: SocketAddr) -> &'static [u16; 4] {
    match local {
        SocketAddr::V4(_) => &MSS_TABLE,
        SocketAddr::V6(_) => &IPV6_MSS_TABLE,
    }
}

/// Minutes for which a cookie is good: this one and the last.
const MAX_AGE: u32 = 2;
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

/// The lower bits of a timestamp that carry options.
const OPTION_BITS: u32 = 6;
const OPTION_MASK: u32 = (1 << OPTION_BITS) - 1;
const SCALE_MASK: u32 = 0xf;
/// No window scaling.
const NO_SCALE: u32 = 0xf;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;

/// The options of a SYN that a timestamp carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieOptions {
    /// Not above 14 (RFC 7323 §2.3).
    pub window_scale: Option<u8>,
    pub sack: bool,
    pub ecn: bool,
}

/// The initial sequence number of the SYN-ACK that answers a SYN with `seq` and a maximum segment
/// size of `mss`.
#[must_use]
pub fn issue(
    key: &SecretKey,
    local: SocketAddr,
    remote: SocketAddr,
    seq: SeqNumber,
    mss: u16,
    now: Instant,
) -> SeqNumber {
    let index = mss_table(local).iter().rposition(|&entry| entry <= mss);
    let data = u32::try_from(index.unwrap_or(0)).unwrap_or(0);
    let count = minutes(now);
    let base = key.hash(Purpose::CookieBase, local, remote, 0);
    let mask = key.hash(Purpose::CookieData, local, remote, count);
    SeqNumber(base) + seq.0 + (count << COUNT_BITS) + (mask.wrapping_add(data) & COUNT_MASK)
}

/// Whether `cookie`, which the ACK of a handshake acknowledges, was issued for the flow and the
/// SYN's `seq` within the last two minutes; then the maximum segment size.
///
/// What is computed does not depend on what is found.
#[must_use]
pub fn verify(
    key: &SecretKey,
    local: SocketAddr,
    remote: SocketAddr,
    seq: SeqNumber,
    cookie: SeqNumber,
    now: Instant,
) -> Option<u16> {
    let base = key.hash(Purpose::CookieBase, local, remote, 0);
    let rest = cookie.0.wrapping_sub(base).wrapping_sub(seq.0);
    let now_count = minutes(now);
    // The cookie has the lower 8 bits of the count.
    let age = now_count.wrapping_sub(rest >> COUNT_BITS) & (u32::MAX >> COUNT_BITS);
    let mask = key.hash(
        Purpose::CookieData,
        local,
        remote,
        now_count.wrapping_sub(age),
    );
    let data = rest.wrapping_sub(mask) & COUNT_MASK;
    let mss = usize::try_from(data)
        .ok()
        .and_then(|index| mss_table(local).get(index).copied());
    mss.filter(|_| age < MAX_AGE)
}

/// The timestamp of the SYN-ACK: `clock`, or a little less, with the options in its lower bits.
#[must_use]
pub fn timestamp_with(options: &CookieOptions, clock: u32) -> u32 {
    let scale = options.window_scale.map_or(NO_SCALE, u32::from) & SCALE_MASK;
    let sack = if options.sack { SACK_BIT } else { 0 };
    let ecn = if options.ecn { ECN_BIT } else { 0 };
    let value = clock & !OPTION_MASK | scale | sack | ecn;
    // It must not be ahead of the clock: the connection's next timestamp would be older.
    if is_before(clock, value) {
        value.wrapping_sub(1 << OPTION_BITS)
    } else {
        value
    }
}

/// The options in a timestamp that the peer echoes.
#[must_use]
pub fn options_from(echo: u32) -> CookieOptions {
    let scale = echo & SCALE_MASK;
    CookieOptions {
        window_scale: (scale != NO_SCALE).then(|| u8::try_from(scale).unwrap_or(0)),
        sack: echo & SACK_BIT != 0,
        ecn: echo & ECN_BIT != 0,
    }
}

/// Minutes since the clock's origin. 2^32 of them are 8000 years.
fn minutes(now: Instant) -> u32 {
    u32::try_from(now.as_nanos() / 60_000_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
