//! Rates, and amounts in flight.

/// "Infinity" of what is compared as a rate or an amount.
pub(super) const UNBOUNDED_RATE: u64 = u64::MAX;
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// What goes over a path of `rate` octets a second in `nanos`.
pub(super) fn octets_in(rate: u64, nanos: u64) -> u64 {
    match rate.checked_mul(nanos) {
        Some(product) => product / 1_000_000_000,
        // More than 18 GB/s for a second.
        None => (rate / 1_000_000).saturating_mul(nanos / 1000),
    }
}

/// `percent` of an amount, in octets.
pub(super) fn percent_of(octets: u64, percent: u32) -> u64 {
    octets.saturating_mul(u64::from(percent)) / 100
}

/// As an amount in flight.
pub(super) fn octets(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(UNBOUNDED)
}
