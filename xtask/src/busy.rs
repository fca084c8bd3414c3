//! Whether the machine is quiet enough for numbers to mean something.

use std::fs;
use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::say;

/// How long one look at the CPUs takes.
const LOOK: Duration = Duration::from_millis(300);
/// Below, what other programs do is part of every machine's life.
const QUIET_PERCENT: u64 = 10;

/// How busy the CPUs were, with other things, between what was measured.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    most_percent: u64,
}

impl Meter {
    /// Looks at all CPUs for a moment, while nothing is measured.
    pub(crate) fn look(&mut self) -> Result<(), Failure> {
        let before = cpu_times()?;
        interrupt::sleep(LOOK)?;
        self.most_percent = self.most_percent.max(before.busy_percent(&cpu_times()?));
        Ok(())
    }

    /// The most that was seen, of all CPUs together.
    pub(crate) fn most_percent(&self) -> u64 {
        self.most_percent
    }

    /// Says so if the machine was not quiet.
    pub(crate) fn warn(&self) {
        if self.most_percent > QUIET_PERCENT {
            say(format_args!(
                "\nwarning: between the rounds other programs used up to {} % of the CPUs; run again on a quiet \
                 machine",
                self.most_percent
            ));
        }
    }
}

/// Since boot, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTimes {
    busy: u64,
    idle: u64,
}

impl CpuTimes {
    fn busy_percent(&self, later: &Self) -> u64 {
        let busy = later.busy.saturating_sub(self.busy);
        let all = busy + later.idle.saturating_sub(self.idle);
        (100 * busy).checked_div(all).unwrap_or(0)
    }
}

fn cpu_times() -> Result<CpuTimes, Failure> {
    parse(&fs::read_to_string("/proc/stat")?)
        .ok_or_else(|| Failure::new("/proc/stat has no line of all CPUs"))
}

/// Of the line `cpu  user nice system idle iowait irq softirq steal ...` (proc_stat(5)). The time
/// that the hypervisor took is time of others, too.
fn parse(stat: &str) -> Option<CpuTimes> {
    let numbers = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times: Vec<u64> = numbers
        .split_whitespace()
        .map_while(|time| time.parse().ok())
        .take(8)
        .collect();
    let idle = times.get(3)? + times.get(4)?;
    Some(CpuTimes {
        busy: times.iter().sum::<u64>() - idle,
        idle,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_and_waiting_for_disks_are_not_busy() {
        let stat = "cpu  100 10 50 1000 40 1 9 30 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(
            parse(stat),
            Some(CpuTimes {
                busy: 200,
                idle: 1040
            })
        );
        assert_eq!(parse("cpu  100 10\n"), None);
        assert_eq!(parse("intr 5\n"), None);
        assert!(cpu_times().is_ok());
    }

    #[test]
    fn the_share_of_busy_time_is_taken() {
        let before = CpuTimes {
            busy: 200,
            idle: 1000,
        };
        let later = CpuTimes {
            busy: 215,
            idle: 1045,
        };
        assert_eq!(before.busy_percent(&later), 25);
        assert_eq!(before.busy_percent(&before), 0);
        assert_eq!(later.busy_percent(&before), 0);
    }
}
