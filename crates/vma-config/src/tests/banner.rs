use super::parse;
use crate::{BannerFacts, Config, LogLevel, LogLine, SystemFacts, banner};

fn facts() -> BannerFacts {
    BannerFacts {
        version: "0.1.0-1".to_owned(),
        build_date: "Nov 21 2026 12:00:00".to_owned(),
        command_line: "sockperf server -i 11.4.3.3".to_owned(),
        pid: 2378,
        ..BannerFacts::default()
    }
}

/// The lines as the golden files hold them: `LEVEL line`.
fn lines(config: &Config, facts: &BannerFacts) -> Vec<String> {
    banner(config, facts)
        .into_iter()
        .map(|(level, line)| format!("{level} {line}"))
        .collect()
}

#[track_caller]
fn assert_golden(actual: &[String], golden: &str) {
    let golden: Vec<&str> = golden.lines().collect();
    for (actual, golden) in actual.iter().zip(&golden) {
        assert_eq!(actual, golden);
    }
    assert_eq!(actual.len(), golden.len());
}

/// The lines about parameters for which `environment` is set, without those at DETAILS level.
fn info_lines<const N: usize>(environment: [&str; N]) -> Vec<String> {
    let config = parse(environment).config;
    let lines = banner(&config, &BannerFacts::default());
    let lines = lines
        .into_iter()
        .filter(|(level, _)| *level <= LogLevel::Info);
    lines
        .map(|(_, line)| line)
        .filter(|line| line.ends_with(']'))
        .collect()
}

#[test]
fn banner_of_an_empty_environment() {
    let actual = lines(&Config::default(), &facts());
    assert_golden(&actual, include_str!("golden/default.txt"));
}

#[test]
fn banner_of_the_latency_profile_at_debug_level() {
    let facts = BannerFacts {
        is_development_snapshot: true,
        is_debug_build: true,
        git: Some("1b534c4".to_owned()),
        current_time: Some("Sat Nov 21 12:00:00 2026\n".to_owned()),
        ofed_version: Some("MLNX_OFED_LINUX-5.8-1.0.1.1:".to_owned()),
        system: Some(SystemFacts {
            release: "6.1.0-18-amd64".to_owned(),
            machine: "x86_64".to_owned(),
            node: "feed-handler".to_owned(),
        }),
        ..facts()
    };
    let config = parse(["VMA_SPEC=latency", "VMA_TRACELEVEL=4"]).config;
    assert_golden(
        &lines(&config, &facts),
        include_str!("golden/latency_debug.txt"),
    );
}

#[test]
fn only_the_log_level_is_printed_when_nothing_is_set() {
    assert_eq!(
        info_lines([]),
        ["Log Level                      INFO                       [VMA_TRACELEVEL]"]
    );
    let rendered: Vec<_> = banner(&Config::default(), &facts())
        .iter()
        .filter(|(level, _)| *level <= LogLevel::Info)
        .map(|(level, message)| {
            let line = LogLine {
                level: *level,
                details: 0,
                pid: 1,
                tid: 1,
                elapsed: std::time::Duration::ZERO,
                color: false,
                message,
            };
            line.to_string()
        })
        .collect();
    let rule = format!(" VMA INFO: {}\n", "-".repeat(75));
    assert_eq!(
        rendered,
        [
            rule.as_str(),
            " VMA INFO: VMA_VERSION: 0.1.0-1 Release built on Nov 21 2026 12:00:00\n",
            " VMA INFO: Cmd Line: sockperf server -i 11.4.3.3\n",
            &rule,
            " VMA INFO: Log Level                      INFO                       \
             [VMA_TRACELEVEL]\n",
            &rule,
        ]
    );
}

#[test]
fn profiles_with_parameters_print_them() {
    let lines = info_lines(["VMA_SPEC=29", "VMA_SPEC_PARAM2=1"]);
    assert_eq!(
        lines[..3],
        [
            "VMA Spec                       29West LBM Logic           [VMA_SPEC]",
            "Param 1:                       5000                       [VMA_SPEC_PARAM1]",
            "Param 2:                       1                          [VMA_SPEC_PARAM2]",
        ]
    );
    assert!(
        !info_lines(["VMA_SPEC=mcd", "VMA_SPEC_PARAM1=9"])
            .iter()
            .any(|l| l.contains("Param"))
    );
}

#[test]
fn each_form_prints_its_value() {
    for (variable, line) in [
        (
            "VMA_BF=0",
            "BF (Blue Flame)                Disabled                   [VMA_BF]",
        ),
        (
            "VMA_RX_POLL=-1",
            "Rx Poll Loops                  -1                         [VMA_RX_POLL]",
        ),
        (
            "VMA_TCP_NODELAY=1",
            "TCP nodelay                    1                          [VMA_TCP_NODELAY]",
        ),
        (
            "VMA_RING_ALLOCATION_LOGIC_TX=31",
            "Ring allocation logic TX       31(Ring per core - attach threads) \
             [VMA_RING_ALLOCATION_LOGIC_TX]",
        ),
        (
            "VMA_EXCEPTION_HANDLING=3",
            "Exception handling mode        3 (Log error and Abort!)   [VMA_EXCEPTION_HANDLING]",
        ),
        (
            "VMA_THREAD_MODE=3",
            "Thread mode                    Multi more threads than cores [VMA_THREAD_MODE]",
        ),
        (
            "VMA_HW_TS_CONVERSION=1",
            "HW TS Conversion               1                          [VMA_HW_TS_CONVERSION]",
        ),
        (
            "VMA_TCP_MAX_SYN_RATE=10",
            "TCP max syn rate               10(per sec)                [VMA_TCP_MAX_SYN_RATE]",
        ),
        (
            "VMA_MTU=1500",
            "MTU                            1500                       [VMA_MTU]",
        ),
        (
            "VMA_RX_UDP_POLL_OS_RATIO=0",
            "Rx UDP Poll OS Ratio           Disabled                   [VMA_RX_UDP_POLL_OS_RATIO]",
        ),
        (
            "VMA_RX_CQ_DRAIN_RATE_NSEC=100",
            "Rx CQ Drain Rate (nsec)        100                        [VMA_RX_CQ_DRAIN_RATE_NSEC]",
        ),
        (
            "VMA_PROGRESS_ENGINE_WCE_MAX=0",
            "CQ Drain Thread                Disabled                   \
             [VMA_PROGRESS_ENGINE_INTERVAL]",
        ),
        (
            "VMA_CQ_AIM_INTERVAL_MSEC=0",
            "CQ Adaptive Moderation         Disabled                   [VMA_CQ_AIM_INTERVAL_MSEC]",
        ),
        (
            "VMA_XDP_MODE=native",
            "XDP mode                       native                     [VMA_XDP_MODE]",
        ),
        (
            "VMA_CONFIG_FILE=/a/b",
            "Conf File                      /a/b                       [VMA_CONFIG_FILE]",
        ),
    ] {
        let lines = info_lines([variable]);
        assert!(lines.iter().any(|l| l == line), "{variable}: {lines:#?}");
    }
    assert_eq!(
        info_lines(["VMA_NETLINK_TIMER=1"]).len(),
        1,
        "hidden parameters are not printed"
    );
    let undrained = lines(&parse(["VMA_PROGRESS_ENGINE_INTERVAL=0"]).config, &facts());
    assert!(
        !undrained
            .iter()
            .any(|line| line.contains("VMA_PROGRESS_ENGINE_WCE_MAX"))
    );
}

#[test]
fn hostile_text_stays_on_its_line() {
    let facts = BannerFacts {
        command_line: "evil\n\x1b[2J".to_owned(),
        ..facts()
    };
    let config = parse(["VMA_LOG_FILE=/tmp/a\nVMA_FAKE"]).config;
    let lines = lines(&config, &facts);
    assert!(
        lines
            .iter()
            .any(|line| line == "INFO Cmd Line: evil\\n\\u{1b}[2J")
    );
    assert!(lines.iter().all(|line| !line.contains(char::is_control)));
}
