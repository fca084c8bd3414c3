//! `docs/tcp-requirements.md`.

use std::fmt::Write;

use crate::table::{Requirement, Rfc, Status};
use crate::tags::Tag;

const HEAD: &str = "\
# Requirements of the TCP engine

<!-- Generated from crates/tcp/requirements/ and the tests that name requirements.
     To write it again: UPDATE_DOCS=1 cargo test -p tcp --test requirements -->

What the RFCs ask of an implementation of TCP, as far as it concerns the engine `crates/tcp` and the headers in
`crates/wire`, and what shows that it holds. Paraphrases are short; the RFC's text counts. A *deviation* is deliberate and
gives its reason: mostly that Linux does the same, which programs and peers are used to. What is a *driver's* is done by the
socket in front of the engine, or by the kernel.

";

pub(crate) fn write(rfcs: &[Rfc], tags: &[Tag]) -> String {
    let mut text = HEAD.to_owned();
    text += "| RFC | tested | deviation | driver's | missing |\n|---|---|---|---|---|\n";
    for rfc in rfcs {
        let count = |kind| {
            let requirements = rfc.requirements.iter();
            requirements
                .filter(|requirement| kind_of(rfc, requirement, tags) == kind)
                .count()
        };
        line(
            &mut text,
            format_args!(
                "| [{} {}](#{}) | {} | {} | {} | {} |",
                short_name(rfc),
                rfc.title,
                rfc.name.to_lowercase().replace(' ', "-"),
                count(Kind::Tested),
                count(Kind::Deviation),
                count(Kind::Driver),
                count(Kind::Missing),
            ),
        );
    }
    for rfc in rfcs {
        section(&mut text, rfc, tags);
    }
    text
}

/// In a column of RFCs.
fn short_name(rfc: &Rfc) -> &str {
    rfc.name.strip_prefix("RFC ").unwrap_or(&rfc.name)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tested,
    Deviation,
    Driver,
    Missing,
}

fn kind_of(rfc: &Rfc, requirement: &Requirement, tags: &[Tag]) -> Kind {
    match requirement.status {
        Status::Deviation(_) => Kind::Deviation,
        Status::Driver(_) => Kind::Driver,
        Status::Test if tags_of(rfc, requirement, tags).next().is_some() => Kind::Tested,
        Status::Test => Kind::Missing,
    }
}

fn tags_of<'a>(
    rfc: &'a Rfc,
    requirement: &'a Requirement,
    tags: &'a [Tag],
) -> impl Iterator<Item = &'a Tag> {
    tags.iter()
        .filter(|tag| tag.is_of(&rfc.name, &requirement.id))
}

fn section(text: &mut String, rfc: &Rfc, tags: &[Tag]) {
    line(text, format_args!("\n## {}\n\n{}\n", rfc.name, rfc.title));
    text.push_str("| | § | requirement | |\n|---|---|---|---|\n");
    for requirement in &rfc.requirements {
        let tests: Vec<String> = tags_of(rfc, requirement, tags)
            .map(|tag| format!("`{}`", tag.test))
            .collect();
        let tests = tests.join("<br>");
        let state = match &requirement.status {
            Status::Test if tests.is_empty() => "**MISSING**".to_owned(),
            Status::Test => tests,
            Status::Deviation(reason) if tests.is_empty() => format!("deviation: {reason}"),
            Status::Deviation(reason) => format!("deviation: {reason}<br>{tests}"),
            Status::Driver(reason) => format!("driver: {reason}"),
        };
        let Requirement {
            id,
            section,
            text: what,
            ..
        } = requirement;
        line(
            text,
            format_args!("| {id} | {section} | {what} | {state} |"),
        );
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes all");
}
