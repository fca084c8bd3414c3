//! The reference page of the parameters.

use std::fmt::Write;

use crate::deprecated::DEPRECATED;
use crate::level::LogLevel;
use crate::params::{GROUPS, Kind, PARAMETERS, Parameter, capitalized, enumerate};
use crate::preset::{PRESETS, Spec};
use crate::value::Value;

const INTRODUCTION: &str = "\
# Parameters

<!-- Generated from crates/vma-config; do not edit.
     To write it again: UPDATE_DOCS=1 cargo test -p vma-config docs_are_current -->

The library is set up by environment variables, which it reads once when it is loaded. The names and
values are those of VMA; parameters that only this library has are under Beyond the original.

Each parameter gets its default, then what `VMA_SOCKETXTREME` and the profile of `VMA_SPEC` preset,
then what its own variable says. A value that cannot be used is reported and counts as not set. A
variable that begins with `VMA_` and is not listed here is reported with the nearest name.

- **Numbers** are decimal. What follows a number (`100us`) is reported and ignored.
- **Switches** are 0 or 1; any other number is on. `true`, `yes`, `on`, `enabled` and their opposites
  `false`, `no`, `off`, `disabled` are understood too.
- **Names** of levels, profiles and modes are read without regard to case.
- **Paths** marked so may contain `%d`, the first of which becomes the process id.

At start-up the library logs every parameter that is not at its default, and with
`VMA_TRACELEVEL=details` all of them.

A parameter marked *no effect yet* is read and checked, so that existing set-ups keep working, and
changes nothing in this release. One marked *no meaning here* concerns what this library does not have
or does not need, and changes nothing either.
";

/// The text of `docs/parameters.md`.
pub fn parameters_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    // Writing into a string cannot fail.
    let _ = write_summary(&mut page)
        .and_then(|()| write_groups(&mut page))
        .and_then(|()| write_levels(&mut page))
        .and_then(|()| write_profiles(&mut page))
        .and_then(|()| write_deprecated(&mut page));
    page
}

fn write_summary(page: &mut String) -> std::fmt::Result {
    let working = PARAMETERS.iter().filter(|parameter| parameter.works());
    writeln!(page, "\n## Parameters that work in this release\n")?;
    writeln!(page, "| variable | default | |\n|---|---|---|")?;
    for parameter in working {
        let default = default_text(parameter);
        writeln!(
            page,
            "| [{0}](#{1}) | {default} | {2} |",
            parameter.name,
            anchor(parameter.name),
            parameter.help
        )?;
    }
    Ok(())
}

fn write_groups(page: &mut String) -> std::fmt::Result {
    for group in GROUPS {
        writeln!(page, "\n## {}", group.title)?;
        for parameter in group.parameters {
            write_parameter(page, parameter)?;
        }
    }
    Ok(())
}

fn write_parameter(page: &mut String, parameter: &Parameter) -> std::fmt::Result {
    writeln!(page, "\n### {}\n", parameter.name)?;
    writeln!(page, "{} {}\n", parameter.help, parameter.description)?;
    let unit = match parameter.kind {
        Kind::Text {
            expands_pid: true, ..
        }
        | Kind::Path {
            expands_pid: true, ..
        } => "; the first `%d` becomes the process id",
        _ => "",
    };
    writeln!(
        page,
        "- Type: {}; allowed: {}{unit}",
        type_name(parameter.kind),
        parameter.range()
    )?;
    writeln!(page, "- Default: {}", default_text(parameter))?;
    match parameter.kind {
        Kind::Choice { choices, .. } => {
            for choice in choices {
                let text = choice.text.trim_start_matches('(').trim_end_matches(')');
                writeln!(page, "- `{}`: {text}", choice.number)?;
            }
        }
        Kind::Word { words, .. } => {
            for word in words {
                writeln!(page, "- `{}`: {}", word.word, word.text)?;
            }
        }
        _ => {}
    }
    if !parameter.label.is_empty() {
        writeln!(page, "- In the banner: `{}`", parameter.label)?;
    }
    if let Some((remark, reason)) = parameter.status.remark() {
        writeln!(page, "- *{}*: {reason}.", capitalized(remark))?;
    }
    Ok(())
}

fn write_levels(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Log levels\n")?;
    writeln!(
        page,
        "From the fewest messages to the most. Note that `4` is `debug`.\n"
    )?;
    writeln!(page, "| level | also accepted |\n|---|---|")?;
    for level in LogLevel::ALL_LEVELS {
        let (name, aliases) =
            names_and_aliases(level.accepted_names(), &level.name().to_ascii_lowercase());
        writeln!(page, "| `{name}` | {aliases} |")?;
    }
    Ok(())
}

fn write_profiles(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Profiles\n")?;
    writeln!(
        page,
        "What `VMA_SPEC` presets. Parameters in *italics* change nothing: see each of them."
    )?;
    for spec in Spec::ALL {
        let (name, aliases) = names_and_aliases(spec.accepted_names(), spec.name());
        writeln!(page, "\n### {name}\n")?;
        if aliases.is_empty() {
            writeln!(page, "In the banner: `{}`.\n", spec.display_name())?;
        } else {
            writeln!(
                page,
                "Also accepted: {aliases}. In the banner: `{}`.\n",
                spec.display_name()
            )?;
        }
        let presets = PRESETS.iter().find(|(preset_spec, _)| *preset_spec == spec);
        let Some((_, presets)) = presets else {
            writeln!(page, "Presets nothing.")?;
            continue;
        };
        for preset in *presets {
            let parameter = preset.parameter.parameter();
            let mark = if parameter.works() { "" } else { "*" };
            let value = environment_text(&preset.value());
            writeln!(page, "- {mark}{}{mark} = {value}", parameter.name)?;
        }
    }
    Ok(())
}

fn write_deprecated(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Variables of older releases\n")?;
    writeln!(page, "| variable | |\n|---|---|")?;
    for deprecated in DEPRECATED {
        writeln!(page, "| {} | {} |", deprecated.name, deprecated.advice)?;
    }
    Ok(())
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool { .. } => "switch",
        Kind::Number { min, .. } if min < 0 => "signed number",
        Kind::Number { .. } => "number",
        Kind::Choice { .. } => "choice",
        Kind::Word { .. } => "name",
        Kind::Level { .. } => "log level",
        Kind::Spec => "profile",
        Kind::Text { .. } => "text",
        Kind::Path { .. } => "path",
        Kind::CpuSet { .. } => "set of processors",
    }
}

pub(crate) fn default_text(parameter: &Parameter) -> String {
    environment_text(&parameter.default_value())
}

fn environment_text(value: &Value) -> String {
    match value.to_environment() {
        text if text.is_empty() => "empty".to_owned(),
        text => format!("`{text}`"),
    }
}

/// Splits the accepted names into the one to use and the others, the latter as prose.
pub(crate) fn names_and_aliases(names: &[&str], name: &str) -> (String, String) {
    let aliases = names
        .iter()
        .filter(|alias| **alias != name)
        .map(|alias| format!("`{alias}`"));
    (name.to_owned(), enumerate(aliases))
}

/// The anchor that Markdown renderers give to a heading.
fn anchor(heading: &str) -> String {
    heading.to_ascii_lowercase()
}
