//! What the system says of a process.

use std::fs;

/// The users that a process acts for: real, effective, saved and for files. `None`: no such process
/// runs.
pub(crate) fn process_users(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users
        .split_whitespace()
        .map(|user| user.parse().ok())
        .collect()
}

/// When a process started, clock ticks since boot, or `None` when no such process runs. A process
/// that ended and waits for its parent does not count.
pub fn process_start_time_ticks(pid: u32) -> Option<u64> {
    let status = parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    let ended = matches!(status.state, b'Z' | b'X' | b'x');
    (!ended).then_some(status.start_time_ticks)
}

/// What the first line of /proc/PID/stat says (`man 5 proc_pid_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) start_time_ticks: u64,
}

/// The program's name is in parentheses and may itself hold spaces and parentheses, so fields are
/// counted from the last one that closes.
pub(crate) fn parse_stat(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = line
        .get(name_end + 1..)?
        .split(|byte| *byte == b' ')
        .skip(1);
    let state = *fields.next()?.first()?;
    // The state is field 3, the start time field 22.
    let start_time = fields.nth(22 - 3 - 1)?;
    let start_time_ticks = std::str::from_utf8(start_time).ok()?.parse().ok()?;
    Some(Stat {
        state,
        start_time_ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_name_with_parentheses_and_spaces() {
        let line = b"42 (a) R (b c) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 11 12\n";
        assert_eq!(
            parse_stat(line),
            Some(Stat {
                state: b'S',
                start_time_ticks: 987_654
            })
        );
    }

    #[test]
    fn stat_every_truncation_is_refused_or_right() {
        let line = b"42 (x) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 11";
        let complete = line.len() - b"654 11".len();
        for end in 0..complete {
            let parsed = line.get(..end).and_then(parse_stat);
            assert!(
                parsed.is_none_or(|stat| stat.start_time_ticks < 987_654),
                "{end}: {parsed:?}"
            );
        }
    }

    #[test]
    fn start_time_of_this_process_is_known() {
        assert!(process_start_time_ticks(std::process::id()).is_some_and(|ticks| ticks > 0));
    }
}
