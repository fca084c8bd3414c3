//! A function whose name asks (`is_`, `has_`, `are_`, `can_`) changes nothing and returns something: one that acts has a verb for a name.

use std::fs;
use std::path::{Path, PathBuf};

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
    for file in PLACES
        .iter()
        .flat_map(|place| files(&workspace.join(place)))
    {
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

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("it is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true if path.ends_with("target") => Vec::new(),
            true => files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .collect()
}
