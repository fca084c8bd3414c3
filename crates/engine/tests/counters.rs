//! Every counter of the statistics is counted somewhere, or is said to wait for something.

use std::fs;
use std::path::Path;

use stats::{FieldKind, PLANNED, SECTIONS};
use testkit::files_below;

/// The code that counts, without blanks and tests.
fn code() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    // The last one has counters that the segment itself writes.
    for directory in [
        "src",
        "../links/src",
        "../../libvma/src",
        "../stats/src/segment",
    ] {
        for path in files_below(&root.join(directory)) {
            if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
                let source = fs::read_to_string(&path).unwrap();
                let code = source.split("#[cfg(test)]").next().unwrap_or_default();
                text.push_str(code);
            }
        }
    }
    text.retain(|letter| !letter.is_whitespace());
    text
}

fn is_counted(code: &str, field: &str) -> bool {
    let calls = [
        "add(",
        "add_contended(",
        "set(",
        "raise_to(",
        "count(",
        "record(",
    ];
    calls
        .iter()
        .any(|call| code.contains(&format!(".{field}.{call}")))
        || code.contains(&format!("&counters.{field}"))
}

#[test]
fn every_counter_is_counted_or_planned() {
    let code = code();
    let mut missing = Vec::new();
    // Closed sockets have the entries of open ones.
    for section in SECTIONS.iter().filter(|it| it.name != "closed_sockets") {
        let counters = section
            .fields
            .iter()
            .filter(|field| field.kind != FieldKind::Identity);
        for field in counters {
            let planned = PLANNED.iter().any(|(name, planned, _)| {
                *name == section.name && (planned.is_empty() || *planned == field.name)
            });
            if !planned && !is_counted(&code, field.name) {
                missing.push(format!("{}.{}", section.name, field.name));
            }
        }
    }
    assert!(missing.is_empty(), "nothing counts {missing:?}");
}

/// What is counted is no longer planned.
#[test]
fn planned_counters_are_not_counted() {
    let code = code();
    for (section, field, _) in PLANNED {
        if field.is_empty() {
            let claim = format!("claim_{}", section.trim_end_matches('s'));
            assert!(
                !code.contains(&claim),
                "{section} is filled: take it out of PLANNED"
            );
        } else {
            assert!(
                !is_counted(&code, field),
                "{section}.{field} is counted: take it out of PLANNED"
            );
        }
    }
}

#[test]
fn a_counter_that_nothing_counts_is_found() {
    assert!(!is_counted(&code(), "rx_no_such_counter"));
    assert!(is_counted("self.stats.rx_new.add(1)", "rx_new"));
}
