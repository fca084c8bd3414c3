use super::*;
use crate::facts::Interface;

const ALL: u64 = u64::MAX;

pub(super) fn interface() -> Interface {
    Interface {
        name: "eth0".to_owned(),
        driver: Some("ice".to_owned()),
        queues: 4,
        mtu: 1500,
        has_address: true,
        ..Interface::default()
    }
}

pub(super) fn ready() -> Facts {
    Facts {
        capabilities: Some(ALL),
        kernel: Some((6, 1)),
        has_btf: true,
        locked_memory: None,
        interfaces: Some(vec![interface()]),
        cpus: 8,
        isolated_cpus: "2-7".to_owned(),
        governors: ["performance".to_owned()].into(),
    }
}

pub(super) fn report(facts: &Facts) -> Report {
    judge(facts, Some(&PathBuf::from("/usr/lib/libvma.so")))
}

pub(super) fn without(capabilities: &[(&str, u32)]) -> Facts {
    let lacking = capabilities
        .iter()
        .fold(0, |bits, (_, number)| bits | 1 << number);
    Facts {
        capabilities: Some(ALL & !(lacking | 1 << SYS_ADMIN.1)),
        ..ready()
    }
}

/// The only finding that is not fine.
pub(super) fn complaint(facts: &Facts) -> (Weight, String) {
    let report = report(facts);
    let mut complaints = report
        .findings
        .iter()
        .filter(|it| it.weight != Weight::Fine);
    let complaint = complaints.next().unwrap();
    assert_eq!(complaints.next(), None);
    assert!(complaint.remedy.is_some(), "{complaint}");
    (complaint.weight, complaint.to_string())
}

#[test]
fn a_machine_that_has_everything_is_ready() {
    let report = report(&ready());
    assert!(report.is_ready());
    assert!(
        report.findings.iter().all(|it| it.weight == Weight::Fine),
        "{report}"
    );
    assert!(report.to_string().ends_with("can be accelerated here.\n"));
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let (weight, text) = complaint(&without(&[NET_RAW, BPF]));
    assert_eq!(weight, Weight::Missing);
    assert!(
        text.contains("without CAP_NET_RAW, CAP_BPF") && text.contains("setpriv"),
        "{text}"
    );
    let old = Facts {
        kernel: Some((5, 4)),
        ..ready()
    };
    assert_eq!(complaint(&old).0, Weight::Missing);
    let report = judge(&ready(), None);
    assert!(!report.is_ready());
    assert_eq!(report.missing().count(), 1);
}

#[test]
fn perfmon_matters_less_on_newer_kernels() {
    let facts = without(&[PERFMON]);
    assert_eq!(complaint(&facts).0, Weight::Worse);
    let older = Facts {
        kernel: Some((5, 15)),
        ..facts
    };
    assert_eq!(complaint(&older).0, Weight::Missing);
}

#[test]
fn memory_may_be_locked_by_right_or_by_limit() {
    let limited = |capabilities, limit| Facts {
        locked_memory: Some(limit),
        ..capabilities
    };
    assert!(report(&limited(ready(), 8 << 20)).is_ready());
    assert!(report(&limited(without(&[IPC_LOCK]), 64 << 20)).is_ready());
    let (weight, text) = complaint(&limited(without(&[IPC_LOCK]), 8 << 20));
    assert_eq!(weight, Weight::Missing);
    assert!(text.contains("8192 KiB"), "{text}");
}

#[test]
fn without_an_interface_nothing_is_accelerated() {
    let facts = Facts {
        interfaces: Some(Vec::new()),
        ..ready()
    };
    assert_eq!(complaint(&facts).0, Weight::Missing);
    let silent = Facts {
        interfaces: None,
        ..ready()
    };
    assert_eq!(
        report(&silent).findings.iter().map(|it| it.weight).max(),
        Some(Weight::Worse)
    );
}

#[test]
fn processors_and_governor_cost_speed_only() {
    for facts in [
        Facts { cpus: 1, ..ready() },
        Facts {
            isolated_cpus: String::new(),
            ..ready()
        },
        Facts {
            governors: ["powersave".to_owned(), "performance".to_owned()].into(),
            ..ready()
        },
    ] {
        assert_eq!(complaint(&facts).0, Weight::Worse);
    }
    // A virtual machine has no governor.
    let virtual_machine = Facts {
        governors: [].into(),
        ..ready()
    };
    assert!(
        report(&virtual_machine)
            .findings
            .iter()
            .all(|it| it.subject != "governor")
    );
}

#[test]
fn programs_read_the_same_report() {
    let value = report(&without(&[NET_RAW])).json();
    assert_eq!(value["ready"], false);
    let findings = value["findings"].as_array().unwrap();
    let missing = findings
        .iter()
        .find(|it| it["weight"] == "MISSING")
        .unwrap();
    assert_eq!(missing["subject"], "capabilities");
    assert_eq!(missing["text"], "without CAP_NET_RAW");
    assert!(missing["remedy"].as_str().unwrap().contains("setpriv"));
    assert_eq!(report(&ready()).json()["ready"], true);
}
