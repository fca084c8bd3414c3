//! Medians over the rounds, as a table and as JSON.

use serde_json::{Value, json};

use super::Round;
use super::cost::Cost;
use super::system::System;
use super::verdict::{Limit, Verdict};
use crate::measure::{PING_PONG_BYTES, THROUGHPUT_BYTES, Throughput};
use crate::median::median;
use crate::sockperf::Latency;
use crate::table::{layout, row};

/// Medians over all rounds, each number by itself.
#[derive(Clone, Debug)]
pub(super) struct Medians {
    pub(super) kernel: Latency,
    /// The kernel's sockets, both ends on one CPU.
    pub(super) one_cpu: Latency,
    pub(super) libvma: Latency,
    pub(super) floor: Latency,
    pub(super) kernel_throughput: Throughput,
    pub(super) libvma_throughput: Throughput,
    pub(super) costs: Vec<Cost>,
    pub(super) hooks: Vec<Cost>,
    pub(super) epoll: Vec<Cost>,
    pub(super) ratios: Ratios,
    rounds: usize,
}

/// Medians of the ratios that each round has by itself: what is measured side by side sees the same
/// machine, whose speed changes from round to round.
#[derive(Clone, Debug)]
pub(super) struct Ratios {
    /// Kernel as it runs by itself by libvma, p50.
    pub(super) kernel_by_libvma: f64,
    /// libvma by floor, p50.
    pub(super) libvma_by_floor: f64,
    /// libvma by the faster of the two kernel lines, p99.
    pub(super) p99_by_kernel: f64,
    /// Messages received with libvma by those on the kernel.
    pub(super) received: f64,
    /// A call on an epoll set with many members by the same with few, the worst of them.
    pub(super) epoll_growth: f64,
}

impl Ratios {
    fn of(rounds: &[Round]) -> Self {
        let ratio = |of: fn(&Round) -> f64| median(rounds.iter().map(of));
        Self {
            kernel_by_libvma: ratio(|round| round.kernel.p50_usec / round.libvma.p50_usec),
            libvma_by_floor: ratio(|round| round.libvma.p50_usec / round.floor.p50_usec),
            p99_by_kernel: ratio(|round| {
                round.libvma.p99_usec / round.kernel.faster(&round.one_cpu).p99_usec
            }),
            received: ratio(|round| {
                round.libvma_throughput.received_per_sec / round.kernel_throughput.received_per_sec
            }),
            epoll_growth: ratio(|round| Cost::growth(&round.epoll)),
        }
    }
}

impl Medians {
    pub(super) fn of(rounds: &[Round]) -> Self {
        let latency = |of: fn(&Round) -> &Latency| Latency::median_of(rounds.iter().map(of));
        let throughput = |of: fn(&Round) -> &Throughput| Throughput {
            sent_per_sec: median(rounds.iter().map(|round| of(round).sent_per_sec)),
            received_per_sec: median(rounds.iter().map(|round| of(round).received_per_sec)),
        };
        let costs = |of: fn(&Round) -> &[Cost]| -> Vec<Cost> {
            let median_of = |case: &Cost| {
                let of_all = rounds.iter().flat_map(of);
                let same = of_all.filter(|cost| cost.name == case.name);
                Cost {
                    name: case.name.clone(),
                    nsec: median(same.map(|cost| cost.nsec)),
                }
            };
            rounds
                .first()
                .map_or(&[][..], of)
                .iter()
                .map(median_of)
                .collect()
        };
        Self {
            kernel: latency(|round| &round.kernel),
            one_cpu: latency(|round| &round.one_cpu),
            libvma: latency(|round| &round.libvma),
            floor: latency(|round| &round.floor),
            kernel_throughput: throughput(|round| &round.kernel_throughput),
            libvma_throughput: throughput(|round| &round.libvma_throughput),
            costs: costs(|round| &round.costs),
            hooks: costs(|round| &round.hooks),
            epoll: costs(|round| &round.epoll),
            ratios: Ratios::of(rounds),
            rounds: rounds.len(),
        }
    }
}

/// One round in a line.
pub(super) fn progress(round: &Round) -> String {
    let costs: Vec<String> = round
        .costs
        .iter()
        .map(|cost| format!("{} {:.0}", cost.name, cost.nsec))
        .collect();
    format!(
        "p50 {:.2} / {:.2} / {:.2} / {:.2} us (kernel / on one CPU / libvma / floor), received {:.0} / {:.0} k/s \
         (kernel / libvma), {} nsec",
        round.kernel.p50_usec,
        round.one_cpu.p50_usec,
        round.libvma.p50_usec,
        round.floor.p50_usec,
        round.kernel_throughput.received_per_sec / 1000.0,
        round.libvma_throughput.received_per_sec / 1000.0,
        costs.join(", ")
    )
}

/// The table of medians, then the promises. The gain is how many times better libvma is than the
/// kernel, of its two columns the one with the lower median.
pub(super) fn table(medians: &Medians, verdicts: &[Verdict]) -> String {
    let Medians {
        kernel,
        one_cpu,
        libvma,
        floor,
        ..
    } = medians;
    let mut rows = vec![row![
        "",
        "",
        "kernel",
        "on one CPU",
        "libvma",
        "floor",
        "gain",
        "of floor"
    ]];
    let ping_pong = format!("ping-pong {PING_PONG_BYTES} B, half round trip");
    let faster = kernel.faster(one_cpu).values();
    let (kernel, one_cpu) = (kernel.values(), one_cpu.values());
    let (libvma, floor) = (libvma.values(), floor.values());
    for (index, name) in Latency::NAMES.into_iter().enumerate() {
        rows.push(row![
            if index == 0 { ping_pong.as_str() } else { "" },
            format!("{name} usec"),
            format!("{:.2}", kernel[index]),
            format!("{:.2}", one_cpu[index]),
            format!("{:.2}", libvma[index]),
            format!("{:.2}", floor[index]),
            format!("{:.2}", faster[index] / libvma[index]),
            format!("{:.2}", libvma[index] / floor[index]),
        ]);
    }
    let throughput = format!("throughput {THROUGHPUT_BYTES} B");
    let (kernel, libvma) = (&medians.kernel_throughput, &medians.libvma_throughput);
    for (what, name, kernel, libvma) in [
        (
            throughput.as_str(),
            "sent/s",
            kernel.sent_per_sec,
            libvma.sent_per_sec,
        ),
        (
            "",
            "received/s",
            kernel.received_per_sec,
            libvma.received_per_sec,
        ),
    ] {
        let gain = format!("{:.2}", libvma / kernel);
        rows.push(row![
            what,
            name,
            format!("{kernel:.0}"),
            "",
            format!("{libvma:.0}"),
            "",
            gain
        ]);
    }
    let hooks = Cost::dearest_of_families(&medians.hooks);
    let parts = [
        (
            "socket layer alone, a message",
            medians.costs.iter().collect(),
        ),
        ("hook alone, another's descriptor", hooks),
        (
            "epoll set, a call with so many sockets",
            medians.epoll.iter().collect(),
        ),
    ];
    for (what, costs) in parts {
        for (index, cost) in costs.into_iter().enumerate() {
            rows.push(row![
                if index == 0 { what } else { "" },
                format!("{} nsec", cost.name),
                "",
                "",
                format!("{:.1}", cost.nsec)
            ]);
        }
    }

    let mut text = format!(
        "\nmedians of {} rounds\n\n{}\n",
        medians.rounds,
        layout(&rows)
    );
    let judged: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            let limit = match verdict.limit {
                Limit::AtLeast(limit) => format!("at least {limit}"),
                Limit::AtMost(limit) => format!("at most {limit}"),
            };
            let passed = if verdict.passed() { "pass" } else { "MISS" };
            row![verdict.name, format!("{:.2}", verdict.value), limit, passed]
        })
        .collect();
    text += &layout(&judged);
    text
}

/// All of it, for programs.
pub(super) fn json(
    system: &System,
    rounds: &[Round],
    medians: &Medians,
    verdicts: &[Verdict],
) -> Value {
    let round = |round: &Round| {
        values(
            [&round.kernel, &round.one_cpu, &round.libvma, &round.floor],
            [&round.kernel_throughput, &round.libvma_throughput],
            [&round.costs, &round.hooks, &round.epoll],
        )
    };
    let verdict = |verdict: &Verdict| {
        let (at_least, at_most) = match verdict.limit {
            Limit::AtLeast(limit) => (Some(limit), None),
            Limit::AtMost(limit) => (None, Some(limit)),
        };
        json!({
            "name": verdict.name,
            "value": verdict.value,
            "at_least": at_least,
            "at_most": at_most,
            "passed": verdict.passed(),
        })
    };
    json!({
        "system": system.json(),
        "medians": values(
            [&medians.kernel, &medians.one_cpu, &medians.libvma, &medians.floor],
            [&medians.kernel_throughput, &medians.libvma_throughput],
            [&medians.costs, &medians.hooks, &medians.epoll],
        ),
        "rounds": rounds.iter().map(round).collect::<Vec<_>>(),
        "checks": verdicts.iter().map(verdict).collect::<Vec<_>>(),
    })
}

fn values(latencies: [&Latency; 4], throughputs: [&Throughput; 2], costs: [&[Cost]; 3]) -> Value {
    let latency = |latency: &Latency| {
        json!({
            "p50_usec": latency.p50_usec,
            "p99_usec": latency.p99_usec,
            "p999_usec": latency.p999_usec,
        })
    };
    let throughput = |throughput: &Throughput| {
        json!({
            "sent_per_sec": throughput.sent_per_sec,
            "received_per_sec": throughput.received_per_sec,
        })
    };
    let [kernel, one_cpu, libvma, floor] = latencies;
    let [kernel_throughput, libvma_throughput] = throughputs;
    let [socket_layer, hooks, epoll] = costs.map(|costs| -> serde_json::Map<_, _> {
        let named = costs
            .iter()
            .map(|cost| (cost.name.clone(), json!(cost.nsec)));
        named.collect()
    });
    json!({
        "ping_pong_half_round_trip": {
            "kernel": latency(kernel),
            "kernel_one_cpu": latency(one_cpu),
            "libvma": latency(libvma),
            "floor": latency(floor),
        },
        "throughput": {
            "kernel": throughput(kernel_throughput),
            "libvma": throughput(libvma_throughput),
        },
        "socket_layer_nsec": socket_layer,
        "hook_nsec": hooks,
        "epoll_nsec": epoll,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::verdict;
    use crate::busy::Meter;

    /// A round whose numbers grow with `scale`, all in the same proportion.
    pub(in crate::bench) fn round(scale: f64) -> Round {
        let latency = |usec: f64| Latency {
            p50_usec: usec * scale,
            p99_usec: 2.0 * usec * scale,
            p999_usec: 4.0 * usec * scale,
        };
        let throughput = |per_sec: f64| Throughput {
            sent_per_sec: 2.0 * per_sec * scale,
            received_per_sec: per_sec * scale,
        };
        let cost = |name: &str, nsec: f64| Cost {
            name: name.to_owned(),
            nsec: nsec * scale,
        };
        Round {
            kernel: latency(50.0),
            one_cpu: latency(10.0),
            libvma: Latency {
                p99_usec: 5.0 * scale,
                ..latency(2.0)
            },
            floor: latency(1.6),
            kernel_throughput: throughput(100_000.0),
            libvma_throughput: throughput(300_000.0),
            costs: vec![cost("receive", 30.0), cost("send", 60.0)],
            hooks: vec![
                cost("receive: read", 2.0),
                cost("receive: recv", 3.0),
                cost("poll: poll", 7.0),
            ],
            epoll: vec![cost("wait: 10", 100.0), cost("wait: 10000", 110.0)],
        }
    }

    #[test]
    fn the_table_holds_the_medians_and_the_verdicts() {
        let medians = Medians::of(&[round(1.0), round(9.0), round(0.5)]);
        let text = table(&medians, &verdict::all(&medians));
        let expected = "
medians of 3 rounds

                                                            kernel  on one CPU  libvma  floor  gain  of floor
ping-pong 64 B, half round trip                   p50 usec   50.00       10.00    2.00   1.60  5.00      1.25
                                                  p99 usec  100.00       20.00    5.00   3.20  4.00      1.56
                                                p99.9 usec  200.00       40.00    8.00   6.40  5.00      1.25
throughput 14 B                                     sent/s  200000              600000         3.00
                                                received/s  100000              300000         3.00
socket layer alone, a message                 receive nsec                        30.0
                                                 send nsec                        60.0
hook alone, another's descriptor        receive: recv nsec                         3.0
                                           poll: poll nsec                         7.0
epoll set, a call with so many sockets       wait: 10 nsec                       100.0
                                          wait: 10000 nsec                       110.0

p50, kernel / libvma                        25.00    at least 4  pass
p50, libvma / floor                          1.25  at most 1.25  pass
p99, libvma / faster kernel                  0.25     at most 1  pass
messages received, libvma / kernel           3.00    at least 2  pass
socket layer, dearest case (nsec)           60.00    at most 80  pass
hook, dearest case (nsec)                    7.00    at most 15  pass
epoll set, 10,000 sockets / 10, worst case   1.10   at most 1.5  pass
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_document_holds_every_round_and_verdict() {
        let rounds = [round(1.0), round(2.0)];
        let medians = Medians::of(&rounds);
        let document = json(
            &System::now(&Meter::default()),
            &rounds,
            &medians,
            &verdict::all(&medians),
        );
        assert_eq!(document["rounds"].as_array().map(Vec::len), Some(2));
        let of = |part: &Value| part["ping_pong_half_round_trip"]["kernel"]["p50_usec"].as_f64();
        assert_eq!(of(&document["medians"]), Some(75.0));
        assert_eq!(of(&document["rounds"][1]), Some(100.0));
        assert_eq!(document["medians"]["socket_layer_nsec"]["send"], 90.0);
        assert_eq!(document["checks"][0]["at_least"], 4.0);
        assert_eq!(document["checks"][0]["passed"], true);
        assert_eq!(document["checks"][4]["passed"], false, "{document:#}");
        assert!(document["system"]["cpus"].as_u64() > Some(0));
    }
}
