//! Files of a crate know each other in one direction: of those that know each other both ways there
//! are a few at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use testkit::{crate_paths, files_below};

/// Crates that are held to it.
const CRATES: [&str; 7] = [
    "crates/dev-xdp",
    "crates/engine",
    "crates/links",
    "crates/stats",
    "crates/tcp",
    "libvma",
    "sockperf-rs",
];
/// As many files may know each other: a trait, what it is implemented for, and what both stand on.
const CIRCLE_MAX: usize = 5;

/// By its name in the crate, the names that a file says.
type Files = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_circle_of_files_is_large() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in CRATES {
        let files = files(&root.join(name).join("src"));
        assert!(files.len() > 10, "{name} has lost its files");
        for circle in circles(&files) {
            assert!(circle.len() <= CIRCLE_MAX, "{name}: {circle:?}");
        }
    }
}

fn files(source: &Path) -> Files {
    let mut texts = BTreeMap::new();
    for file in files_below(source) {
        let place = file.strip_prefix(source).expect("it is below");
        let name = place.with_extension("");
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        if parts
            .last()
            .is_some_and(|last| last != "lib" && last != "tests")
        {
            texts.insert(
                parts.join("::"),
                fs::read_to_string(&file).expect("it can be read"),
            );
        }
    }
    let known = texts.keys().cloned().collect();
    let of = |(name, text): (&String, &String)| (name.clone(), uses(name, text, &known));
    texts.iter().map(of).collect()
}

/// The files among `known` that the code of a file imports from or names by a whole path, but for
/// its tests.
fn uses(name: &str, text: &str, known: &BTreeSet<String>) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let without_comments = |line| str::split(line, "//").next().unwrap_or(line);
    let code: Vec<_> = text.lines().map(without_comments).collect();
    // Of parts of its own.
    let imports = code
        .iter()
        .filter_map(|line| Some(line.split_once("use ")?.1));
    let is_above = |path: &str| ["crate::", "super::"].iter().any(|it| path.starts_with(it));
    let of_parts = imports.filter(|path| !is_above(path));
    let of_parts = of_parts.map(|path| format!("{name}::{}", path_at(path)));
    let paths = crate_paths(&without_super(name, &code.join("\n")));
    let all = of_parts.chain(paths);
    let mut used: BTreeSet<_> = all.filter_map(|path| file_of(&path, known)).collect();
    used.remove(name);
    used
}

/// The text of a file with whole paths in the place of those that lead up from it.
fn without_super(name: &str, text: &str) -> String {
    let parts: Vec<_> = name.split("::").collect();
    let whole = |levels: usize| {
        let above = &parts[..parts.len().saturating_sub(levels)];
        let above = above.iter().map(|part| format!("{part}::"));
        format!("crate::{}", above.collect::<String>())
    };
    text.replace("super::super::", &whole(2))
        .replace("super::", &whole(1))
}

/// The path that a text begins with.
fn path_at(text: &str) -> &str {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

/// The file that a path leads to: the longest part of it that is one.
fn file_of(path: &str, known: &BTreeSet<String>) -> Option<String> {
    let parts: Vec<_> = path.split("::").filter(|part| !part.is_empty()).collect();
    let longest_first = (1..=parts.len()).rev();
    longest_first
        .map(|count| parts[..count].join("::"))
        .find(|path| known.contains(path))
}

/// Those that reach each other.
fn circles(files: &Files) -> Vec<Vec<String>> {
    let reached: BTreeMap<_, _> = files
        .keys()
        .map(|it| (it, reached_from(it, files)))
        .collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, others) in &reached {
        let back = others
            .iter()
            .filter(|other| reached[*other].contains(*file));
        let circle: Vec<_> = back.cloned().collect();
        if !circle.is_empty() && seen.insert(circle.clone()) {
            circles.push(circle);
        }
    }
    circles
}

fn reached_from(file: &str, files: &Files) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![file.to_owned()];
    while let Some(file) = next.pop() {
        for used in &files[&file] {
            if reached.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    reached
}

#[test]
fn circles_are_found() {
    let known = ["a", "a::b", "c", "d"].map(str::to_owned).into();
    let of = |name: &str, text| (name.to_owned(), uses(name, text, &known));
    let files = Files::from([
        of("a", "pub use b::Thing;"),
        of(
            "a::b",
            "pub(in crate::a) fn f() { crate::c::g() } // crate::d",
        ),
        of("c", "use crate::{Other, d};\nuse crate::a::Thing;"),
        of(
            "d",
            "use other_crate::a;\n#[cfg(test)]\nmod tests { use crate::c; }",
        ),
    ]);
    assert_eq!(circles(&files), [["a", "a::b", "c"]]);
    assert!(files["c"].contains("d"), "one of a group");
    let above = uses(
        "a::b",
        "use super::super::c;\nuse super::{Thing, b};",
        &known,
    );
    assert_eq!(above, ["a", "c"].map(str::to_owned).into());
}
