//! Datagrams as fast as they go, small and large, one by one and in batches: how many arrive.

use crate::arguments::BenchOptions;
use crate::bench::calls::{Ends, KERNELS, LIBVMA, Stage};
use crate::bench::verdict::{self, Limit, Verdict};
use crate::failure::Failure;
use crate::median::median;
use crate::output::{print, say};
use crate::table::{layout, row};

const MSEC: &str = "500";

/// What is sent, and how many times as many as the kernel's have to arrive.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    bytes: &'static str,
    send: &'static str,
    receive: &'static str,
    least: f64,
}

const LOADS: [Load; 4] = [
    Load {
        name: "14 bytes",
        bytes: "14",
        send: "sendto",
        receive: "recvfrom",
        least: 2.0,
    },
    Load {
        name: "1472 bytes",
        bytes: "1472",
        send: "sendto",
        receive: "recvfrom",
        least: 1.5,
    },
    Load {
        name: "recvmmsg(64)",
        bytes: "64",
        send: "sendto",
        receive: "recvmmsg",
        least: 2.5,
    },
    Load {
        name: "sendmmsg(64), recvmmsg(64)",
        bytes: "64",
        send: "sendmmsg",
        receive: "recvmmsg",
        least: 2.5,
    },
];

/// Datagrams a second.
#[derive(Clone, Copy, Debug)]
struct Rate {
    sent: f64,
    received: f64,
}

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    let stage = Stage::new()?;
    let ends = [KERNELS[0], KERNELS[1], KERNELS[2], LIBVMA];
    let mut rates = vec![vec![Vec::new(); ends.len()]; LOADS.len()];
    for number in 1..=options.rounds {
        for (load, rates) in LOADS.iter().zip(&mut rates) {
            for (ends, rates) in ends.iter().zip(rates) {
                rates.push(measure(&stage, ends, load)?);
            }
        }
        say(format_args!("  round {number} of {}", options.rounds));
    }
    let mut rows = vec![row!["thousand datagrams/s", "", "sent", "received"]];
    let mut verdicts = Vec::new();
    for (load, rates) in LOADS.iter().zip(&rates) {
        for (ends, rates) in ends.iter().zip(rates) {
            let of = |value: fn(&Rate) -> f64| median(rates.iter().map(value)) / 1e3;
            rows.push(row![
                load.name,
                ends.name,
                format!("{:.0}", of(|rate| rate.sent)),
                format!("{:.0}", of(|rate| rate.received))
            ]);
        }
        verdicts.push(Verdict {
            name: load.name,
            value: gain(rates),
            limit: Limit::AtLeast(load.least),
        });
    }
    print(&format!(
        "\n{} rounds of {MSEC} ms, a CPU for each end\n\n{}\nreceived, of the kernel's best line:\n{}\n",
        options.rounds,
        layout(&rows),
        verdict::lines(&verdicts)
    ))?;
    verdict::require(options.check, &verdicts)
}

/// The median of each round's gain over the kernel's best line of that round. The last one is ours.
fn gain(rates: &[Vec<Rate>]) -> f64 {
    let Some((ours, kernels)) = rates.split_last() else {
        return f64::NAN;
    };
    let best = |round: usize| kernels.iter().map(move |rates| rates[round].received);
    let gains = ours.iter().enumerate();
    median(gains.map(|(round, ours)| ours.received / best(round).fold(0.0, f64::max)))
}

fn measure(stage: &Stage, ends: &Ends, load: &Load) -> Result<Rate, Failure> {
    let (sender, receiver) = (["send", load.send], ["sink", load.receive]);
    let [sent, received] = stage.run(ends, sender, receiver, [load.bytes, MSEC, "0"])?;
    Ok(Rate {
        sent: sent.number("rate")?,
        received: received.number("received")? * 1e3 / sent.number("msec")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_is_over_the_best_of_the_round() {
        let rates = |received: [f64; 2]| -> Vec<Rate> {
            let rate = |received| Rate {
                sent: 0.0,
                received,
            };
            received.map(rate).to_vec()
        };
        let all = [rates([1.0, 4.0]), rates([2.0, 1.0]), rates([4.0, 8.0])];
        assert_eq!(gain(&all), 2.0);
    }
}
