use std::fs;
use std::path::Path;

use crate::{DEPRECATED, PARAMETERS, Spec, conf_man_page, man_page, parameters_markdown};

/// Fails when a page is not what the table generates, or writes it again when the variable
/// UPDATE_DOCS is set.
#[test]
fn docs_are_current() {
    for (name, page) in [
        ("docs/parameters.md", parameters_markdown()),
        ("man/vma.7", man_page()),
        ("man/libvma.conf.5", conf_man_page()),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &page).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == page,
            "{name} differs from the parameter table; to write it again, run\n    \
             UPDATE_DOCS=1 cargo test -p vma-config docs_are_current"
        );
    }
}

#[test]
fn the_manual_page_has_all_its_sections_and_every_name() {
    let page = man_page();
    let sections: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix(".SH "))
        .collect();
    let expected = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "ENVIRONMENT",
        "FILES",
        "PROGRAMS THAT GIVE UP RIGHTS",
        "FILTERS OF SYSTEM CALLS",
        "PROGRAMS THAT WAIT BY INSTRUCTIONS OF THEIR OWN",
        "PROGRAMS THAT USE IO_URING",
        "TROUBLESHOOTING",
        "EXAMPLES",
        "SEE ALSO",
    ];
    assert_eq!(sections, expected);
    let deprecated = DEPRECATED.iter().map(|deprecated| deprecated.name);
    for name in PARAMETERS.iter().map(|it| it.name).chain(deprecated) {
        assert!(page.contains(&format!("\n.TP\n.B {name}\n")), "{name}");
    }
    assert!(page.is_ascii());
}

#[test]
fn the_page_has_a_section_for_each_parameter_and_profile() {
    let page = parameters_markdown();
    for parameter in PARAMETERS {
        let heading = format!("\n### {}\n", parameter.name);
        assert_eq!(page.matches(&heading).count(), 1, "{}", parameter.name);
        assert!(page.contains(parameter.description), "{}", parameter.name);
    }
    for spec in Spec::ALL {
        assert!(page.contains(&format!("\n### {}\n", spec.name())));
    }
    for deprecated in DEPRECATED {
        assert!(page.contains(&format!("| {} |", deprecated.name)));
    }
}
