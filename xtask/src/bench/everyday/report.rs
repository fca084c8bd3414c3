//! The table of all services.

use std::collections::BTreeMap;

use super::Trial;
use super::services::Service;
use super::trial::{Ends, Placement};
use crate::median::median;
use crate::table::{layout, row};

/// All runs of a service.
#[derive(Debug)]
pub(super) struct Measured {
    service: &'static Service,
    trials: Vec<(Ends, Placement, Trial)>,
}

impl Measured {
    pub(super) fn new(service: &'static Service) -> Self {
        Self {
            service,
            trials: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, ends: Ends, placement: Placement, trial: Trial) {
        self.trials.push((ends, placement, trial));
    }

    fn of(&self, ends: Ends, placement: Placement) -> impl Iterator<Item = &Trial> {
        let is_it = move |(its_ends, its_placement, _): &&(Ends, Placement, Trial)| {
            (*its_ends, *its_placement) == (ends, placement)
        };
        self.trials.iter().filter(is_it).map(|(_, _, trial)| trial)
    }

    fn median(&self, ends: Ends, value: impl Fn(&Trial) -> f64) -> f64 {
        median(self.of(ends, Placement::Apart).map(value))
    }

    /// Rate by the kernel's of the same round.
    pub(super) fn ratio(&self, ends: Ends, placement: Placement) -> f64 {
        let kernel = self.of(Ends::Kernel, placement);
        let ratios = self.of(ends, placement).zip(kernel);
        median(ratios.map(|(trial, kernel)| trial.rate / kernel.rate))
    }

    /// Whether the server with the library is at least so fast, by the kernel's rate, with both
    /// ends apart and free.
    pub(super) fn passes(&self, least: f64) -> bool {
        let is_enough = |placement| self.ratio(Ends::Server, placement) >= least;
        self.service.short || (is_enough(Placement::Apart) && is_enough(Placement::Free))
    }

    pub(super) fn progress(&self) -> String {
        format!(
            "{}: {:.2} of the kernel's rate, {:.2} free",
            self.service.name,
            self.ratio(Ends::Server, Placement::Apart),
            self.ratio(Ends::Server, Placement::Free)
        )
    }

    fn reasons(&self) -> String {
        let mut counts = BTreeMap::new();
        for reason in self.trials.iter().flat_map(|(_, _, trial)| &trial.reasons) {
            *counts.entry(reason.as_str()).or_insert(0) += 1;
        }
        let mut names: Vec<_> = counts.into_iter().collect();
        names.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let names: Vec<&str> = names.iter().map(|&(name, _)| name).collect();
        names.join("; ")
    }

    fn row(&self) -> Vec<String> {
        let p99 = |ends| {
            let usec = self.median(ends, |trial| trial.p99_usec.unwrap_or(f64::NAN));
            if usec.is_nan() {
                "-".to_owned()
            } else {
                format!("{usec:.0}")
            }
        };
        let cost = |value: fn(&Trial) -> f64| {
            let (kernel, libvma) = (
                self.median(Ends::Kernel, value),
                self.median(Ends::Server, value),
            );
            format!("{kernel:.1} {libvma:.1}")
        };
        row![
            self.service.name,
            rate(self.median(Ends::Kernel, |trial| trial.rate)),
            self.service.unit,
            format!("{:.2}", self.ratio(Ends::Server, Placement::Apart)),
            format!("{:.2}", self.ratio(Ends::Both, Placement::Apart)),
            format!("{:.2}", self.ratio(Ends::Server, Placement::Free)),
            format!("{} {}", p99(Ends::Kernel), p99(Ends::Server)),
            cost(|trial| trial.server_usec),
            cost(|trial| trial.client_usec),
            format!(
                "{:.0} %",
                100.0 * self.median(Ends::Server, |trial| trial.offloaded)
            ),
            self.reasons()
        ]
    }
}

fn rate(per_sec: f64) -> String {
    if per_sec < 1000.0 {
        format!("{per_sec:.0}")
    } else {
        format!("{:.1}k", per_sec / 1000.0)
    }
}

pub(super) fn text(all: &[Measured], rounds: u32) -> String {
    let mut rows = vec![row![
        "service",
        "kernel",
        "unit",
        "S/K",
        "B/K",
        "free",
        "p99 us",
        "server us",
        "client us",
        "past",
        "why not"
    ]];
    rows.extend(all.iter().map(Measured::row));
    format!(
        "\nmedians of {rounds} rounds. S/K, B/K: rate with libvma at the server, at both ends, by the kernel's, a CPU for each end; free: \
         S/K without CPUs of their own. p99, CPU time for a request: kernel, libvma at the server. past: of the bytes received, those past the kernel\n\n{}",
        layout(&rows)
    )
}
