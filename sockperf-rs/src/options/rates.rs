//! `--sweep` and `--search`

use serde::Serialize;

/// Which rates are tested, in messages per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RatePlan {
    /// From the first to the last in equal steps.
    Sweep {
        /// The first.
        from: u32,
        /// The last is not beyond this.
        to: u32,
        /// From one to the next.
        step: u32,
    },
    /// The highest without loss between these, within 1 %.
    Search {
        /// The lowest to try.
        from: u32,
        /// The highest to try.
        to: u32,
    },
}

impl RatePlan {
    /// Reads `from:to:step`.
    pub fn parse_sweep(text: &str) -> Option<Self> {
        match *numbers(text)?.as_slice() {
            [from, to, step] if from <= to => Some(Self::Sweep { from, to, step }),
            _ => None,
        }
    }

    /// Reads `from:to`.
    pub fn parse_search(text: &str) -> Option<Self> {
        match *numbers(text)?.as_slice() {
            [from, to] if from <= to => Some(Self::Search { from, to }),
            _ => None,
        }
    }
}

/// Numbers of at least 1 between colons.
fn numbers(text: &str) -> Option<Vec<u32>> {
    const RATE_MAX: u32 = 1 << 30;
    let number = |part: &str| {
        let number = part.parse().ok()?;
        (1..=RATE_MAX).contains(&number).then_some(number)
    };
    text.split(':').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read() {
        let sweep = RatePlan::Sweep {
            from: 1,
            to: 9,
            step: 4,
        };
        assert_eq!(RatePlan::parse_sweep("1:9:4"), Some(sweep));
        let search = RatePlan::Search { from: 1, to: 9 };
        assert_eq!(RatePlan::parse_search("1:9"), Some(search));
        for bad in [
            "",
            "1",
            "1:2:3:4",
            "0:5:1",
            "9:1:1",
            "1:9:0",
            "a:9:1",
            "1:2000000000:1",
        ] {
            assert_eq!(RatePlan::parse_sweep(bad), None, "{bad}");
        }
    }
}
