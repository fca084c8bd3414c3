//! Metrics of the broker.

use std::collections::BTreeMap;

use stats::{BrokerClient, BrokerInterface, BrokerStatus};

use super::family::{labels, push_heading, push_sample};

/// Name behind `vma_broker_`, type, help, and what it is of a process.
type Family = (
    &'static str,
    &'static str,
    &'static str,
    fn(&BrokerClient) -> u64,
);

/// Each is a sum over the processes of a program and user.
const FAMILIES: [Family; 6] = [
    (
        "clients",
        "gauge",
        "processes that have a part of the interface",
        |_| 1,
    ),
    (
        "ports",
        "gauge",
        "ports of processes that have a part of the interface",
        |it| it.ports_held,
    ),
    ("flows", "gauge", "flows to one peer each", |it| it.flows),
    (
        "frames_received",
        "gauge",
        "received frames that the processes have not taken yet",
        |it| it.frames_received,
    ),
    (
        "frames_sending",
        "gauge",
        "frames that the interface is sending",
        |it| it.frames_sending,
    ),
    (
        "packets_lost",
        "gauge",
        "packets that were lost for lack of room in the rings of the processes that are there",
        |it| it.dropped,
    ),
];

pub(super) fn push(text: &mut String, broker: &BrokerStatus) {
    for (name, kind, help, value) in FAMILIES {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for interface in &broker.interfaces {
            for client in &interface.clients {
                *sums.entry(labels_of(interface, client)).or_default() += value(client);
            }
        }
        let name = format!("vma_broker_{name}");
        push_heading(text, &name, kind, help);
        for (labels, sum) in sums {
            push_sample(text, &name, &labels, sum as f64);
        }
    }
    let name = "vma_broker_refused_total";
    push_heading(text, name, "counter", "processes that were not served");
    let version = labels(&[("version", broker.version.clone())]);
    push_sample(text, name, &version, broker.refusals as f64);
}

fn labels_of(interface: &BrokerInterface, client: &BrokerClient) -> String {
    labels(&[
        ("ifname", interface.name.clone()),
        ("namespace", interface.namespace.to_string()),
        ("program", client.program.clone()),
        ("user", client.user.to_string()),
    ])
}
