//! View 4: who is a member of which multicast group. Printed once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::sample::Report;

pub(crate) fn format(report: &Report) -> String {
    let mut members: BTreeMap<IpAddr, Vec<i32>> = BTreeMap::new();
    for membership in &report.values.groups {
        if let Some(group) = membership.group {
            members.entry(group.ip()).or_default().push(membership.fd);
        }
    }
    let mut text = format!(
        "\nVMA Group Memberships Information\nGroup                fd number\n{}\n",
        "-".repeat(30)
    );
    for (group, fds) in members {
        let fds: Vec<_> = fds.iter().map(i32::to_string).collect();
        text.push_str(&format!("{:<22}{}\n", format!("[{group}]"), fds.join(" ")));
    }
    text.push_str(&"-".repeat(30));
    text.push('\n');
    text
}
