//! What disturbed a measurement: other programs and other virtual machines.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Changes of the system's counters between two looks. What the system does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Disturbance {
    /// Time that the hypervisor gave to others while a CPU wanted to run, all CPUs, in
    /// milliseconds.
    pub steal_msec: Option<f64>,
    /// Time that threads of this process were ready to run and did not, in milliseconds.
    pub run_queue_wait_msec: Option<f64>,
    /// Times that a thread of this process had to leave its CPU to another one.
    pub involuntary_switches: Option<u64>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    steal_ticks: Option<u64>,
    run_queue_wait_nsec: Option<u64>,
    involuntary_switches: Option<u64>,
}

/// `USER_HZ`, which is 100 wherever Linux runs.
const TICKS_PER_MSEC: f64 = 0.1;

impl Counters {
    /// Reads a few files. Threads that have ended are not in them.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let tasks: Vec<_> = fs::read_dir("/proc/self/task")
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        let sum = |read: fn(&Path) -> Option<u64>| {
            // One may end between the list and its file.
            let values: Vec<u64> = tasks.iter().filter_map(|task| read(task)).collect();
            (!values.is_empty()).then(|| values.iter().sum())
        };
        Self {
            steal_ticks: steal_ticks(&stat),
            run_queue_wait_nsec: sum(|task| second_number(&read(task, "schedstat")?)),
            involuntary_switches: sum(|task| involuntary_switches(&read(task, "status")?)),
        }
    }

    /// What happened since `earlier`.
    pub fn since(&self, earlier: &Self) -> Disturbance {
        let change = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Disturbance {
            steal_msec: change(self.steal_ticks, earlier.steal_ticks)
                .map(|ticks| ticks as f64 / TICKS_PER_MSEC),
            run_queue_wait_msec: change(self.run_queue_wait_nsec, earlier.run_queue_wait_nsec)
                .map(|nsec| nsec as f64 / 1e6),
            involuntary_switches: change(self.involuntary_switches, earlier.involuntary_switches),
        }
    }
}

impl Disturbance {
    /// A sentence for the user if the result is not to be trusted: more than 1 % of the time was
    /// lost.
    pub fn warning(&self, run_time_msec: f64) -> Option<String> {
        let steal = self.steal_msec.unwrap_or(0.0);
        let wait = self.run_queue_wait_msec.unwrap_or(0.0);
        let is_noisy = steal.max(wait) > run_time_msec / 100.0;
        (is_noisy && run_time_msec > 0.0).then(|| {
            format!(
                "WARNING: noisy machine: during the test, other virtual machines took {steal:.0} ms of \
                 CPU time, and threads of sockperf waited {wait:.0} ms for a CPU"
            )
        })
    }
}

fn read(task: &Path, name: &str) -> Option<String> {
    fs::read_to_string(task.join(name)).ok()
}

/// The eighth number of `cpu  user nice system idle iowait irq softirq steal ...`.
fn steal_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    line.split_whitespace().nth(7)?.parse().ok()
}

/// Of `running waiting slices`.
fn second_number(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

fn involuntary_switches(status: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_understood() {
        let stat = "cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1 2 3\n";
        assert_eq!(steal_ticks(stat), Some(88));
        assert_eq!(steal_ticks("cpu0 1"), None);
        assert_eq!(second_number("100 250 3\n"), Some(250));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(involuntary_switches(status), Some(7));
    }

    #[test]
    fn this_process_has_counters_that_grow() {
        let before = Counters::read();
        let change = Counters::read().since(&before);
        assert!(change.steal_msec.is_some() && change.involuntary_switches.is_some());
        let before = Counters {
            steal_ticks: Some(5),
            ..Counters::default()
        };
        let after = Counters {
            steal_ticks: Some(9),
            ..Counters::default()
        };
        assert_eq!(after.since(&before).steal_msec, Some(40.0));
    }

    #[test]
    fn noise_is_told_above_one_percent() {
        let noise = |steal_msec, run_queue_wait_msec| Disturbance {
            steal_msec,
            run_queue_wait_msec,
            involuntary_switches: None,
        };
        assert_eq!(noise(Some(9.0), None).warning(1000.0), None);
        let text = noise(None, Some(11.0)).warning(1000.0).unwrap();
        assert!(text.contains("waited 11 ms"), "{text}");
        assert!(noise(Some(30.0), None).warning(1000.0).is_some());
    }
}
