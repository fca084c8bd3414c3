//! Every page in `man/` is one that mandoc and groff have nothing to say about.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(manual::directory()).unwrap();
    let mut pages: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    assert!(pages.len() >= 2, "{pages:?}");
    pages
}

/// What a program says about a page; `None` if it is not installed.
fn remarks(program: &str, arguments: &[&str], page: &PathBuf) -> Option<String> {
    let Output { stdout, stderr, .. } = Command::new(program)
        .args(arguments)
        .arg(page)
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

fn nothing_is_said_by(program: &str, arguments: &[&str]) {
    for page in pages() {
        let Some(remarks) = remarks(program, arguments, &page) else {
            testkit::skip(format!("{program} is not installed"));
            return;
        };
        // No page has a date: the day on which its sources changed says nothing to a reader.
        let remarks: Vec<_> = remarks
            .lines()
            .filter(|line| !line.contains("missing date"))
            .collect();
        assert!(remarks.is_empty(), "{}", remarks.join("\n"));
    }
}

#[test]
fn mandoc_has_no_warning() {
    nothing_is_said_by("mandoc", &["-Tlint", "-Wwarning"]);
}

#[test]
fn groff_has_no_warning() {
    nothing_is_said_by("groff", &["-man", "-ww", "-z", "-Tutf8"]);
}
