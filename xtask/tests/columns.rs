//! Comments are within 100 columns, but for tables, examples and what has no blank to break at.

use std::fs;
use std::path::Path;

use testkit::files_below;

const COLUMNS_MAX: usize = 100;
/// So many lines are longer for a reason: it may only become fewer.
const LONGER_MAX: usize = 30;

#[test]
fn comments_are_within_the_columns() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut longer = Vec::new();
    let mut count = 0;
    for place in ["crates", "fuzz/targets", "libvma", "models", "sockperf-rs"]
        .into_iter()
        .chain(["tests", "vma-run", "vma-stats", "vmad", "xtask"])
    {
        let files = files_below(&workspace.join(place));
        for file in files
            .iter()
            .filter(|it| it.extension().is_some_and(|it| it == "rs"))
        {
            let text = fs::read_to_string(file).expect("it can be read");
            for (number, line) in text.lines().enumerate() {
                let is_comment = line.trim_start().starts_with("//");
                count += usize::from(is_comment);
                if is_comment && line.chars().count() > COLUMNS_MAX {
                    longer.push(format!("{}:{}", file.display(), number + 1));
                }
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
