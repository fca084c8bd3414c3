//! The environment: any variables. Every value is in its range, and what was made of an environment
//! gives the same configuration when it is put into the environment again.

#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use libfuzzer_sys::fuzz_target;
use vma_config::{
    BannerFacts, Config, DEPRECATED, Effective, Kind, LogLevel, PARAMETERS, Value, WarningKind,
    banner,
};

const PID: u32 = 4321;
/// More of them take time and show nothing new.
const VARIABLES_MAX: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let parsed = Config::parse(environment(bytes), PID);
    for setting in parsed.config.effective() {
        assert!(setting.parameter().allows(setting.value), "{setting:?}");
    }
    for warning in &parsed.warnings {
        assert!(!warning.message.is_empty() && !warning.variable.is_empty());
        assert!(
            !warning.message.contains(char::is_control),
            "{}",
            warning.message
        );
        assert!(warning.severity <= LogLevel::MAX);
    }
    for (_, line) in banner(&parsed.config, &BannerFacts::default()) {
        assert!(!line.contains('\n'), "{line}");
    }
    printing_and_reading_again_changes_nothing(&parsed.config);
});

/// A variable a line. A line that begins with `V` is taken as it stands; of others the first byte
/// chooses a name that the library knows, and the rest is the value.
fn environment(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let variable = |line: &[u8]| {
        let (name, value) = match line.split_first() {
            Some((choice, value)) if *choice != b'V' => (known_name(*choice).to_vec(), value),
            _ => {
                let mut parts = line.splitn(2, |byte| *byte == b'=');
                let name = parts.next().unwrap_or_default().to_vec();
                (name, parts.next().unwrap_or_default())
            }
        };
        (OsString::from_vec(name), OsString::from_vec(value.to_vec()))
    };
    let lines = bytes.split(|byte| *byte == b'\n').take(VARIABLES_MAX);
    lines.map(variable).collect()
}

fn known_name(choice: u8) -> &'static [u8] {
    let deprecated = DEPRECATED.iter().map(|deprecated| deprecated.name);
    let known = PARAMETERS.iter().map(|parameter| parameter.name);
    let count = PARAMETERS.len() + DEPRECATED.len();
    let index = usize::from(choice) % count;
    let name = known.chain(deprecated).nth(index).unwrap_or("VMA_SPEC");
    name.as_bytes()
}

fn printing_and_reading_again_changes_nothing(config: &Config) {
    let variable = |setting: Effective<'_>| {
        let value = match setting.value {
            Value::Text(text) => text.clone(),
            value => value.to_environment().into(),
        };
        (OsString::from(setting.parameter().name), value)
    };
    let again = Config::parse(config.effective().map(variable), PID);
    for (before, after) in config.effective().zip(again.config.effective()) {
        // What is in a path is not expanded twice.
        let expands = matches!(
            before.parameter().kind,
            Kind::Path {
                expands_pid: true,
                ..
            } | Kind::Text {
                expands_pid: true,
                ..
            }
        );
        assert!(
            expands || before.value == after.value,
            "{before:?} {after:?}"
        );
    }
    for warning in again.warnings {
        let harmless = matches!(warning.kind, WarningKind::NoEffect);
        assert!(harmless, "{warning}");
    }
}
