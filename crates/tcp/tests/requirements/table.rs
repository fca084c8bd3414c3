//! The requirements, as `requirements/rfc*.txt` lists them.

use std::fs;
use std::path::Path;

use crate::tags::Tag;

#[derive(Debug)]
pub(crate) struct Rfc {
    /// `RFC 9293`, or the name of a draft.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) requirements: Vec<Requirement>,
}

#[derive(Debug)]
pub(crate) struct Requirement {
    pub(crate) id: String,
    pub(crate) section: String,
    /// In our own words.
    pub(crate) text: String,
    pub(crate) status: Status,
}

/// What is claimed of a requirement; the others with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Test,
    Deviation(String),
    Driver(String),
}

/// Reads all tables, in the order of the RFCs' numbers; drafts come last.
pub(crate) fn read(directory: &Path) -> Vec<Rfc> {
    let mut rfcs: Vec<Rfc> = fs::read_dir(directory)
        .expect("the tables are there")
        .map(|entry| parse(&entry.expect("an entry").path()))
        .collect();
    let number = |rfc: &Rfc| rfc.name.strip_prefix("RFC ").and_then(|it| it.parse().ok());
    rfcs.sort_by_key(|rfc| (number(rfc).unwrap_or(u32::MAX), rfc.name.clone()));
    rfcs
}

fn parse(path: &Path) -> Rfc {
    let name = path.display();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (document, title) = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# ")?.split_once(": "))
        .unwrap_or_else(|| panic!("{name} does not begin with \"# RFC number: title\""));
    assert_eq!(
        path.file_name().and_then(|name| name.to_str()),
        Some(format!("{}.txt", document.replace("RFC ", "rfc")).as_str())
    );
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let requirements: Vec<Requirement> = lines
        .map(|line| {
            parse_line(line).unwrap_or_else(|| panic!("{name}: {line:?} is no requirement"))
        })
        .collect();
    for (index, requirement) in requirements.iter().enumerate() {
        let is_first = requirements
            .iter()
            .position(|other| other.id == requirement.id)
            == Some(index);
        assert!(is_first, "{name}: {} stands twice", requirement.id);
    }
    Rfc {
        name: document.to_owned(),
        title: title.to_owned(),
        requirements,
    }
}

fn parse_line(line: &str) -> Option<Requirement> {
    let mut fields = line.splitn(4, " | ");
    let mut field = || fields.next().filter(|field| !field.trim().is_empty());
    let (id, section, text) = (field()?, field()?, field()?);
    let status = match field()?.split_once(": ") {
        Some(("deviation", reason)) => Status::Deviation(reason.to_owned()),
        Some(("driver", reason)) => Status::Driver(reason.to_owned()),
        None if line.ends_with(" | test") => Status::Test,
        _ => return None,
    };
    Some(Requirement {
        id: id.to_owned(),
        section: section.to_owned(),
        text: text.to_owned(),
        status,
    })
}

/// The requirement that a tag names.
pub(crate) fn find<'a>(rfcs: &'a [Rfc], tag: &Tag) -> Option<&'a Requirement> {
    let rfc = rfcs.iter().find(|rfc| rfc.name == tag.document)?;
    rfc.requirements
        .iter()
        .find(|requirement| requirement.id == tag.id)
}

#[test]
fn a_line_has_four_fields_and_a_known_status() {
    let status = |line| parse_line(line).map(|requirement| requirement.status);
    assert_eq!(status("MUST-1 | 3.1 | a | test"), Some(Status::Test));
    assert_eq!(
        status("MUST-1 | 3.1 | a | deviation: why"),
        Some(Status::Deviation("why".to_owned()))
    );
    for wrong in [
        "MUST-1 | 3.1 | test",
        "MUST-1 | 3.1 | a | tset",
        "a | b | c | deviation",
    ] {
        assert_eq!(status(wrong), None, "{wrong}");
    }
}
