//! A function whose name asks (`is_`, `has_`, `are_`, `can_`) changes nothing and returns
//! something: one that acts has a verb for a name.

use testkit::{SOURCES, rust_sources};

const WORDS: [&str; 5] = ["is_", "has_", "are_", "can_", "was_"];

#[test]
fn functions_whose_name_asks_change_nothing() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (file, text) in rust_sources(&SOURCES) {
        for signature in signatures(&text) {
            count += 1;
            if signature.contains("&mut self") || !signature.contains("->") {
                wrong.push(format!("{file}: {signature}"));
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
