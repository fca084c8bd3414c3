//! Names and numbers of the algorithms.

use crate::CongestionAlgorithm;

impl CongestionAlgorithm {
    /// The value of `VMA_TCP_CC_ALGO`. What lwIP has, 0, is NewReno.
    #[must_use]
    pub const fn from_vma_value(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::NewReno),
            1 => Some(Self::Cubic),
            2 => Some(Self::None),
            _ => None,
        }
    }

    /// The name that `TCP_CONGESTION` knows; "none" is unknown to kernels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewReno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::None => "none",
        }
    }

    /// The algorithm of that name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::NewReno, Self::Cubic, Self::Bbr, Self::None]
            .into_iter()
            .find(|algorithm| algorithm.name().as_bytes() == name)
    }
}
