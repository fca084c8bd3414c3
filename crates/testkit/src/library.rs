//! The library under test.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where cargo puts what it builds, and with which profile.
#[derive(Debug, PartialEq, Eq)]
struct Output {
    target_directory: PathBuf,
    profile: String,
}

/// The path of `libvma.so`, built by cargo from the sources as they are (which takes a moment if it
/// is up to date), with the profile and into the target directory of the running test. Built once a
/// process.
///
/// `VMA_TEST_LIBRARY=<path>` tests that library instead, for example an installed one.
///
/// # Errors
///
/// What cargo printed, if it cannot build it; or that the library of `VMA_TEST_LIBRARY` does not
/// exist.
pub fn libvma_path() -> io::Result<PathBuf> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("VMA_TEST_LIBRARY") {
        Some(path) => existing(path.into()),
        None => build_with(&["--package", "libvma"], "libvma.so"),
    })
    .clone()
    .map_err(io::Error::other)
}

/// The path of a program of the workspace's that no package ships, built as the library is.
///
/// # Errors
///
/// What cargo printed, if it cannot build it.
pub fn own_program(package: &str) -> io::Result<PathBuf> {
    tool(package, package)
}

/// The same of one that has another name than its package.
///
/// # Errors
///
/// What cargo printed, if it cannot build it.
pub fn tool(package: &str, program: &str) -> io::Result<PathBuf> {
    built_with(&["--package", package], program).map_err(io::Error::other)
}

/// Whether that library was optimised: bounds of time and space are for what ships.
pub fn libvma_is_optimised() -> bool {
    match env::var_os("VMA_TEST_LIBRARY") {
        Some(path) => !is_of_debug_build(Path::new(&path)),
        None => !cfg!(debug_assertions),
    }
}

/// Cargo builds those into a directory of that name.
fn is_of_debug_build(library: &Path) -> bool {
    library
        .parent()
        .is_some_and(|directory| directory.ends_with("debug"))
}

fn existing(path: PathBuf) -> Result<PathBuf, String> {
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("there is no {}", path.display()))
    }
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where tests leave files; cargo calls it `CARGO_TARGET_TMPDIR`.
pub(crate) fn scratch_directory() -> PathBuf {
    target_directory().join("tmp")
}

/// The target directory of the running test.
pub(crate) fn target_directory() -> PathBuf {
    output().target_directory
}

fn output() -> Output {
    env::current_exe()
        .ok()
        .and_then(|executable| output_of(&executable))
        .unwrap_or_else(|| default_output(env::var_os("CARGO_TARGET_DIR"), &workspace()))
}

/// The path of an example of this crate, built as [`libvma_path`] builds the library.
///
/// # Errors
///
/// What cargo printed, if it cannot build it.
pub fn example_path(name: &str) -> io::Result<PathBuf> {
    let arguments = ["--package", "testkit", "--example", name];
    built_with(&arguments, &format!("examples/{name}")).map_err(io::Error::other)
}

/// Copies a program, by another process: a test beside this one that forks while it is written
/// would have it open for writing, and it could not be executed (`ETXTBSY`).
///
/// # Panics
///
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.is_ok_and(|it| it.success()), "{}", from.display());
}

/// The same as [`build_with`], of what `cargo test --workspace` builds, too: with
/// `VMA_TEST_BUILT` it has done so. Alone, the crates of a program have other features and are
/// built anew, while tests wait.
fn built_with(arguments: &[&str], file: &str) -> Result<PathBuf, String> {
    if env::var_os("VMA_TEST_BUILT").is_none() {
        return build_with(arguments, file);
    }
    let output = output();
    existing(output.target_directory.join(&output.profile).join(file))
}

/// Builds what the arguments name, and returns the path of this file below the profile's directory.
pub(crate) fn build_with(arguments: &[&str], file: &str) -> Result<PathBuf, String> {
    let (workspace, output) = (workspace(), output());

    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&workspace).env_remove("LD_PRELOAD");
    command.args(["build", "--quiet"]).args(arguments);
    command.arg("--profile");
    // The profile "dev" builds into the directory "debug".
    command.arg(if output.profile == "debug" {
        "dev"
    } else {
        &output.profile
    });
    command.arg("--target-dir").arg(&output.target_directory);
    let built = command
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        let words = String::from_utf8_lossy(&built.stderr);
        return Err(format!("cannot build {file} ({}): {words}", built.status));
    }
    existing(output.target_directory.join(&output.profile).join(file))
}

/// Reads `<target>/<profile>/deps/<test>` (or `examples`, or a program in `<profile>` itself);
/// `None` if the executable is not where cargo puts it, as for a documentation test.
fn output_of(executable: &Path) -> Option<Output> {
    let mut directory = executable.parent()?;
    if directory.ends_with("deps") || directory.ends_with("examples") {
        directory = directory.parent()?;
    }
    // Cargo's own mark of a directory that it builds into.
    if !directory.join(".fingerprint").is_dir() {
        return None;
    }
    let profile = directory.file_name()?.to_str()?.to_owned();
    Some(Output {
        target_directory: directory.parent()?.to_owned(),
        profile,
    })
}

fn default_output(target_directory: Option<OsString>, workspace: &Path) -> Output {
    let target_directory = target_directory.map_or_else(|| workspace.join("target"), PathBuf::from);
    Output {
        target_directory,
        profile: "debug".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_test_executable_tells_the_target_directory_and_the_profile() {
        let root = env::temp_dir().join(format!("testkit-library-{}", std::process::id()));
        let profile = root.join("triple/release");
        fs::create_dir_all(profile.join(".fingerprint")).unwrap();
        let expected = Some(Output {
            target_directory: root.join("triple"),
            profile: "release".to_owned(),
        });
        assert_eq!(output_of(&profile.join("deps/some_test-0123")), expected);
        assert_eq!(output_of(&profile.join("examples/show")), expected);
        assert_eq!(output_of(&profile.join("xtask")), expected);
        assert_eq!(output_of(&root.join("elsewhere/program")), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_documentation_test_builds_into_the_usual_place() {
        let output = default_output(None, Path::new("/workspace"));
        assert_eq!(output.target_directory, Path::new("/workspace/target"));
        assert_eq!(output.profile, "debug");
        let output = default_output(Some("/elsewhere".into()), Path::new("/workspace"));
        assert_eq!(output.target_directory, Path::new("/elsewhere"));
    }

    #[test]
    fn the_directory_tells_a_debug_build() {
        assert!(is_of_debug_build(Path::new("/t/debug/libvma.so")));
        assert!(!is_of_debug_build(Path::new("/t/release/libvma.so")));
        assert!(!is_of_debug_build(Path::new("libvma.so")));
    }

    #[test]
    fn the_library_is_a_shared_object() {
        let path = libvma_path().unwrap();
        assert_eq!(path.file_name().unwrap(), "libvma.so");
        assert!(fs::read(path).unwrap().starts_with(b"\x7fELF"));
    }
}
