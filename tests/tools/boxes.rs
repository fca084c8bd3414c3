//! Warnings in a box: when they are shown, and how they look.

use std::path::Path;
use std::process::Command;

use testkit::{Namespaces, Running, SOON, c_program, or_skip, preloaded, preloaded_in_place};

fn log_of(command: Command) -> String {
    let finished = Running::start(command).unwrap().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    finished.stderr
}

/// The boxes in a log: the lines between two rules of stars, without their frames.
#[track_caller]
fn boxes(log: &str) -> Vec<Vec<String>> {
    let mut boxes = Vec::new();
    let mut open: Option<(usize, Vec<String>)> = None;
    for line in log.lines() {
        let Some((_, text)) = line.split_once(" VMA WARNING: ") else {
            assert!(open.is_none(), "a box is not broken: {log}");
            continue;
        };
        let is_rule = !text.is_empty() && text.chars().all(|character| character == '*');
        match open.take() {
            None if is_rule => open = Some((text.len(), Vec::new())),
            None => {}
            Some((width, lines)) if is_rule => {
                assert_eq!(text.len(), width);
                boxes.push(lines);
            }
            Some((width, mut lines)) => {
                assert_eq!(text.len(), width, "{text}");
                let inside = text
                    .strip_prefix("* ")
                    .and_then(|text| text.strip_suffix(" *"));
                lines.push(inside.unwrap().trim_end().to_owned());
                open = Some((width, lines));
            }
        }
    }
    assert!(open.is_none(), "{log}");
    boxes
}

#[test]
fn a_high_log_level_is_pointed_out() {
    for (level, details, expected) in [
        ("info", "0", 0),
        ("details", "0", 0),
        ("4", "0", 1),
        ("all", "3", 1),
    ] {
        let mut command = preloaded_in_place(&c_program("log")).unwrap();
        command.arg("starts");
        command
            .env("VMA_TRACELEVEL", level)
            .env("VMA_LOG_DETAILS", details);
        let log = log_of(command);
        let boxes = boxes(&log);
        assert_eq!(boxes.len(), expected, "{level}: {log}");
        if let Some(lines) = boxes.first() {
            assert_eq!(lines[0], "VMA is currently configured with high log level");
            assert!(lines[1].contains("VMA_TRACELEVEL=3"), "{lines:?}");
        }
    }
}

#[test]
fn a_limit_of_locked_memory_is_pointed_out_where_it_matters() {
    let pair = or_skip!(Namespaces::pair());
    let run = |limit: &str, bounding_set: &str| {
        let mut command = preloaded(&pair.b, Path::new("prlimit")).unwrap();
        command.arg(format!("--memlock={limit}"));
        command.args([
            "setpriv",
            "--inh-caps",
            bounding_set,
            "--bounding-set",
            bounding_set,
        ]);
        command.arg(c_program("exceptions")).arg("binds");
        log_of(command)
    };
    let log = run("1000000:2000000", "-ipc_lock");
    let shown = boxes(&log);
    assert_eq!(shown.len(), 1, "{log}");
    let first = "Your current max locked memory is: 1000000. Please change it to unlimited.";
    assert_eq!(shown[0][0], first);
    assert!(
        shown[0]
            .iter()
            .any(|line| line.contains("ulimit -l unlimited")),
        "{log}"
    );
    assert!(
        log.contains(" VMA WARNING: vb is not accelerated: "),
        "{log}"
    );
    // Whoever may lock as much as they want is not told of the limit.
    let log = run("1000000:2000000", "-sys_time");
    assert!(
        boxes(&log).is_empty() && !log.contains("not accelerated"),
        "{log}"
    );
}

/// Pages of 2 MiB that nobody has, as the kernel counts them.
fn free_huge_pages() -> u32 {
    std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
        .map_or(0, |text| text.trim().parse().unwrap())
}

#[test]
fn huge_pages_that_are_asked_for_and_not_there_are_pointed_out() {
    let run = |memory: Option<&str>| {
        let mut command = preloaded_in_place(&c_program("log")).unwrap();
        command.arg("starts").env("VMA_XDP_POOL_FRAMES", "1048576");
        command.envs(memory.map(|memory| ("VMA_MEM_ALLOC_TYPE", memory)));
        log_of(command)
    };
    for silent in [None, Some("0"), Some("1")] {
        let log = run(silent);
        assert!(boxes(&log).is_empty(), "{silent:?}: {log}");
    }
    let enough = free_huge_pages() >= 1024;
    let log = run(Some("2"));
    let shown = boxes(&log);
    if enough {
        assert!(shown.is_empty(), "{log}");
        return;
    }
    assert_eq!(shown.len(), 1, "{log}");
    assert_eq!(
        shown[0][..3],
        [
            "NO IMMEDIATE ACTION NEEDED!",
            "Not enough hugepage resources for VMA memory allocation.",
            "VMA will continue working with regular memory allocation.",
        ]
    );
    assert!(shown[0][3].contains(" 1024 pages of 2 MiB"), "{log}");
}
