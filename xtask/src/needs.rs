//! What the commands need of the machine, and how to see whether it is there.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Demo and benches.
    Measuring,
    /// Services under load.
    LoadingServices,
    /// The tests, and with them most.
    Testing,
    /// Packages.
    Packaging,
    /// Trying packages out.
    TestingPackages,
}

/// A program and the Debian package that brings it.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    /// Whether only the tests need it.
    testing_only: bool,
    /// Whether it is for this alone.
    only: Option<Purpose>,
    /// For the person who is asked to install it.
    pub(crate) why: &'static str,
}

impl Need {
    fn is_for(&self, purpose: Purpose) -> bool {
        match self.only {
            Some(only) => only == purpose,
            None => match purpose {
                Purpose::Measuring => !self.testing_only,
                Purpose::Testing => true,
                Purpose::LoadingServices | Purpose::Packaging | Purpose::TestingPackages => false,
            },
        }
    }
}

const NEEDS: &[Need] = &[
    Need {
        program: "cc",
        package: "gcc",
        testing_only: false,
        only: None,
        why: "links Rust programs, compiles the tests' C programs",
    },
    Need {
        program: "ip",
        package: "iproute2",
        testing_only: false,
        only: None,
        why: "makes network namespaces and veth pairs",
    },
    Need {
        program: "sockperf",
        package: "sockperf",
        testing_only: false,
        only: None,
        why: "the program that is measured",
    },
    Need {
        program: "taskset",
        package: "util-linux",
        testing_only: false,
        only: None,
        why: "runs both ends of the kernel's sockperf on one CPU",
    },
    Need {
        program: "c++",
        package: "g++",
        testing_only: true,
        only: None,
        why: "compiles libFuzzer",
    },
    Need {
        program: "kill",
        package: "procps",
        testing_only: true,
        only: None,
        why: "a test of vma_stats ends a process with it",
    },
    Need {
        program: "strace",
        package: "strace",
        testing_only: true,
        only: None,
        why: "a test of sockperf-rs delivers signals with it",
    },
    Need {
        program: "valgrind",
        package: "valgrind",
        testing_only: true,
        only: None,
        why: "counts the instructions of the TCP engine",
    },
    Need {
        program: "mandoc",
        package: "mandoc",
        testing_only: true,
        only: None,
        why: "checks the manual pages",
    },
    Need {
        program: "groff",
        package: "groff-base",
        testing_only: true,
        only: None,
        why: "checks the manual pages",
    },
    only(
        Purpose::LoadingServices,
        ["dnsperf", "dnsperf"],
        "asks name servers",
    ),
    packaging("objcopy", "binutils", "splits debugging symbols off"),
    packaging(
        "dpkg-shlibdeps",
        "dpkg-dev",
        "finds out what packages depend on",
    ),
    trying(
        "debootstrap",
        "debootstrap",
        "makes a root to install packages in",
    ),
    trying("lintian", "lintian", "checks DEB packages"),
    trying("rpm", "rpm", "installs RPM packages"),
    trying("rpmlint", "rpmlint", "checks RPM packages"),
];

const fn packaging(program: &'static str, package: &'static str, why: &'static str) -> Need {
    only(Purpose::Packaging, [program, package], why)
}

const fn trying(program: &'static str, package: &'static str, why: &'static str) -> Need {
    only(Purpose::TestingPackages, [program, package], why)
}

const fn only(purpose: Purpose, [program, package]: [&'static str; 2], why: &'static str) -> Need {
    Need {
        program,
        package,
        testing_only: false,
        only: Some(purpose),
        why,
    }
}

/// A line for each program that the tests compare with and without the library: its name, its Debian package, and "service"
/// if that starts one.
const COMPARED: &str = include_str!("../../libvma/tests/programs/packages.txt");

/// Packages of programs that the tests compare and that are not in the PATH. Without `services`, those are left out that
/// start a service, which nobody wants on a machine that is not only for tests.
pub(crate) fn missing_compared(services: bool) -> Vec<&'static str> {
    missing_compared_in(services, &env::var_os("PATH").unwrap_or_default())
}

/// Whether a program is where Debian has those of the administrator, too.
pub(crate) fn has_service(program: &str) -> bool {
    has(program) || is_in_path(program, OsStr::new("/usr/sbin:/sbin"))
}

fn missing_compared_in(services: bool, path: &OsStr) -> Vec<&'static str> {
    let mut packages: Vec<_> = COMPARED
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (program, package) = (words.next()?, words.next()?);
            let wanted = services || words.next().is_none();
            (wanted && !is_in_path(program, path)).then_some(package)
        })
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// What is not in the PATH.
pub(crate) fn missing(purpose: Purpose) -> Vec<&'static Need> {
    missing_in(purpose, &env::var_os("PATH").unwrap_or_default())
}

/// What is not in the directories of `path`.
pub(crate) fn missing_in(purpose: Purpose, path: &OsStr) -> Vec<&'static Need> {
    NEEDS
        .iter()
        .filter(|need| need.is_for(purpose))
        .filter(|need| !is_in_path(need.program, path))
        .collect()
}

/// Whether a program is in the PATH.
pub(crate) fn has(program: &str) -> bool {
    is_in_path(program, &env::var_os("PATH").unwrap_or_default())
}

/// Whether one of the directories of `path` holds an executable file of this name.
pub(crate) fn is_in_path(program: &str, path: &OsStr) -> bool {
    env::split_paths(path).any(|directory| {
        fs::metadata(directory.join(program))
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// Whether the effective user is root, as `/proc/self/status` says.
pub(crate) fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| effective_user(&status) == Some(0))
}

/// The effective user of a process: the second number of the line `Uid:` (proc_pid_status(5)).
fn effective_user(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_are_programs() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("tool");
        fs::write(&program, "").unwrap();
        fs::create_dir(directory.path().join("folder")).unwrap();
        let path = env::join_paths(["/nonexistent".as_ref(), directory.path()]).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_in_path("tool", &path));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_in_path("tool", &path));
        assert!(!is_in_path("folder", &path));
        assert!(!is_in_path("absent", &path));
    }

    #[test]
    fn the_effective_user_counts() {
        let status = "Name:\txtask\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t6\t7\t8\n";
        assert_eq!(effective_user(status), Some(0));
        assert_eq!(effective_user("Uid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_user("Gid:\t0\t0\t0\t0\n"), None);
    }

    #[test]
    fn compared_programs_bring_a_service_only_where_that_is_wanted() {
        let (few, all) = (
            missing_compared_in(false, OsStr::new("")),
            missing_compared_in(true, OsStr::new("")),
        );
        assert!(few.contains(&"socat") && !few.contains(&"nginx-light"));
        assert!(all.contains(&"nginx-light") && few.iter().all(|package| all.contains(package)));
    }

    #[test]
    fn measuring_needs_a_part_of_what_testing_needs() {
        let programs = |purpose| {
            let missing = missing_in(purpose, OsStr::new(""));
            missing.iter().map(|need| need.program).collect::<Vec<_>>()
        };
        assert_eq!(
            programs(Purpose::Measuring),
            ["cc", "ip", "sockperf", "taskset"]
        );
        assert!(programs(Purpose::Testing).starts_with(&programs(Purpose::Measuring)));
    }
}
