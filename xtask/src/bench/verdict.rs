//! The numbers that the project promises.

use super::cost::Cost;
use super::report::Medians;
use crate::failure::Failure;

/// One promise and what was measured.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Verdict {
    pub(super) fn passed(&self) -> bool {
        match self.limit {
            Limit::AtLeast(limit) => self.value >= limit,
            Limit::AtMost(limit) => self.value <= limit,
        }
    }

    /// In a line.
    pub(super) fn said(&self) -> String {
        let limit = match self.limit {
            Limit::AtLeast(limit) => format!("at least {limit}"),
            Limit::AtMost(limit) => format!("at most {limit}"),
        };
        format!("{}: {:.2} ({limit})", self.name, self.value)
    }
}

/// Each in a line of its own.
pub(super) fn lines(verdicts: &[Verdict]) -> String {
    let said: Vec<String> = verdicts.iter().map(Verdict::said).collect();
    said.join("\n")
}

/// Fails if `check` asks for it and one has not passed.
pub(super) fn require(check: bool, verdicts: &[Verdict]) -> Result<(), Failure> {
    if check && !verdicts.iter().all(Verdict::passed) {
        return Err(Failure::new("a number was missed, see above"));
    }
    Ok(())
}

/// Against the kernel as it runs by itself. The gain over the faster of the two kernel lines stands
/// in the table.
pub(super) fn gain(value: f64) -> Verdict {
    Verdict {
        name: "p50, kernel / libvma",
        value,
        limit: Limit::AtLeast(4.0),
    }
}

pub(super) fn received(value: f64) -> Verdict {
    Verdict {
        name: "messages received, libvma / kernel",
        value,
        limit: Limit::AtLeast(2.0),
    }
}

pub(super) fn all(medians: &Medians) -> Vec<Verdict> {
    let ratios = &medians.ratios;
    let slowest = |costs: &[Cost]| costs.iter().map(|cost| cost.nsec).fold(f64::NAN, f64::max);
    vec![
        gain(ratios.kernel_by_libvma),
        Verdict {
            name: "p50, libvma / floor",
            value: ratios.libvma_by_floor,
            limit: Limit::AtMost(1.25),
        },
        Verdict {
            name: "p99, libvma / faster kernel",
            value: ratios.p99_by_kernel,
            limit: Limit::AtMost(1.0),
        },
        received(ratios.received),
        Verdict {
            name: "socket layer, dearest case (nsec)",
            value: slowest(&medians.costs),
            limit: Limit::AtMost(80.0),
        },
        // What a program pays for descriptors that are none of libvma's business.
        Verdict {
            name: "hook, dearest case (nsec)",
            value: slowest(&medians.hooks),
            limit: Limit::AtMost(15.0),
        },
        Verdict {
            name: "epoll set, 10,000 sockets / 10, worst case",
            value: ratios.epoll_growth,
            limit: Limit::AtMost(1.5),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_passes_and_a_missing_number_does_not() {
        let passed = |value, limit| {
            Verdict {
                name: "",
                value,
                limit,
            }
            .passed()
        };
        assert!(passed(4.0, Limit::AtLeast(4.0)));
        assert!(!passed(3.99, Limit::AtLeast(4.0)));
        assert!(passed(1.25, Limit::AtMost(1.25)));
        assert!(!passed(1.26, Limit::AtMost(1.25)));
        assert!(!passed(f64::NAN, Limit::AtMost(1.0)));
        assert!(!passed(f64::NAN, Limit::AtLeast(1.0)));
    }

    #[test]
    fn a_line_says_what_was_asked() {
        assert_eq!(gain(5.0).said(), "p50, kernel / libvma: 5.00 (at least 4)");
    }

    #[test]
    fn every_number_is_judged() {
        let verdicts = all(&Medians::of(&[super::super::report::tests::round(1.0)]));
        let values: Vec<f64> = verdicts.iter().map(|verdict| verdict.value).collect();
        assert_eq!(values, [25.0, 1.25, 0.25, 3.0, 60.0, 7.0, 1.1]);
        assert!(verdicts.iter().all(Verdict::passed));
    }
}
