//! Comments are within 100 columns, but for tables, examples and what has no blank to break at.

use testkit::rust_sources;

const PLACES: [&str; 10] = [
    "crates",
    "fuzz/targets",
    "libvma",
    "models",
    "sockperf-rs",
    "tests",
    "vma-run",
    "vma-stats",
    "vmad",
    "xtask",
];
const COLUMNS_MAX: usize = 100;
/// So many lines are longer for a reason: it may only become fewer.
const LONGER_MAX: usize = 30;

#[test]
fn comments_are_within_the_columns() {
    let mut longer = Vec::new();
    let mut count = 0;
    for (file, text) in rust_sources(&PLACES) {
        for (number, line) in text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            count += usize::from(is_comment);
            if is_comment && line.chars().count() > COLUMNS_MAX {
                longer.push(format!("{file}:{}", number + 1));
            }
        }
    }
    assert!(count > 10_000, "only {count} comments were found");
    assert!(
        longer.len() <= LONGER_MAX,
        "{} are longer: {longer:#?}",
        longer.len()
    );
}
