//! The cases of the C programs in `tests/c` as tests.

use std::path::PathBuf;

use crate::c_program::c_program_with;
use crate::comparison::{Comparison, Variant};
use crate::skip::{Skip, skip};

/// Makes a test of each case of the program `tests/c/<program>.c`: compares it on the kernel and
/// with the library, in the ways of one of this crate's lists ([`VARIANTS`](crate::VARIANTS), ...).
/// Options of the C compiler may follow.
///
/// In the module `over_ipv6`, a further test compares each case on sockets of `AF_INET6`, with the
/// same IPv4 addresses.
///
/// In the module `over_real_ipv6`, another compares it on sockets of `AF_INET6` with IPv6
/// addresses.
///
/// In the module `left_to_kernel`, further tests compare each case for every
/// [`Reason`](crate::Reason) for which all its sockets stay the kernel's. They mostly sleep: `cargo
/// xtask test` runs them many at once.
#[macro_export]
macro_rules! compare_cases {
    ($program:literal, $variants:ident, [$($case:ident),* $(,)?] $(,)?) => {
        $crate::compare_cases!($program, $variants, [$($case),*], &[]);
    };
    ($program:literal, $variants:ident, [$($case:ident),* $(,)?], $options:expr $(,)?) => {
        const fn case(name: &'static str) -> $crate::Case {
            $crate::Case {
                program: $program,
                name,
                options: $options,
            }
        }

        $(
            #[test]
            fn $case() {
                case(stringify!($case)).compare($crate::Comparison::new, $crate::$variants);
            }
        )*

        mod over_ipv6 {
            $crate::compare_cases!(@over over_ipv6, $variants, [$($case),*]);
        }

        mod over_real_ipv6 {
            $crate::compare_cases!(@over over_real_ipv6, $variants, [$($case),*]);
        }

        mod left_to_kernel {
            $(
                mod $case {
                    $crate::compare_cases!(
                        @reasons $case, loopback Loopback, option Option, rule Rule, forked Forked,
                        no_capability NoCapability, held Held
                    );
                }
            )*
        }
    };
    (@over $over:ident, $variants:ident, [$($case:ident),*]) => {
        $(
            #[test]
            #[ignore = "for cargo xtask test, many at once"]
            fn $case() {
                let first = &$crate::$variants[..1];
                super::case(stringify!($case)).compare($crate::Comparison::$over, first);
            }
        )*
    };
    (@reasons $case:ident, $($name:ident $reason:ident),*) => {
        $(
            #[test]
            #[ignore = "for cargo xtask test, many at once"]
            fn $name() {
                let case = super::super::case(stringify!($case));
                $crate::compare_left_to_kernel(&case, $crate::Reason::$reason);
            }
        )*
    };
}

/// A case of a C program of `tests/c`.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name of the source, without `.c`.
    pub program: &'static str,
    /// The program's argument.
    pub name: &'static str,
    /// For the C compiler.
    pub options: &'static [&'static str],
}

impl Case {
    /// Compares what the case says and how it ends, on the kernel and with the library, in these
    /// ways.
    ///
    /// # Panics
    ///
    /// If anything differs.
    pub fn compare(&self, stage: fn() -> Result<Comparison, Skip>, variants: &[Variant]) {
        match stage() {
            Ok(stage) => stage.assert_same(&self.build(), &[self.name], variants),
            Err(reason) => skip(reason),
        }
    }

    /// # Panics
    ///
    /// If the program cannot be built.
    pub(crate) fn build(&self) -> PathBuf {
        c_program_with(self.program, self.options)
    }
}
