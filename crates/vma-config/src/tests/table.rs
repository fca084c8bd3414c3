use std::collections::HashSet;

use super::value;
use crate::{
    Config, DEPRECATED, Form, GROUPS, Kind, LogLevel, PARAMETERS, Parameter, ParameterId, Spec,
};

/// The parameters that this release acts on.
const WORKING: &[&str] = &[
    "VMA_SPEC",
    "VMA_TRACELEVEL",
    "VMA_LOG_DETAILS",
    "VMA_LOG_COLORS",
    "VMA_LOG_FILE",
    "VMA_STATS_FILE",
    "VMA_STATS_SHMEM_DIR",
    "VMA_STATS_FD_NUM",
    "VMA_CONFIG_FILE",
    "VMA_APPLICATION_ID",
    "VMA_CPU_USAGE_STATS",
    "VMA_GUARDIAN",
    "VMA_HANDLE_SIGINTR",
    "VMA_HANDLE_SIGSEGV",
    "VMA_LOG_CB_FUNC_PTR",
    "VMA_RING_ALLOCATION_LOGIC_TX",
    "VMA_RING_ALLOCATION_LOGIC_RX",
    "VMA_RING_MIGRATION_RATIO_TX",
    "VMA_RING_MIGRATION_RATIO_RX",
    "VMA_RING_LIMIT_PER_INTERFACE",
    "VMA_TCP_MAX_SYN_RATE",
    "VMA_TX_WRE",
    "VMA_TX_WRE_BATCHING",
    "VMA_TX_MAX_INLINE",
    "VMA_TX_MC_LOOPBACK",
    "VMA_TX_NONBLOCKED_EAGAINS",
    "VMA_RX_WRE",
    "VMA_RX_WRE_BATCHING",
    "VMA_RX_BYTES_MIN",
    "VMA_RX_POLL",
    "VMA_RX_UDP_POLL_OS_RATIO",
    "VMA_HW_TS_CONVERSION",
    "VMA_RX_POLL_YIELD",
    "VMA_RX_PREFETCH_BYTES",
    "VMA_RX_CQ_DRAIN_RATE_NSEC",
    "VMA_SELECT_POLL",
    "VMA_SELECT_POLL_OS_RATIO",
    "VMA_SELECT_SKIP_OS",
    "VMA_PROGRESS_ENGINE_INTERVAL",
    "VMA_PROGRESS_ENGINE_WCE_MAX",
    "VMA_CQ_MODERATION_ENABLE",
    "VMA_CQ_MODERATION_COUNT",
    "VMA_CQ_MODERATION_PERIOD_USEC",
    "VMA_CQ_POLL_BATCH_MAX",
    "VMA_OFFLOADED_SOCKETS",
    "VMA_TCP_TIMESTAMP_OPTION",
    "VMA_TCP_NODELAY",
    "VMA_TCP_QUICKACK",
    "VMA_EXCEPTION_HANDLING",
    "VMA_WAIT_AFTER_JOIN_MSEC",
    "VMA_INTERNAL_THREAD_AFFINITY",
    "VMA_INTERNAL_THREAD_CPUSET",
    "VMA_INTERNAL_THREAD_ARM_CQ",
    "VMA_THREAD_MODE",
    "VMA_MEM_ALLOC_TYPE",
    "VMA_SOCKETXTREME",
    "VMA_BF",
    "VMA_FORK",
    "VMA_MTU",
    "VMA_MSS",
    "VMA_TCP_CC_ALGO",
    "VMA_RX_POLL_ON_TX_TCP",
    "VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME",
    "VMA_DEVICE",
    "VMA_XDP_MODE",
    "VMA_XDP_POOL_FRAMES",
    "VMA_OPEN_WAIT_MSEC",
    "VMA_BROKER",
    "VMA_SHM",
    "VMA_POLL_SHARED_CPU",
];

fn is_unique<'a>(mut words: impl Iterator<Item = &'a str>) -> bool {
    let mut seen = HashSet::new();
    words.all(|word| seen.insert(word))
}

fn texts(parameter: &Parameter) -> Vec<&'static str> {
    let mut texts = vec![
        parameter.name,
        parameter.label,
        parameter.help,
        parameter.description,
    ];
    match parameter.kind {
        Kind::Choice { choices, .. } => texts.extend(choices.iter().map(|choice| choice.text)),
        Kind::Word { words, .. } => {
            texts.extend(words.iter().flat_map(|word| [word.word, word.text]));
        }
        _ => {}
    }
    if let Some((_, reason)) = parameter.status.remark() {
        texts.push(reason);
    }
    texts
}

#[test]
fn names_and_labels_are_unique() {
    assert!(is_unique(PARAMETERS.iter().map(|p| p.name)));
    assert!(is_unique(
        PARAMETERS
            .iter()
            .map(|p| p.label)
            .filter(|label| !label.is_empty())
    ));
    let names = PARAMETERS.iter().map(|p| p.name);
    assert!(is_unique(
        names.chain(DEPRECATED.iter().map(|deprecated| deprecated.name))
    ));
}

#[test]
fn names_are_variables() {
    for name in PARAMETERS
        .iter()
        .map(|p| p.name)
        .chain(DEPRECATED.iter().map(|d| d.name))
    {
        assert!(name.starts_with("VMA_"), "{name}");
        let allowed = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(name.bytes().all(allowed), "{name}");
    }
}

#[test]
fn every_parameter_is_documented_in_ascii() {
    for parameter in PARAMETERS {
        for text in texts(parameter) {
            assert!(
                text.is_ascii() && !text.contains(['\n', '|']),
                "{}: {text}",
                parameter.name
            );
            assert!(!text.contains("  "), "{}: {text}", parameter.name);
            assert_eq!(text.trim(), text, "{}", parameter.name);
        }
        for sentence in [parameter.help, parameter.description] {
            assert!(sentence.ends_with('.'), "{}: {sentence}", parameter.name);
        }
        if let Some((_, reason)) = parameter.status.remark() {
            assert!(
                reason.len() > 10 && !reason.ends_with('.'),
                "{}",
                parameter.name
            );
        }
    }
    for deprecated in DEPRECATED {
        assert!(deprecated.advice.is_ascii() && !deprecated.advice.is_empty());
    }
}

#[test]
fn advice_on_older_names_mentions_existing_parameters() {
    for deprecated in DEPRECATED {
        for word in deprecated.advice.split([' ', ',', ';', '=']) {
            if word.starts_with("VMA_") {
                assert!(
                    ParameterId::find(word).is_some(),
                    "{}: {word}",
                    deprecated.name
                );
            }
        }
    }
}

#[test]
fn defaults_are_allowed() {
    for parameter in PARAMETERS {
        assert!(
            parameter.allows(&parameter.default_value()),
            "{}",
            parameter.name
        );
    }
}

#[test]
fn ranges_fit_32_bits() {
    for parameter in PARAMETERS {
        if let Kind::Number { min, max, .. } = parameter.kind {
            assert!(min <= max, "{}", parameter.name);
            let is_signed = i32::try_from(min).is_ok() && i32::try_from(max).is_ok();
            let is_unsigned = u32::try_from(min).is_ok() && u32::try_from(max).is_ok();
            assert!(is_signed || is_unsigned, "{}", parameter.name);
        }
    }
}

#[test]
fn forms_suit_their_kinds() {
    for parameter in PARAMETERS {
        let is_number = matches!(parameter.kind, Kind::Number { .. });
        let is_choice = matches!(parameter.kind, Kind::Choice { .. });
        let suits = match parameter.form {
            Form::Hidden => parameter.label.is_empty(),
            Form::Plain => !is_choice,
            Form::Always => matches!(parameter.kind, Kind::Level { .. }),
            Form::Number => is_choice || matches!(parameter.kind, Kind::Bool { .. }),
            Form::NumberAndText | Form::ChoiceText => is_choice,
            Form::NumberWithText { .. } | Form::ZeroDisabled { .. } | Form::SpecParameter => {
                is_number
            }
            Form::UnlessZero(other) => is_number && ParameterId::find(other).is_some(),
            Form::Spec => matches!(parameter.kind, Kind::Spec),
        };
        assert!(suits, "{}", parameter.name);
        assert_eq!(parameter.label.is_empty(), parameter.form == Form::Hidden);
    }
}

#[test]
fn groups_hold_each_parameter_once_in_order() {
    let grouped: Vec<_> = GROUPS
        .iter()
        .flat_map(|group| group.parameters)
        .map(|p| p.name)
        .collect();
    let listed: Vec<_> = PARAMETERS.iter().map(|p| p.name).collect();
    assert_eq!(grouped, listed);
}

#[test]
fn exactly_the_working_parameters_are_marked_so() {
    let marked: Vec<_> = PARAMETERS
        .iter()
        .filter(|p| p.works())
        .map(|p| p.name)
        .collect();
    assert_eq!(marked, WORKING);
}

#[test]
fn every_parameter_can_be_found_by_name() {
    for (index, parameter) in PARAMETERS.iter().enumerate() {
        let id = ParameterId::find(parameter.name).unwrap();
        assert_eq!(id.index(), index);
        assert_eq!(id.parameter().name, parameter.name);
    }
    assert_eq!(ParameterId::find("VMA_"), None);
}

#[test]
fn effective_values_of_an_empty_environment_are_the_defaults() {
    let config = Config::default();
    assert_eq!(config.effective().len(), PARAMETERS.len());
    for effective in config.effective() {
        assert!(effective.is_default, "{}", effective.parameter().name);
        assert_eq!(*effective.value, effective.parameter().default_value());
    }
    assert_eq!(config.spec, Spec::None);
    assert_eq!(config.log_level, LogLevel::Info);
    assert_eq!(value(&config, "VMA_RX_POLL"), "100000");
}
