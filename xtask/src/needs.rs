//! What the commands need of the machine: the lines of `testkit::needs` that concern them, and
//! whether it is root's.

use std::env;
use std::ffi::OsStr;
use std::fs;

pub(crate) use testkit::needs::{Need, Whom, is_in_path};

/// Whether a command of this kind does not begin without it.
fn is_a_must(need: &Need, whom: Whom) -> bool {
    need.whom == whom || (whom == Whom::Testing && need.whom == Whom::Measuring)
}

/// What `whom` must have and the PATH has not.
pub(crate) fn missing(whom: Whom) -> Vec<&'static Need> {
    missing_in(whom, &env::var_os("PATH").unwrap_or_default())
}

/// What the directories of `path` have not.
pub(crate) fn missing_in(whom: Whom, path: &OsStr) -> Vec<&'static Need> {
    let all = testkit::needs::all().iter();
    all.filter(|need| is_a_must(need, whom) && !is_in_path(need.name, path))
        .collect()
}

/// What tests are skipped without, and is not here. Without `services`, those are left out whose
/// packages start one, which nobody wants on a machine that is not only for tests.
pub(crate) fn missing_compared(services: bool) -> Vec<&'static Need> {
    let all = testkit::needs::all().iter();
    let is_wanted = |whom| match whom {
        Whom::Compared | Whom::Loading => true,
        Whom::Service => services,
        _ => false,
    };
    all.filter(|need| is_wanted(need.whom))
        .filter(|need| !need.is_here())
        .collect()
}

/// Whether a program is where Debian has them, also those of the administrator.
pub(crate) fn has_service(program: &str) -> bool {
    is_in_path(program, testkit::needs::PATH.as_ref())
}

/// Whether a program is in the PATH.
pub(crate) fn has(program: &str) -> bool {
    is_in_path(program, &env::var_os("PATH").unwrap_or_default())
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
    fn the_effective_user_counts() {
        let status = "Name:\txtask\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t6\t7\t8\n";
        assert_eq!(effective_user(status), Some(0));
        assert_eq!(effective_user("Uid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_user("Gid:\t0\t0\t0\t0\n"), None);
    }

    #[test]
    fn measuring_needs_a_part_of_what_testing_needs() {
        let programs = |whom| {
            let missing = missing_in(whom, OsStr::new(""));
            missing.iter().map(|need| need.name).collect::<Vec<_>>()
        };
        assert_eq!(
            programs(Whom::Measuring),
            ["cc", "ip", "sockperf", "taskset", "sysctl"]
        );
        assert!(programs(Whom::Testing).starts_with(&programs(Whom::Measuring)));
    }

    #[test]
    fn a_must_is_a_program() {
        for need in testkit::needs::all() {
            let can_be_skipped = matches!(need.whom, Whom::Compared | Whom::Service);
            assert!(can_be_skipped || need.is_program(), "{}", need.name);
        }
    }
}
