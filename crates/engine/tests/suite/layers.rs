//! The engine's modules know each other in one direction: a layer uses those below it. Between
//! crates the compiler would see to that.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use testkit::files_below;

/// Each layer, with those that it may use beside itself.
const LAYERS: [(&str, &[&str]); 9] = [
    ("sync", &[]),
    ("cpu_sharing", &[]),
    ("io_uring", &[]),
    ("sockets", &["cpu_sharing", "io_uring", "sync"]),
    ("tcp", &["cpu_sharing", "sockets"]),
    ("udp", &["cpu_sharing", "sockets"]),
    ("mux", &["cpu_sharing", "sockets"]),
    ("process", &["sockets"]),
    (
        "engine",
        &["cpu_sharing", "mux", "process", "sockets", "tcp", "udp"],
    ),
];

#[test]
fn layers_use_those_below_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in files_below(&source) {
        let place = file.strip_prefix(&source).expect("it is below");
        let first = place.iter().next().expect("it has a name");
        let layer = Path::new(first).file_stem().expect("it has a name");
        let layer = layer.to_str().expect("names are ASCII");
        if layer == "lib" {
            continue;
        }
        seen.insert(layer.to_owned());
        let known = LAYERS.iter().find(|(name, _)| *name == layer);
        let (_, below) = known.unwrap_or_else(|| panic!("{layer} has no place among the layers"));
        let text = fs::read_to_string(&file).expect("it can be read");
        for used in uses(&text) {
            if used != layer && !below.contains(&used) {
                wrong.push(format!("{} uses {used}", place.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(seen.len(), LAYERS.len(), "{seen:?}");
}

/// Modules of the crate that a file names, in its own code and documentation but not in its tests.
fn uses(text: &str) -> BTreeSet<&str> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let mut used = BTreeSet::new();
    for (at, path) in text.match_indices("crate::") {
        let rest = &text[at + path.len()..];
        let group = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split('}').next());
        let names = group.unwrap_or(rest).split(',').take(match group {
            Some(_) => usize::MAX,
            None => 1,
        });
        for name in names {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = name.trim_start();
            let end = name.find(|c| !is_part(c)).unwrap_or(name.len());
            used.insert(&name[..end]);
        }
    }
    used
}

#[test]
fn uses_are_found() {
    let text =
        "use crate::a::B;\nuse crate::{c, d::E, f};\n#[cfg(test)]\nmod tests { use crate::g; }";
    assert_eq!(
        uses(text).into_iter().collect::<Vec<_>>(),
        ["a", "c", "d", "f"]
    );
}
