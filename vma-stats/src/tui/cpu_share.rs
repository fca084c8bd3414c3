//! How much of a CPU a process uses: polling takes a whole one for each thread that waits.

use std::fs;
use std::time::{Duration, Instant};

/// Between the last two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuShare {
    at: Instant,
    used: Duration,
    /// Of one CPU; `None` before the second look.
    pub(super) percent: Option<f64>,
}

impl CpuShare {
    pub(super) fn is_old(self) -> bool {
        self.at.elapsed() >= Duration::from_millis(90)
    }

    /// Looks again. `None`: the process has ended.
    pub(super) fn look(earlier: Option<Self>, pid: u32) -> Option<Self> {
        let used = parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        let at = Instant::now();
        let share = |earlier: Self| {
            let passed = at.duration_since(earlier.at).as_secs_f64().max(0.001);
            used.saturating_sub(earlier.used).as_secs_f64() / passed * 100.0
        };
        Some(Self {
            at,
            used,
            percent: earlier.map(share),
        })
    }
}

/// User's and system's time, of a line as in `/proc/PID/stat`. A tick is 10 ms on every Linux that
/// runs this.
fn parse(line: &str) -> Option<Duration> {
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_the_name() {
        let line = "7 (a) b) R 1 7 7 0 -1 4194304 150 0 0 0 120 30 0 0 20 0 1 0 100";
        assert_eq!(parse(line), Some(Duration::from_millis(1500)));
        assert_eq!(parse("7 (a) R 1"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_thread_that_never_waits_uses_a_cpu() {
        let pid = std::process::id();
        let first = CpuShare::look(None, pid).unwrap();
        assert_eq!(first.percent, None);
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let share = CpuShare::look(Some(first), pid).unwrap().percent.unwrap();
        assert!(share > 5.0, "{share}");
        assert!(CpuShare::look(None, 4_194_999).is_none());
    }
}
