//! Comments that say which requirements a test holds.

use std::fs;
use std::path::Path;

/// One requirement of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// `RFC 9293`, or the name of a draft.
    pub(crate) document: String,
    pub(crate) id: String,
    /// Where: the file, and the function in sources.
    pub(crate) test: String,
}

impl Tag {
    pub(crate) fn is_of(&self, document: &str, id: &str) -> bool {
        self.document == document && self.id == id
    }
}

const MARK: &str = "// Requirement: ";

/// Finds the tags of all sources and scripts below `directory`, sorted; their names are relative to
/// `root`.
pub(crate) fn collect(root: &Path, directory: &Path, tags: &mut Vec<Tag>) {
    let mut paths: Vec<_> = fs::read_dir(directory)
        .expect("a directory of sources")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(root, &path, tags);
            continue;
        }
        let name = path
            .strip_prefix(root)
            .expect("below")
            .display()
            .to_string();
        let extension = path.extension().and_then(|extension| extension.to_str());
        // This program only talks of tags.
        let is_own = name.starts_with("tcp/tests/requirements/");
        let find = match extension {
            Some("rs") if !is_own => of_source,
            Some("pkt") => of_script,
            _ => continue,
        };
        let text = fs::read(&path).expect("a file can be read");
        tags.extend(find(&name, &String::from_utf8_lossy(&text)));
    }
}

fn of_script(name: &str, text: &str) -> Vec<Tag> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(MARK));
    lines.flat_map(|list| parse(list, name)).collect()
}

/// A tag belongs to the next function, which must be a test.
fn of_source(name: &str, text: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut waiting: Vec<&str> = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(list) = line.strip_prefix(MARK) {
            waiting.push(list);
        } else if line == "#[test]" {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let function = rest.split('(').next().expect("one part at least");
            assert!(
                is_test || waiting.is_empty(),
                "{name}: {function} has a requirement but is no test"
            );
            let test = format!("{name}: {function}");
            tags.extend(waiting.drain(..).flat_map(|list| parse(list, &test)));
            is_test = false;
        }
    }
    assert!(waiting.is_empty(), "{name} ends with a requirement");
    tags
}

/// `RFC 9293 MUST-12, MUST-13; draft-ietf-ccwg-bbr 5.3.1-1`
fn parse(list: &str, test: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    for part in list.split("; ") {
        let name_len = match part.strip_prefix("RFC ") {
            Some(rest) => rest.find(' ').map(|len| len + "RFC ".len()),
            None => part.find(' ').filter(|_| part.starts_with("draft-")),
        };
        let name_len = name_len
            .unwrap_or_else(|| panic!("{test}: {list:?} is not \"RFC number id, id; RFC ...\""));
        let (document, ids) = part.split_at(name_len);
        tags.extend(ids.split(',').map(|id| Tag {
            document: document.to_owned(),
            id: id.trim().to_owned(),
            test: test.to_owned(),
        }));
    }
    tags
}

#[test]
fn a_tag_is_the_next_test_s() {
    let text =
        format!("{MARK}RFC 1 A, B; RFC 2 C\n#[test]\nfn first() {{}}\n#[test]\nfn second() {{}}\n");
    let tag = |rfc: u16, id: &str| Tag {
        document: format!("RFC {rfc}"),
        id: id.to_owned(),
        test: "a.rs: first".to_owned(),
    };
    assert_eq!(
        of_source("a.rs", &text),
        [tag(1, "A"), tag(1, "B"), tag(2, "C")]
    );
}

#[test]
#[should_panic(expected = "is no test")]
fn a_function_that_is_no_test_holds_nothing() {
    of_source("a.rs", &format!("{MARK}RFC 1 A\nfn helper() {{}}\n"));
}
