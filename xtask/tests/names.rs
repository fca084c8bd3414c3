//! A function whose name asks (`is_`, `has_`, `are_`, `can_`) changes nothing and returns
//! something: one that acts has a verb for a name.

use std::fs;
use std::path::Path;

use testkit::files_below;

const WORDS: [&str; 5] = ["is_", "has_", "are_", "can_", "was_"];
/// What ships, and what tests it.
const PLACES: [&str; 7] = [
    "crates",
    "libvma/src",
    "sockperf-rs/src",
    "vma-run/src",
    "vma-stats/src",
    "vmad/src",
    "xtask/src",
];

#[test]
fn functions_whose_name_asks_change_nothing() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut count = 0;
    let files = PLACES
        .iter()
        .flat_map(|place| files_below(&workspace.join(place)));
    for file in files.filter(|file| file.extension().is_some_and(|it| it == "rs")) {
        let text = fs::read_to_string(&file).expect("it can be read");
        for signature in signatures(&text) {
            count += 1;
            if signature.contains("&mut self") || !signature.contains("->") {
                wrong.push(format!("{}: {signature}", file.display()));
            }
        }
    }
    assert!(count > 300, "only {count} were found");
    assert_eq!(wrong, Vec::<String>::new());
}

/// From the name of each such function to its body.
fn signatures(text: &str) -> impl Iterator<Item = &str> {
    let asks = |name: &&str| WORDS.iter().any(|word| name.starts_with(word));
    let functions = text.split("fn ").skip(1).filter(asks);
    functions.filter_map(|from| from.split(['{', ';']).next())
}
