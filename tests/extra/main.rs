//! The extra API (`mellanox/vma_extra.h`), as C programs use it that were compiled against the
//! header that is shipped.
#![allow(clippy::unwrap_used, reason = "tests")]

mod callbacks;
mod rings;
mod xtreme;
mod zero_copy;

use testkit::{Comparison, Namespaces, Pair, Skip, c_program_with, echo_streams};

const ECHO_PORT: u16 = 7103;

const HEADERS: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../packaging/include");

/// What a case of a program says with the library.
fn said_in(
    comparison: &Comparison,
    program: &str,
    case: &str,
    environment: &[(&str, &str)],
) -> String {
    let program = c_program_with(program, &[HEADERS]);
    let finished = comparison
        .preloaded(&program, &[case], environment)
        .unwrap();
    assert!(
        finished.status.success(),
        "{case} {environment:?}: {}\n{}",
        finished.status,
        finished.stdout
    );
    finished.stdout
}

/// With somebody who sends back what streams bring.
fn with_echo() -> Result<Comparison, Skip> {
    let pair = Namespaces::pair()?;
    echo_streams(&pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    Ok(Comparison::over(pair))
}
