//! What this machine must have beyond what every Debian has: every program, module and plug-in that
//! a test, a bench or a command of xtask may ask for stands in the one list `needs.txt`, which says
//! who brings it.
//!
//! A test asks with [`require`]; `cargo xtask setup` installs and verifies the list.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::library;
use crate::skip::Skip;

const LIST: &str = include_str!("../needs.txt");

/// Where Debian's programs are, also those of the administrator: the `PATH` of programs that tests
/// compare.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Demo and benches, and the tests, too.
    Measuring,
    /// The tests, which do not begin without.
    Testing,
    /// Tests that are skipped without.
    Compared,
    /// The same, and its package may start a service.
    Service,
    /// Benches of services, and tests that load them.
    Loading,
    /// `cargo xtask compare`.
    Comparing,
    /// Packages.
    Packaging,
    /// Trying packages, and the set-up of a fresh machine.
    Trying,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Program,
    PythonModule,
    JavaModule,
    GstreamerElement,
    CHeader,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// A program, or as `python:MODULE`.
    pub name: &'static str,
    /// Who asks for it.
    pub whom: Whom,
    /// Debian packages that bring it, all of them; `pip:PACKAGE==VERSION` is one from PyPI.
    pub packages: Vec<&'static str>,
    /// For the person who is asked to install it; may be empty.
    pub why: &'static str,
}

impl Need {
    /// Whether this machine has it, as compared programs would find it: programs in [`PATH`],
    /// modules of the Python, Java and GStreamer there. For modules a program runs.
    pub fn is_here(&self) -> bool {
        let (what, name) = self.kind();
        match what {
            What::Program => is_in_path(name, PATH.as_ref()),
            What::PythonModule => {
                let is_of_version = self.pip_requirement().is_none_or(is_installed);
                is_of_version && succeeds("python3", &["-c", &format!("import {name}")])
            }
            What::JavaModule => succeeds("java", &["--describe-module", name]),
            What::GstreamerElement => succeeds("gst-inspect-1.0", &["--exists", name]),
            What::CHeader => Path::new("/usr/include").join(name).is_file(),
        }
    }

    /// What of PyPI brings it, for pip.
    pub fn pip_requirement(&self) -> Option<&'static str> {
        self.packages
            .iter()
            .find_map(|package| package.strip_prefix("pip:"))
    }

    /// Whether it is a program.
    pub fn is_program(&self) -> bool {
        self.kind().0 == What::Program
    }

    fn kind(&self) -> (What, &'static str) {
        match self.name.split_once(':') {
            Some(("python", module)) => (What::PythonModule, module),
            Some(("java", module)) => (What::JavaModule, module),
            Some(("gstreamer", element)) => (What::GstreamerElement, element),
            Some(("header", header)) => (What::CHeader, header),
            _ => (What::Program, self.name),
        }
    }
}

/// The list.
///
/// # Panics
///
/// If a line of it is not as its head says.
pub fn all() -> &'static [Need] {
    static ALL: OnceLock<Vec<Need>> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = LIST.lines().filter(|line| !is_remark(line));
        let parse = |line| parse(line).unwrap_or_else(|| panic!("needs.txt: {line}"));
        lines.map(parse).collect()
    })
}

fn is_remark(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

fn parse(line: &'static str) -> Option<Need> {
    let (line, why) = line.split_once(" # ").unwrap_or((line, ""));
    let mut words = line.split_whitespace();
    let (name, whom) = (words.next()?, words.next()?);
    let whom = match whom {
        "measuring" => Whom::Measuring,
        "testing" => Whom::Testing,
        "compared" => Whom::Compared,
        "service" => Whom::Service,
        "loading" => Whom::Loading,
        "comparing" => Whom::Comparing,
        "packaging" => Whom::Packaging,
        "trying" => Whom::Trying,
        _ => return None,
    };
    let packages: Vec<_> = words.collect();
    (!packages.is_empty()).then(|| Need {
        name,
        whom,
        packages,
        why: why.trim(),
    })
}

/// The line of the list with this name.
pub fn find(name: &str) -> Option<&'static Need> {
    all().iter().find(|need| need.name == name)
}

/// Whether this machine has all of these, which stand in the list.
///
/// # Errors
///
/// The first that is not here, and who brings it.
///
/// # Panics
///
/// If the list lacks one.
pub fn require(names: &[&str]) -> Result<(), Skip> {
    for name in names {
        let need = find(name)
            .unwrap_or_else(|| panic!("{name} does not stand in crates/testkit/needs.txt"));
        if !need.is_here() {
            let packages = need.packages.join(", ");
            return Err(Skip::new(format!(
                "{name} is not installed (cargo xtask setup; {packages})"
            )));
        }
    }
    Ok(())
}

/// The directory of Python's modules that come from PyPI: tests name it in `PYTHONPATH`. Debian's
/// Python lets nobody else put modules beside its own, and a `python3` that is first in the `PATH`
/// may be another.
pub fn python_modules() -> PathBuf {
    library::target_directory().join("python")
}

/// Whether one of the directories of `path` holds an executable file of this name.
pub fn is_in_path(program: &str, path: &std::ffi::OsStr) -> bool {
    env::split_paths(path).any(|directory| {
        fs::metadata(directory.join(program))
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// Whether pip has put this version of a package there.
fn is_installed(requirement: &str) -> bool {
    let information = format!("{}.dist-info", requirement.replace("==", "-"));
    python_modules().join(information).is_dir()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    // Found in the PATH of the new environment.
    let mut command = Command::new("env");
    command
        .arg(Path::new(program))
        .args(arguments)
        .env("PATH", PATH)
        .env("PYTHONPATH", python_modules())
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_line_has_several_packages_and_a_reason() {
        let line = "gstreamer:udpsrc  compared  tools plugins  # sound";
        let expected = Need {
            name: "gstreamer:udpsrc",
            whom: Whom::Compared,
            packages: vec!["tools", "plugins"],
            why: "sound",
        };
        assert_eq!(expected.kind(), (What::GstreamerElement, "udpsrc"));
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("nginx  service"), None);
        assert_eq!(parse("nginx  someone  nginx-light"), None);
    }

    #[test]
    fn every_line_is_read_and_no_name_stands_twice() {
        let lines = LIST.lines().filter(|line| !is_remark(line)).count();
        let names: BTreeSet<_> = all().iter().map(|need| need.name).collect();
        assert_eq!(names.len(), lines);
    }

    #[test]
    fn what_comes_from_pypi_is_of_one_version() {
        for need in all() {
            let from_pip = need
                .packages
                .iter()
                .any(|package| package.starts_with("pip:"));
            let requirement = need.pip_requirement();
            assert_eq!(requirement.is_some(), from_pip);
            assert!(
                requirement.is_none_or(|words| words.contains("==")),
                "{need:?}"
            );
        }
    }

    #[test]
    fn only_executable_files_are_programs() {
        let directory = env::temp_dir().join(format!("testkit-needs-{}", std::process::id()));
        fs::create_dir_all(directory.join("folder")).unwrap();
        let program = directory.join("tool");
        fs::write(&program, "").unwrap();
        let path = env::join_paths(["/nonexistent".as_ref(), directory.as_path()]).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_in_path("tool", &path));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_in_path("tool", &path));
        assert!(!is_in_path("folder", &path));
        assert!(!is_in_path("absent", &path));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn modules_are_asked_of_their_own_program() {
        let need = |name| Need {
            name,
            whom: Whom::Compared,
            packages: vec!["some"],
            why: "",
        };
        assert!(!need("python:surely_absent").is_here());
        assert!(!need("java:surely.absent").is_here());
        assert!(!need("gstreamer:surelyabsent").is_here());
        assert!(!need("surely-absent").is_here());
        assert!(need("sh").is_here());
        if require(&["python3"]).is_ok() {
            assert!(need("python:json").is_here());
        }
    }

    #[test]
    #[should_panic(expected = "does not stand in")]
    fn what_is_not_in_the_list_cannot_be_asked_for() {
        drop(require(&["a-program-that-nobody-listed"]));
    }
}
