use std::collections::HashSet;
use std::ffi::OsString;

use super::{parse, value};
use crate::{Config, LogLevel, Origin, PARAMETERS, PRESETS, Spec, ThreadMode};

/// Checks every value that differs from the default under `VMA_SPEC=spec`, given as `NAME=value`
/// words without the `VMA_`.
#[track_caller]
fn assert_profile(spec: Spec, changed: &str) {
    for name in spec.accepted_names() {
        for name in [(*name).to_owned(), name.to_ascii_uppercase()] {
            let variable = (OsString::from("VMA_SPEC"), OsString::from(&name));
            let parsed = Config::parse([variable], super::PID);
            assert_eq!(parsed.config.spec, spec);
            let mut actual: Vec<_> = parsed
                .config
                .effective()
                .filter(|effective| !effective.is_default)
                .map(|effective| {
                    let name = effective.parameter().name.trim_start_matches("VMA_");
                    format!("{name}={}", effective.value.to_environment())
                })
                .collect();
            let spec_entry = format!("SPEC={}", spec.name());
            let mut expected: Vec<_> = changed.split_whitespace().map(str::to_owned).collect();
            expected.push(spec_entry);
            actual.sort_unstable();
            expected.sort_unstable();
            assert_eq!(actual, expected, "VMA_SPEC={name}");
            // Presets may be without effect, but they are never wrong.
            assert!(
                parsed
                    .warnings
                    .iter()
                    .all(|w| w.severity == LogLevel::Debug)
            );
        }
    }
}

#[test]
fn ultra_latency_presets() {
    assert_profile(
        Spec::UltraLatency,
        "RING_DEV_MEM_TX=16384 TX_SEGS_TCP=512 TX_BUFS=512 TX_WRE=256 TX_WRE_BATCHING=4 \
         RX_BUFS=1024 RX_WRE=256 RX_WRE_BATCHING=4 RX_POLL=-1 RX_UDP_POLL_OS_RATIO=0 \
         RX_PREFETCH_BYTES_BEFORE_POLL=256 GRO_STREAMS_MAX=0 SELECT_POLL=-1 \
         SELECT_POLL_OS_RATIO=0 SELECT_SKIP_OS=0 PROGRESS_ENGINE_INTERVAL=0 \
         CQ_MODERATION_ENABLE=0 CQ_AIM_MAX_COUNT=128 CQ_AIM_INTERVAL_MSEC=0 CQ_KEEP_QP_FULL=0 \
         TCP_NODELAY=1 AVOID_SYS_CALLS_ON_TCP_FD=1 INTERNAL_THREAD_AFFINITY=0 THREAD_MODE=0",
    );
}

#[test]
fn latency_presets() {
    assert_profile(
        Spec::Latency,
        "RING_DEV_MEM_TX=16384 TX_WRE=256 TX_WRE_BATCHING=4 RX_WRE=256 RX_WRE_BATCHING=4 \
         RX_POLL=-1 RX_PREFETCH_BYTES_BEFORE_POLL=256 GRO_STREAMS_MAX=0 SELECT_POLL=-1 \
         SELECT_POLL_OS_RATIO=1 SELECT_SKIP_OS=1 PROGRESS_ENGINE_INTERVAL=100 \
         CQ_MODERATION_ENABLE=0 CQ_AIM_MAX_COUNT=128 CQ_AIM_INTERVAL_MSEC=0 CQ_KEEP_QP_FULL=0 \
         TCP_NODELAY=1 AVOID_SYS_CALLS_ON_TCP_FD=1 INTERNAL_THREAD_AFFINITY=0 THREAD_MODE=0",
    );
}

#[test]
fn twenty_nine_west_presets() {
    assert_profile(
        Spec::TwentyNineWest,
        "SPEC_PARAM1=5000 SPEC_PARAM2=50 RX_POLL=1 SELECT_POLL_OS_RATIO=100 SELECT_SKIP_OS=50",
    );
}

#[test]
fn wombat_presets() {
    assert_profile(
        Spec::WombatFeedHandler,
        "SPEC_PARAM1=5000 SPEC_PARAM2=50 RX_POLL=1 SELECT_POLL=0 SELECT_SKIP_OS=20",
    );
}

#[test]
fn memcached_presets() {
    assert_profile(
        Spec::Memcached,
        "RING_ALLOCATION_LOGIC_TX=31 RING_ALLOCATION_LOGIC_RX=31",
    );
    assert_profile(
        Spec::MemcachedInterrupt,
        "RING_ALLOCATION_LOGIC_TX=31 RING_ALLOCATION_LOGIC_RX=31 RX_POLL=1 SELECT_POLL=0 \
         CQ_MODERATION_ENABLE=0 CQ_AIM_INTERVAL_MSEC=0",
    );
}

#[test]
fn rti_presets() {
    assert_profile(
        Spec::Rti,
        "RX_POLL=-1 CQ_MODERATION_ENABLE=0 CQ_AIM_INTERVAL_MSEC=0",
    );
}

#[test]
fn low_latency_7750_presets() {
    assert_profile(
        Spec::LowLatency7750,
        "TRACELEVEL=warning STATS_FD_NUM=1024 TX_BUFS=8192 RX_BUFS=204800 RX_POLL=-1 \
         TCP_3T_RULES=1 SELECT_POLL=-1 SELECT_POLL_OS_RATIO=0 CQ_MODERATION_ENABLE=0 \
         CQ_AIM_INTERVAL_MSEC=0 TCP_CTL_THREAD=2 AVOID_SYS_CALLS_ON_TCP_FD=1 \
         INTERNAL_THREAD_AFFINITY=0x3 BUFFER_BATCHING_MODE=0",
    );
}

#[test]
fn multi_ring_latency_presets() {
    assert_profile(
        Spec::MultiRingLatency,
        "RING_ALLOCATION_LOGIC_TX=20 RING_ALLOCATION_LOGIC_RX=20 RX_POLL=-1 SELECT_POLL=-1 \
         SELECT_POLL_OS_RATIO=0 SELECT_SKIP_OS=0 CQ_MODERATION_ENABLE=0 CQ_AIM_INTERVAL_MSEC=0 \
         RX_POLL_ON_TX_TCP=1 TRIGGER_DUMMY_SEND_GETSOCKNAME=1",
    );
}

#[test]
fn no_profile_presets_nothing() {
    let parsed = parse(["VMA_SPEC=0"]);
    assert_eq!(parsed, parse(["VMA_SPEC=None"]));
    assert!(parsed.warnings.is_empty());
    assert!(
        parsed
            .config
            .effective()
            .all(|effective| effective.is_default)
    );
}

#[test]
fn presets_are_allowed_and_set_each_parameter_once() {
    let specs: Vec<_> = PRESETS.iter().map(|(spec, _)| *spec).collect();
    assert_eq!(
        specs,
        &Spec::ALL[1..],
        "every profile but none presets something"
    );
    for (spec, presets) in PRESETS {
        let mut seen = HashSet::new();
        for preset in *presets {
            let parameter = preset.parameter.parameter();
            assert!(
                parameter.allows(&preset.value()),
                "{spec:?} {}",
                parameter.name
            );
            assert!(seen.insert(parameter.name), "{spec:?} {}", parameter.name);
        }
    }
}

#[test]
fn names_of_profiles_are_unique() {
    let mut seen = HashSet::new();
    for spec in Spec::ALL {
        for name in spec.accepted_names() {
            assert!(seen.insert(*name), "{name}");
            assert_eq!(Spec::from_name(name), Some(spec));
        }
    }
}

#[test]
fn variables_win_over_presets() {
    let config = parse([
        "VMA_RX_POLL=5",
        "VMA_THREAD_MODE=2",
        "VMA_SPEC=latency",
        "VMA_SELECT_POLL=0",
    ])
    .config;
    assert_eq!(config.rx_poll, 5);
    assert_eq!(config.select_poll_usec, 0);
    assert_eq!(config.thread_mode, ThreadMode::MutexLock);
    assert_eq!(config.select_poll_os_ratio, 1, "left to the profile");
    assert_eq!(
        value(&config, "VMA_CQ_MODERATION_ENABLE"),
        "1",
        "nothing polls for ever"
    );
}

#[test]
fn bad_variables_leave_the_preset() {
    let parsed = parse(["VMA_SPEC=latency", "VMA_RX_POLL=-5", "VMA_THREAD_MODE=fast"]);
    assert_eq!(parsed.config.rx_poll, -1);
    assert_eq!(parsed.config.thread_mode, ThreadMode::Single);
    let messages: Vec<_> = parsed
        .warnings
        .iter()
        .filter(|warning| warning.severity == LogLevel::Warning)
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "VMA_RX_POLL=-5 is out of range; allowed: -1..100000000; using -1",
            "VMA_THREAD_MODE=fast is not a number; allowed: 0, 1, 2 or 3; using 0",
        ]
    );
}

#[test]
fn a_profile_names_its_presets_without_effect_once() {
    let mut silent = 0;
    for spec in Spec::ALL {
        let parsed = parse([format!("VMA_SPEC={}", spec.name()).as_str()]);
        let changed = parsed.config.effective().filter(|it| !it.is_default);
        let lacking: Vec<_> = changed
            .map(|it| it.parameter())
            .filter(|it| it.lacks_effect())
            .collect();
        let names: Vec<_> = lacking.iter().map(|it| it.name).collect();
        let expected = (!names.is_empty()).then(|| {
            let (spec, names) = (spec.name(), names.join(", "));
            format!("VMA_SPEC={spec} presets parameters that have no effect yet: {names}")
        });
        silent += usize::from(expected.is_none());
        let messages: Vec<_> = parsed.warnings.iter().map(|it| &it.message).collect();
        assert_eq!(messages, Vec::from_iter(&expected), "{spec:?}");
    }
    assert!(silent > 0, "of some profiles everything works");
}

#[test]
fn socketxtreme_presets_come_before_the_profile() {
    let config = parse(["VMA_SOCKETXTREME=1"]).config;
    assert_eq!(value(&config, "VMA_RX_WRE"), "1024");
    assert_eq!(value(&config, "VMA_GRO_STREAMS_MAX"), "0");
    assert_eq!(value(&config, "VMA_PROGRESS_ENGINE_INTERVAL"), "0");

    let parsed = parse([
        "VMA_SOCKETXTREME=1",
        "VMA_SPEC=latency",
        "VMA_GRO_STREAMS_MAX=7",
    ]);
    assert_eq!(
        value(&parsed.config, "VMA_RX_WRE"),
        "256",
        "the profile wins"
    );
    assert_eq!(
        value(&parsed.config, "VMA_GRO_STREAMS_MAX"),
        "7",
        "the variable wins"
    );
    assert_eq!(
        value(&parsed.config, "VMA_PROGRESS_ENGINE_INTERVAL"),
        "0",
        "forced"
    );
    let origin = |name| {
        let mut effective = parsed.config.effective();
        effective
            .find(|effective| effective.parameter().name == name)
            .unwrap()
            .origin
    };
    assert_eq!(origin("VMA_RX_WRE"), Origin::Preset);
    assert_eq!(origin("VMA_GRO_STREAMS_MAX"), Origin::Environment);
    assert_eq!(origin("VMA_PROGRESS_ENGINE_INTERVAL"), Origin::Adjusted);
    assert_eq!(origin("VMA_BF"), Origin::Default);
    assert_eq!(parsed.config.effective().len(), PARAMETERS.len());
}
