use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::{PID, assert_warning, parse, parse_with_warning, value};
use crate::{
    Config, DEPRECATED, ExceptionHandling, LogLevel, MemoryKind, Spec, ThreadMode, WarningKind,
    XdpMode,
};

#[test]
fn an_empty_environment_gives_the_documented_defaults() {
    let parsed = parse([
        "PATH=/bin",
        "LD_PRELOAD=libvma.so",
        "vma_rx_poll=3",
        "XVMA_RX_POLL=3",
    ]);
    assert!(parsed.warnings.is_empty());
    let config = parsed.config;
    assert_eq!(config, Config::default());
    assert_eq!(config.spec, Spec::None);
    assert_eq!(config.log_level, LogLevel::Info);
    assert_eq!(config.log_details, 0);
    assert!(config.log_colors);
    assert_eq!(config.log_file, None);
    assert_eq!(config.stats_shmem_dir.as_deref(), Some(Path::new("/tmp/")));
    assert_eq!(config.stats_fd_num, 100);
    assert_eq!(config.rx_poll, 100_000);
    assert_eq!(config.rx_udp_poll_os_ratio, 100);
    assert_eq!(config.select_poll_usec, 100_000);
    assert_eq!(config.select_poll_os_ratio, 10);
    assert_eq!(config.cq_poll_batch_max, 16);
    assert!(config.offloaded_sockets);
    assert!(!config.handle_sigintr && !config.handle_sigsegv);
    assert_eq!(config.thread_mode, ThreadMode::SpinLock);
    assert_eq!(config.xdp_mode, XdpMode::Auto);
    assert_eq!(config.xdp_pool_frames, 8192);
}

#[test]
fn every_working_variable_reaches_its_field() {
    let parsed = parse([
        "VMA_SPEC=RTI",
        "VMA_TRACELEVEL=Debug",
        "VMA_LOG_DETAILS=3",
        "VMA_LOG_COLORS=0",
        "VMA_LOG_FILE=/tmp/log.%d.%d",
        "VMA_STATS_SHMEM_DIR=/run/%d",
        "VMA_STATS_FD_NUM=7",
        "VMA_HANDLE_SIGINTR=1",
        "VMA_HANDLE_SIGSEGV=1",
        "VMA_RX_POLL=42",
        "VMA_RX_UDP_POLL_OS_RATIO=4294967295",
        "VMA_SELECT_POLL=-1",
        "VMA_SELECT_POLL_OS_RATIO=0",
        "VMA_CQ_POLL_BATCH_MAX=128",
        "VMA_OFFLOADED_SOCKETS=0",
        "VMA_THREAD_MODE=3",
        "VMA_XDP_MODE=Generic",
        "VMA_XDP_POOL_FRAMES=1048576",
    ]);
    assert!(parsed.warnings.is_empty(), "{:#?}", parsed.warnings);
    let config = parsed.config;
    assert_eq!(config.spec, Spec::Rti);
    assert_eq!(config.log_level, LogLevel::Debug);
    assert_eq!(config.log_details, 3);
    assert!(!config.log_colors);
    assert_eq!(
        config.log_file.as_deref(),
        Some(Path::new("/tmp/log.4321.%d"))
    );
    assert_eq!(
        config.stats_shmem_dir.as_deref(),
        Some(Path::new("/run/4321"))
    );
    assert_eq!(config.stats_fd_num, 7);
    assert!(config.handle_sigintr && config.handle_sigsegv);
    assert_eq!(config.rx_poll, 42);
    assert_eq!(config.rx_udp_poll_os_ratio, u32::MAX);
    assert_eq!(config.select_poll_usec, -1);
    assert_eq!(config.select_poll_os_ratio, 0);
    assert_eq!(config.cq_poll_batch_max, 128);
    assert!(!config.offloaded_sockets);
    assert_eq!(config.thread_mode, ThreadMode::MoreThreadsThanCores);
    assert_eq!(config.xdp_mode, XdpMode::Generic);
    assert_eq!(config.xdp_pool_frames, 1_048_576);
}

#[test]
fn every_mode_has_its_number_or_word() {
    for (number, handling) in (-2..).zip([
        ExceptionHandling::ExitOnFailedStart,
        ExceptionHandling::LogDebug,
        ExceptionHandling::LogDebugAndUnoffload,
        ExceptionHandling::LogErrorAndUnoffload,
        ExceptionHandling::ReturnError,
        ExceptionHandling::Abort,
    ]) {
        let parsed = parse([&format!("VMA_EXCEPTION_HANDLING={number}")]);
        assert_eq!(parsed.config.exception_handling, handling);
    }
    let default = Config::default().exception_handling;
    assert_eq!(default, ExceptionHandling::LogDebug);
    for (text, memory) in [
        ("VMA_MEM_ALLOC_TYPE=0", MemoryKind::Ordinary),
        ("VMA_MEM_ALLOC_TYPE=1", MemoryKind::Contiguous),
        ("VMA_MEM_ALLOC_TYPE=2", MemoryKind::HugePages),
        ("VMA_MEM_ALLOC_TYPE=3", MemoryKind::Contiguous),
    ] {
        let config = parse([text]).config;
        assert_eq!((config.memory, config.memory_is_set), (memory, true));
    }
    let config = parse(["VMA_SPEC=latency"]).config;
    assert_eq!(
        (config.memory, config.memory_is_set),
        (MemoryKind::HugePages, false)
    );
    for (text, mode) in [
        ("VMA_THREAD_MODE=0", ThreadMode::Single),
        ("VMA_THREAD_MODE=1", ThreadMode::SpinLock),
        ("VMA_THREAD_MODE=2", ThreadMode::MutexLock),
        ("VMA_THREAD_MODE=3", ThreadMode::MoreThreadsThanCores),
    ] {
        assert_eq!(parse([text]).config.thread_mode, mode);
    }
    for (text, mode) in [
        ("VMA_XDP_MODE=auto", XdpMode::Auto),
        ("VMA_XDP_MODE=native", XdpMode::Native),
        ("VMA_XDP_MODE=generic", XdpMode::Generic),
    ] {
        assert_eq!(parse([text]).config.xdp_mode, mode);
    }
}

#[test]
fn an_empty_path_turns_the_feature_off() {
    let parsed = parse(["VMA_STATS_SHMEM_DIR=", "VMA_LOG_FILE=", "VMA_STATS_FILE="]);
    assert_eq!(parsed.config.stats_shmem_dir, None);
    assert_eq!(parsed.config.log_file, None);
    assert_eq!(parsed.config.stats_file, None);
    assert!(parsed.warnings.is_empty());
}

#[test]
fn the_first_of_equal_names_counts() {
    let parsed = parse(["VMA_RX_POLL=1", "VMA_RX_POLL=2"]);
    assert_eq!(parsed.config.rx_poll, 1);
}

#[test]
fn zero_receive_polls_count_as_one() {
    let parsed = parse(["VMA_RX_POLL=0"]);
    assert_eq!(parsed.config.rx_poll, 1);
    assert!(parsed.warnings.is_empty());
}

#[test]
fn bad_values_are_reported_with_range_and_value_used() {
    for (variable, kind, message) in [
        (
            "VMA_STATS_FD_NUM=1025",
            WarningKind::OutOfRange,
            "VMA_STATS_FD_NUM=1025 is out of range; allowed: 0..1024; using 100",
        ),
        (
            "VMA_RX_POLL=fast",
            WarningKind::Malformed,
            "VMA_RX_POLL=fast is not a number; allowed: -1..100000000; using 100000",
        ),
        (
            "VMA_RX_POLL=500x",
            WarningKind::Malformed,
            "VMA_RX_POLL=500x is not a number; allowed: -1..100000000; using 500",
        ),
        (
            "VMA_LOG_COLORS=maybe",
            WarningKind::Malformed,
            "VMA_LOG_COLORS=maybe is neither 0 nor 1; allowed: 0 or 1; using 1",
        ),
        (
            "VMA_XDP_MODE=skb",
            WarningKind::Malformed,
            "VMA_XDP_MODE=skb is not one of the words; allowed: auto, native or generic; using auto",
        ),
        (
            "VMA_XDP_POOL_FRAMES=5000",
            WarningKind::OutOfRange,
            "VMA_XDP_POOL_FRAMES=5000 is out of range; allowed: a power of two in 1024..1048576; \
             using 8192",
        ),
        (
            "VMA_TRACELEVEL=loud",
            WarningKind::Malformed,
            "VMA_TRACELEVEL=loud is not a log level; allowed: none, panic, error, warning, info, \
             details, debug, fine, finer or all; using info",
        ),
        (
            "VMA_SPEC=lowlatency",
            WarningKind::Malformed,
            "VMA_SPEC=lowlatency is not a profile; allowed: none, ultra-latency, latency, 29west, \
             wombat_fh, mcd, mcd-irq, rti, 7750 or multi_ring_latency; using none",
        ),
        (
            "VMA_INTERNAL_THREAD_AFFINITY=all",
            WarningKind::Malformed,
            "VMA_INTERNAL_THREAD_AFFINITY=all is not a set of processors; allowed: -1, a mask such \
             as 0x3, or a list such as 0,2,4-6; using -1",
        ),
    ] {
        let (_, warning) = parse_with_warning([variable]);
        assert_warning(&warning, kind, LogLevel::Warning, message);
        assert_eq!(warning.variable, variable.split('=').next().unwrap());
    }
}

#[test]
fn hostile_values_stay_on_one_short_line() {
    let value = format!("\n\x1b[2J{}", "x".repeat(100_000));
    let parsed = Config::parse([("VMA_RX_POLL".into(), value.into())], PID);
    let message = &parsed.warnings[0].message;
    assert!(
        message.starts_with("VMA_RX_POLL=\\n\\u{1b}[2Jxxx"),
        "{message}"
    );
    assert!(message.len() < 300 && !message.contains(char::is_control));

    let name = OsString::from_vec([b"VMA_\n\xff".to_vec(), vec![b'A'; 100_000]].concat());
    let parsed = Config::parse([(name, "1".into())], PID);
    assert_eq!(parsed.warnings[0].kind, WarningKind::Unknown);
    assert!(parsed.warnings[0].message.len() < 300);
}

#[test]
fn unknown_names_are_reported_with_the_nearest_one() {
    for (variable, message) in [
        (
            "VMA_RX_POLLS=1",
            "VMA_RX_POLLS is not a parameter and is ignored; did you mean VMA_RX_POLL?",
        ),
        (
            "VMA_rx_poll=1",
            "VMA_rx_poll is not a parameter and is ignored; did you mean VMA_RX_POLL?",
        ),
        (
            "VMA_FROBNICATE_NOTHING=1",
            "VMA_FROBNICATE_NOTHING is not a parameter and is ignored",
        ),
        ("VMA_=1", "VMA_ is not a parameter and is ignored"),
    ] {
        let (config, warning) = parse_with_warning([variable]);
        assert_warning(&warning, WarningKind::Unknown, LogLevel::Warning, message);
        assert_eq!(config, Config::default());
    }
}

#[test]
fn every_older_name_is_answered_with_what_replaces_it() {
    for deprecated in DEPRECATED {
        let variables = [(deprecated.name.into(), "0".into())];
        let parsed = Config::parse(variables, PID);
        let warning = &parsed.warnings[0];
        let name = deprecated.name;
        let message = format!("{name} belongs to an older release: {}", deprecated.advice);
        assert_warning(
            warning,
            WarningKind::Deprecated,
            LogLevel::Warning,
            &message,
        );
    }
    for name in [
        "VMA_TX_OFFLOAD",
        "VMA_RX_OFFLOAD",
        "VMA_TX_BLOCK",
        "VMA_TX_IP_CHECKSUM",
        "VMA_TX_DROP_MODE",
        "VMA_RX_SOCKET_MAX",
        "VMA_RX_DRAIN_CQ",
        "VMA_RX_SKIP_OS",
        "VMA_SELECT_IB_INTR",
        "VMA_UC_OFFLOAD",
        "VMA_IGMP",
        "VMA_FORCE_QP_MC_ATTACH",
        "VMA_SKIP_OS_CALL",
        "VMA_CHECKSUM",
        "VMA_RX_POLL_OS_RATIO",
        "VMA_SELECT_POLL_OS_FORCE",
        "VMA_HUGETBL",
    ] {
        assert!(
            DEPRECATED.iter().any(|deprecated| deprecated.name == name),
            "{name}"
        );
    }
}

#[test]
fn renamed_variables_still_count_unless_the_new_name_is_set() {
    assert_eq!(
        parse(["VMA_RX_POLL_OS_RATIO=7"])
            .config
            .rx_udp_poll_os_ratio,
        7
    );
    assert_eq!(parse(["VMA_RX_SKIP_OS=8"]).config.rx_udp_poll_os_ratio, 8);
    for environment in [
        ["VMA_RX_SKIP_OS=8", "VMA_RX_UDP_POLL_OS_RATIO=9"],
        ["VMA_RX_UDP_POLL_OS_RATIO=9", "VMA_RX_SKIP_OS=8"],
    ] {
        assert_eq!(parse(environment).config.rx_udp_poll_os_ratio, 9);
    }
    let config = parse(["VMA_SPEC=ultra-latency", "VMA_RX_SKIP_OS=8"]).config;
    assert_eq!(config.rx_udp_poll_os_ratio, 8, "the profile presets 0");

    let parsed = parse(["VMA_RX_SKIP_OS=many"]);
    assert_eq!(
        parsed.warnings[1].message,
        "VMA_RX_SKIP_OS=many is not a number; allowed: 0..4294967295; using 100"
    );
}

#[test]
fn forcing_the_kernel_to_be_polled_still_counts() {
    let config = parse(["VMA_SELECT_POLL_OS_FORCE=1"]).config;
    assert_eq!(config.select_poll_os_ratio, 1);
    assert_eq!(value(&config, "VMA_SELECT_SKIP_OS"), "1");

    let config = parse(["VMA_SELECT_POLL_OS_FORCE=1", "VMA_SELECT_SKIP_OS=9"]).config;
    assert_eq!(config.select_poll_os_ratio, 1);
    assert_eq!(value(&config, "VMA_SELECT_SKIP_OS"), "9");

    let config = parse(["VMA_SELECT_POLL_OS_FORCE=0"]).config;
    assert_eq!(config.select_poll_os_ratio, 10);
}

#[test]
fn the_file_of_the_rules_is_expected_where_a_variable_says() {
    let config = Config::default();
    let path = |config: &Config| config.config_file.clone();
    assert_eq!(path(&config), Some("/etc/libvma.conf".into()));
    assert!(!config.config_file_is_named);
    assert_eq!(config.application_id, "VMA_DEFAULT_APPLICATION_ID");
    let config = parse(["VMA_CONFIG_FILE=/etc/%d.conf", "VMA_APPLICATION_ID=a%d"]).config;
    assert_eq!(path(&config), Some("/etc/4321.conf".into()));
    assert!(config.config_file_is_named);
    assert_eq!(config.application_id, "a4321");
    assert_eq!(path(&parse(["VMA_CONFIG_FILE="]).config), None);
}

#[test]
fn parameters_without_effect_say_so_at_debug_level() {
    let (_, warning) = parse_with_warning(["VMA_RING_DEV_MEM_TX=1024"]);
    assert_warning(
        &warning,
        WarningKind::NoEffect,
        LogLevel::Debug,
        "VMA_RING_DEV_MEM_TX=1024 accepted, no effect yet: it concerns RDMA network cards, whose back-end does not know it yet",
    );
    let (_, warning) = parse_with_warning(["VMA_VMAD_NOTIFY_DIR=/run/%d"]);
    assert_eq!(
        warning.message,
        "VMA_VMAD_NOTIFY_DIR=/run/4321 accepted, no meaning here: vmad finds processes by their statistics"
    );
    assert!(
        parse(["VMA_TCP_CTL_THREAD=0", "VMA_TX_BUFS=200000"])
            .warnings
            .is_empty()
    );
}

#[test]
fn levels_beyond_the_most_detailed_one_become_it() {
    for level in ["fine", "func", "5", "finer", "func_all", "6", "all"] {
        let parsed = parse([&format!("VMA_TRACELEVEL={level}")]);
        assert_eq!(parsed.config.log_level, LogLevel::Debug, "{level}");
        assert_eq!(parsed.config.log_details, 2, "{level}");
        assert_eq!(parsed.warnings.len(), 1);
    }
    let (_, warning) = parse_with_warning(["VMA_TRACELEVEL=6"]);
    assert_warning(
        &warning,
        WarningKind::Adjusted,
        LogLevel::Warning,
        "VMA trace level set to max level DEBUG [VMA_TRACELEVEL]",
    );
}

#[test]
fn debug_level_adds_details_unless_they_are_chosen() {
    assert_eq!(parse(["VMA_TRACELEVEL=details"]).config.log_details, 0);
    assert_eq!(parse(["VMA_TRACELEVEL=4"]).config.log_details, 2);
    assert_eq!(
        parse(["VMA_TRACELEVEL=4", "VMA_LOG_DETAILS=0"])
            .config
            .log_details,
        0
    );
    assert_eq!(
        parse(["VMA_TRACELEVEL=4", "VMA_LOG_DETAILS=9"])
            .config
            .log_details,
        2
    );
}

#[test]
fn queues_and_batches_are_made_to_agree() {
    let config = parse(["VMA_RX_WRE_BATCHING=1024", "VMA_RX_WRE=1000"]).config;
    assert_eq!(value(&config, "VMA_RX_WRE"), "2048");
    assert_eq!(value(&config, "VMA_QP_COMPENSATION_LEVEL"), "1024");
    assert_eq!(value(&config, "VMA_CQ_AIM_MAX_COUNT"), "560");

    let config = parse(["VMA_TX_WRE=10", "VMA_TX_WRE_BATCHING=8"]).config;
    assert_eq!(value(&config, "VMA_TX_WRE"), "16");
    let config = parse(["VMA_TX_WRE=100000"]).config;
    assert_eq!(value(&config, "VMA_TX_WRE"), "8192");

    let config = parse(["VMA_TIMER_RESOLUTION_MSEC=250"]).config;
    assert_eq!(value(&config, "VMA_TCP_TIMER_RESOLUTION_MSEC"), "250");
}

#[test]
fn an_adjusted_variable_is_reported() {
    let parsed = parse(["VMA_CQ_AIM_MAX_COUNT=500", "VMA_RX_WRE=256"]);
    let warning = parsed
        .warnings
        .iter()
        .find(|warning| warning.kind == WarningKind::Adjusted)
        .unwrap();
    assert_warning(
        warning,
        WarningKind::Adjusted,
        LogLevel::Debug,
        "VMA_CQ_AIM_MAX_COUNT=500 must be at most 128 because of VMA_RX_WRE=256; using 128",
    );
}

#[test]
fn endless_polling_turns_moderation_off_unless_it_is_chosen() {
    for variable in ["VMA_RX_POLL=-1", "VMA_SELECT_POLL=-1"] {
        let config = parse([variable]).config;
        assert_eq!(value(&config, "VMA_CQ_MODERATION_ENABLE"), "0");
        assert_eq!(value(&config, "VMA_CQ_AIM_INTERVAL_MSEC"), "0");
    }
    let config = parse(["VMA_RX_POLL=-1", "VMA_CQ_MODERATION_ENABLE=1"]).config;
    assert_eq!(value(&config, "VMA_CQ_MODERATION_ENABLE"), "1");
    assert_eq!(value(&config, "VMA_CQ_AIM_INTERVAL_MSEC"), "250");
}

#[test]
fn draining_needs_an_interval_and_a_number_of_packets() {
    let config = parse(["VMA_PROGRESS_ENGINE_WCE_MAX=0"]).config;
    assert_eq!(value(&config, "VMA_PROGRESS_ENGINE_INTERVAL"), "0");
}
