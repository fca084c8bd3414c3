//! Which requirement of which RFC is held by which test. The requirements are in `requirements/`, a
//! file for each RFC or draft; a test says what it holds in a comment before it:
//!
//! ```text
//! // Requirement: RFC 9293 MUST-12, MUST-13; RFC 5961 3.2-1
//! #[test]
//! ```
//!
//! and in scripts for packetdrill the same line is anywhere in the file. The report is
//! `docs/tcp-requirements.md`; to write it again: `UPDATE_DOCS=1 cargo test -p tcp --test
//! requirements`.

mod report;
mod table;
mod tags;

use std::fs;
use std::path::{Path, PathBuf};

use table::{Rfc, Status};

fn crates() -> PathBuf {
    let tcp = Path::new(env!("CARGO_MANIFEST_DIR"));
    tcp.parent().expect("crates/").to_owned()
}

/// All RFCs, and for each tag the test that has it.
fn all() -> (Vec<Rfc>, Vec<tags::Tag>) {
    let rfcs = table::read(&crates().join("tcp/requirements"));
    let mut found = Vec::new();
    for directory in ["tcp/src", "tcp/tests", "wire/src", "wire/tests"] {
        tags::collect(&crates(), &crates().join(directory), &mut found);
    }
    assert!(found.len() > 50, "the sources were not found");
    (rfcs, found)
}

#[test]
fn tags_name_requirements_that_are_there() {
    let (rfcs, tags) = all();
    let unknown: Vec<String> = tags
        .iter()
        .filter(|tag| table::find(&rfcs, tag).is_none())
        .map(|tag| format!("{}: {} {}", tag.test, tag.document, tag.id))
        .collect();
    assert!(unknown.is_empty(), "no such requirements: {unknown:#?}");
}

#[test]
fn nothing_that_is_left_to_others_has_a_test_here() {
    let (rfcs, tags) = all();
    for tag in &tags {
        let requirement = table::find(&rfcs, tag).expect("checked by another test");
        assert!(
            !matches!(requirement.status, Status::Driver(_)),
            "{} holds {} {}, which is called a driver's",
            tag.test,
            tag.document,
            tag.id
        );
    }
}

#[test]
fn rfc9293_is_listed_as_a_whole() {
    let (rfcs, _) = all();
    let rfc9293 = rfcs
        .iter()
        .find(|rfc| rfc.name == "RFC 9293")
        .expect("listed");
    let numbers = |prefix| {
        let ids = rfc9293
            .requirements
            .iter()
            .map(|requirement| &requirement.id);
        let numbers = ids.filter_map(move |id| id.strip_prefix(prefix)?.parse::<u8>().ok());
        numbers.collect::<Vec<_>>()
    };
    assert!((1..=69).eq(numbers("MUST-")));
    // These two are asked of applications.
    let asked_of_tcp = |number: &u8| !matches!(number, 13 | 23);
    assert!((1..=31).filter(asked_of_tcp).eq(numbers("SHLD-")));
}

#[test]
fn every_requirement_is_tested_or_explained() {
    let (rfcs, tags) = all();
    let missing: Vec<String> = rfcs
        .iter()
        .flat_map(|rfc| {
            rfc.requirements
                .iter()
                .map(move |requirement| (rfc, requirement))
        })
        .filter(|(_, requirement)| requirement.status == Status::Test)
        .filter(|(rfc, requirement)| !tags.iter().any(|tag| tag.is_of(&rfc.name, &requirement.id)))
        .map(|(rfc, requirement)| format!("{} {}", rfc.name, requirement.id))
        .collect();
    assert!(missing.is_empty(), "without a test: {missing:?}");
}

#[test]
fn the_report_is_current() {
    let (rfcs, tags) = all();
    let report = report::write(&rfcs, &tags);
    let path = crates().join("../docs/tcp-requirements.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &report).expect("the report can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == report,
        "docs/tcp-requirements.md is not current: UPDATE_DOCS=1 cargo test -p tcp --test requirements"
    );
}
