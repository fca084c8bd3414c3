//! What documents link to is there, and every document of `docs/` is in its index.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn documents() -> Vec<PathBuf> {
    let inside = fs::read_dir(root().join("docs")).unwrap().flatten();
    let inside = inside.map(|entry| entry.path());
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let all = inside.chain(others);
    all.filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect()
}

/// The targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("](").skip(1);
    parts.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// A heading as the part of a link behind `#`.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
    heading
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text).filter(|link| !link.contains("://")) {
            count += 1;
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => document.clone(),
                _ => document.with_file_name(file),
            };
            assert!(target.exists(), "{}: {link}", document.display());
            if !part.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let is_there = headings.any(|heading| anchor(heading) == part);
                assert!(is_there, "{}: {link}", document.display());
            }
        }
    }
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn every_document_is_in_the_index() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap_or_default();
    for document in documents() {
        let name = document.file_name().unwrap().to_str().unwrap();
        assert!(index.contains(&format!("{name})")), "{name}");
    }
}
