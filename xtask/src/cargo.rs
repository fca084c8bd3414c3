//! Running cargo on this workspace.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::Failure;
use crate::output::say;
use crate::process::{self, Read};

/// The directory of the workspace's `Cargo.toml`.
pub(crate) fn workspace() -> PathBuf {
    // Cargo says where the sources are; without cargo they are where they were compiled.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Where the builds that are not the workspace's own go, each into a directory of its name.
pub(crate) fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// `cargo` in the workspace, the one that runs this program if there is one.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(arguments)
        .current_dir(workspace())
        .env_remove("LD_PRELOAD");
    command
}

/// What `cargo metadata` says of the locked workspace.
pub(crate) fn metadata(options: &[&str]) -> Result<Value, Failure> {
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let command = || command(&[&arguments[..], options].concat());
    let mut text = String::new();
    let status = process::run_reading(command(), Read::Stdout, |line| text += line)?;
    process::success(&command(), status)?;
    serde_json::from_str(&text).map_err(|error| Failure::Reason(format!("cargo metadata: {error}")))
}

/// The programs and shared libraries that cargo built, by the names of their targets.
#[derive(Debug, Default)]
pub(crate) struct Artifacts(HashMap<String, PathBuf>);

impl Artifacts {
    pub(crate) fn path(&self, target: &str) -> Result<&Path, Failure> {
        self.0
            .get(target)
            .map(PathBuf::as_path)
            .ok_or_else(|| Failure::Reason(format!("cargo did not build {target}")))
    }

    /// Takes in one line of cargo's `--message-format=json`.
    fn note(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let Some(name) = message["target"]["name"].as_str() else {
            return;
        };
        let files = message["filenames"].as_array().into_iter().flatten();
        let library = files
            .filter_map(Value::as_str)
            .find(|file| file.ends_with(".so"));
        // Procedural macros are shared libraries too, of no interest to anybody but the compiler.
        let library = library.filter(|_| message["target"]["kind"][0] == "cdylib");
        if let Some(path) = message["executable"].as_str().or(library) {
            self.0.insert(name.to_owned(), path.into());
        }
    }
}

/// Runs a cargo command that builds, with cargo's own progress on standard error.
pub(crate) fn build(arguments: &[&str]) -> Result<Artifacts, Failure> {
    build_with(arguments, &[])
}

/// The same with these variables in its environment.
pub(crate) fn build_with(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<Artifacts, Failure> {
    let mut building = command(arguments);
    building.envs(variables.iter().copied());
    built_by(building)
}

/// What a cargo command that builds has built.
pub(crate) fn built_by(mut building: Command) -> Result<Artifacts, Failure> {
    let words = process::words(&building);
    say(format_args!("building: {words}"));
    building.arg("--message-format=json-render-diagnostics");
    let mut artifacts = Artifacts::default();
    let note = |line: &str| artifacts.note(line);
    let status = process::run_reading(building, Read::Stdout, note)?;
    if status.success() {
        Ok(artifacts)
    } else {
        Err(Failure::Reason(format!("{words} failed ({status})")))
    }
}

/// Writes every generated document again.
pub(crate) fn regenerate_documents() -> Result<(), Failure> {
    let generators = [
        ["vma-config", "--lib", "docs_are_current"],
        ["stats", "--lib", "docs_are_current"],
        ["tcp", "--test=requirements", "the_report_is_current"],
        ["vma-stats", "--bins", "the_manual_page_is_current"],
        ["vma-run", "--bins", "the_manual_page_is_current"],
        ["vmad", "--test=manual_page", "the_manual_page_is_current"],
        ["sockperf-rs", "--lib", "docs_are_current"],
    ];
    for [package, target, test] in generators {
        let mut generator = command(&["test", "--quiet", "--package", package, target, test]);
        generator.env("UPDATE_DOCS", "1");
        process::run(generator)?;
    }
    say(
        "docs/parameters.md, docs/statistics.md, docs/sockperf-rs.md, docs/tcp-requirements.md and the pages in man/ are current",
    );
    Ok(())
}

/// The library as it ships. Beside it is vmad, which it starts: alone, its crates would have other
/// features, and be built anew.
pub(crate) fn release_library() -> Result<PathBuf, Failure> {
    let both = ["--package", "libvma", "--package", "vmad"];
    let built = build(&[&["build", "--release"], &both[..]].concat())?;
    built.path("vma").map(Path::to_owned)
}

/// The scripts of the tests' programs and services.
pub(crate) fn programs() -> PathBuf {
    workspace().join("tests/programs")
}

/// A program of `tests/c`, compiled into this directory.
pub(crate) fn c_program(
    name: &str,
    directory: &Path,
    options: &[&str],
) -> Result<PathBuf, Failure> {
    let source = workspace().join(format!("tests/c/{name}.c"));
    Ok(testkit::compile_c_with(&source, directory, options)?)
}

/// How many tests passed, of the line with which `cargo test` ends.
pub(crate) fn passed_in(line: &str) -> usize {
    let count = line.strip_prefix("test result: ok. ");
    let count = count.and_then(|words| words.split(' ').next()?.parse().ok());
    count.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_programs_and_shared_libraries() {
        let mut artifacts = Artifacts::default();
        for line in [
            r#"{"reason":"compiler-artifact","target":{"name":"vma","kind":["cdylib"]},
               "filenames":["/t/release/libvma.so","/t/release/libvma.d"],"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"vma_stats","kind":["bin"]},
               "filenames":["/t/release/vma_stats"],"executable":"/t/release/vma_stats"}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"engine","kind":["lib"]},
               "filenames":["/t/release/libengine.rlib"],"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"derive","kind":["proc-macro"]},
               "filenames":["/t/release/libderive.so"],"executable":null}"#,
            r#"{"reason":"build-finished","success":true}"#,
            "not JSON",
        ] {
            artifacts.note(line);
        }
        let path = |target| {
            artifacts
                .path(target)
                .map_err(|failure| failure.to_string())
        };
        assert_eq!(path("vma"), Ok(Path::new("/t/release/libvma.so")));
        assert_eq!(path("vma_stats"), Ok(Path::new("/t/release/vma_stats")));
        assert!(path("engine").unwrap_err().contains("engine"));
        assert!(path("derive").is_err());
    }

    #[test]
    fn the_workspace_is_the_parent_of_this_package() {
        assert!(workspace().join("xtask/src/main.rs").is_file());
    }

    #[test]
    fn the_last_line_of_a_test_says_how_many_passed() {
        let line = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!(passed_in(line), 5);
        assert_eq!(passed_in("test tcp_ssh ... ok"), 0);
        assert_eq!(passed_in("test result: FAILED. 5 passed; 1 failed"), 0);
    }
}
