//! Tests of the table as a whole and of the public interface.

mod banner;
mod docs;
mod parse;
mod presets;
mod properties;
mod table;

use std::ffi::OsString;

use crate::{Config, LogLevel, Parsed, Warning, WarningKind};

const PID: u32 = 4321;

/// Parses an environment given as `NAME=value` words.
#[track_caller]
fn parse<const N: usize>(environment: [&str; N]) -> Parsed {
    let variables = environment.map(|variable| {
        let (name, value) = variable.split_once('=').unwrap();
        (OsString::from(name), OsString::from(value))
    });
    Config::parse(variables, PID)
}

/// Parses an environment that must give exactly one warning.
#[track_caller]
fn parse_with_warning<const N: usize>(environment: [&str; N]) -> (Config, Warning) {
    let mut parsed = parse(environment);
    assert_eq!(parsed.warnings.len(), 1, "{:#?}", parsed.warnings);
    (parsed.config, parsed.warnings.remove(0))
}

#[track_caller]
fn assert_warning(warning: &Warning, kind: WarningKind, severity: LogLevel, message: &str) {
    assert_eq!(
        (warning.kind, warning.severity),
        (kind, severity),
        "{warning}"
    );
    assert_eq!(warning.message, message);
}

/// The value of the parameter `name` as one would write it into the environment.
#[track_caller]
fn value(config: &Config, name: &str) -> String {
    config.value(name).unwrap().to_environment()
}
