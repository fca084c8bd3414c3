//! The library's end in a process.

use crate::process_state::{engine, retired};
use crate::{guard, stats_file};

/// The process ends: vma_stats need not see it any more, and what descendants have of it goes on.
pub(crate) fn process_ends() {
    if let Some(engine) = retired() {
        let _ = guard::contained(|| engine.retired_ends());
    }
    if let Some(engine) = engine() {
        let _ = guard::contained(|| {
            stats_file::process_ends();
            engine.process_ends();
        });
    }
}
