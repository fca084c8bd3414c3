//! The engine's modules know each other in one direction: a layer uses those below it. Between
//! crates the compiler would see to that.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use testkit::{crate_paths, files_below};

/// Each layer, with those that it may use beside itself.
const LAYERS: [(&str, &[&str]); 10] = [
    ("sync", &[]),
    ("cpu_sharing", &[]),
    ("io_uring", &[]),
    ("sockets", &["cpu_sharing", "io_uring", "sync"]),
    ("tcp", &["cpu_sharing", "sockets"]),
    ("udp", &["cpu_sharing", "sockets"]),
    ("mux", &["cpu_sharing", "sockets"]),
    ("process", &["sockets"]),
    ("calls", &["mux", "sockets", "tcp"]),
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
            if used != layer && !below.contains(&used.as_str()) {
                wrong.push(format!("{} uses {used}", place.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(seen.len(), LAYERS.len(), "{seen:?}");
}

/// Modules of the crate that a file names, in its own code and documentation but not in its tests.
fn uses(text: &str) -> BTreeSet<String> {
    let paths = crate_paths(text);
    let first = |path: &String| path.split("::").next().unwrap_or_default().to_owned();
    paths.iter().map(first).collect()
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
