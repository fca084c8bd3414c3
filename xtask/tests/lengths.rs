//! A function has at most 80 lines, a file some 450, but for tables and tests.

use testkit::{SOURCES, rust_sources};

const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 465;
/// Tables, what is written in order, and programs in another machine's instructions.
const TABLES: [&str; 13] = [
    "crates/dev-xdp/src/bpf/admission.rs: assemble",
    "crates/dev-xdp/src/bpf/program.rs: assemble",
    "crates/dev-xdp/src/bpf/program/ipv6.rs: steer",
    "crates/engine/src/tcp/info.rs: bytes_of",
    "crates/engine/src/tcp/options/effect.rs: effect",
    "crates/tcp/src/connection/info.rs: info",
    "crates/vma-config/src/config.rs: from_settings",
    "libvma/src/hooks/by_number.rs: call_hook",
    "libvma/src/hooks/raw.rs: syscall",
    "sockperf-rs/src/options/args/client.rs: client",
    "vma-stats/src/tui/draw/detail.rs: words",
    "vma-stats/src/views/full.rs: socket",
    "xtask/src/bench/report.rs: table",
];

#[test]
fn functions_and_files_are_short() {
    let mut long = Vec::new();
    let mut count = 0;
    for (file, text) in rust_sources(&SOURCES) {
        if is_of_tests(&file) {
            continue;
        }
        let source = text.split("#[cfg(test)]\nmod tests {").next();
        for (name, lines) in functions(source.unwrap_or_default()) {
            count += 1;
            let named = format!("{file}: {name}");
            if lines > FUNCTION_LINES_MAX && !TABLES.contains(&named.as_str()) {
                long.push(format!("{named} has {lines} lines"));
            }
        }
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            long.push(format!("{file} has {lines} lines"));
        }
    }
    assert!(count > 3_000, "only {count} functions were found");
    assert_eq!(long, Vec::<String>::new());
}

fn is_of_tests(file: &str) -> bool {
    let parts = ["/tests/", "/benches/", "/examples/"];
    parts.iter().any(|part| file.contains(part)) || file.ends_with("tests.rs")
}

/// The functions of a formatted source, and how many lines each has: a body ends with a brace in
/// the column in which the function begins.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let begins = |line: &str| {
        let words = line.trim_start();
        let is_function = words.starts_with("fn ") || words.contains(" fn ");
        is_function && !words.starts_with("//") && !words.ends_with([';', '}'])
    };
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", &line[..indent]);
        let name = line.split("fn ").nth(1).unwrap_or_default();
        let name = name.split(['(', '<']).next().unwrap_or_default();
        if let Some(len) = lines[first..].iter().position(|line| *line == end) {
            found.push((name, len + 1));
        }
    }
    found
}

#[test]
fn a_function_ends_with_its_own_brace() {
    let text = "impl A {\n    pub fn one<T>(\n        t: T,\n    ) {\n        if t {\n        }\n    }\n\n    fn two() {}\n}\nfn three() {\n}\n";
    assert_eq!(functions(text), [("one", 6), ("three", 2)]);
}
