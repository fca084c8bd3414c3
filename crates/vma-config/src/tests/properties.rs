use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::{
    BannerFacts, Config, DEPRECATED, Kind, LogLevel, PARAMETERS, Spec, Value, banner, nearest_name,
};

/// A name of a parameter or of an older release, or bytes that look a little like one.
fn name() -> impl Strategy<Value = OsString> {
    let known: Vec<&'static str> = PARAMETERS
        .iter()
        .map(|parameter| parameter.name)
        .chain(DEPRECATED.iter().map(|deprecated| deprecated.name))
        .collect();
    prop_oneof![
        8 => select(known).prop_map(OsString::from),
        1 => "VMA_[A-Z_]{0,20}".prop_map(OsString::from),
        1 => vec(any::<u8>(), 0..40)
            .prop_map(|bytes| OsString::from_vec([b"VMA_".to_vec(), bytes].concat())),
    ]
}

/// Numbers near every limit, words that mean something somewhere, and arbitrary bytes.
fn text() -> impl Strategy<Value = OsString> {
    let mut words: Vec<&'static str> = vec![
        "", "-", "+", "%d", "%", "0x3", "0,2-4", "auto", "native", "true", "off", "-1x",
    ];
    words.extend(
        LogLevel::ALL_LEVELS
            .iter()
            .flat_map(|level| level.accepted_names()),
    );
    words.extend(Spec::ALL.iter().flat_map(|spec| spec.accepted_names()));
    let mut limits: Vec<i64> = vec![i64::MIN, i64::MAX, i64::from(i32::MIN), 1 << 32];
    for parameter in PARAMETERS {
        if let Kind::Number {
            default, min, max, ..
        } = parameter.kind
        {
            limits.extend([default, min - 1, min, max, max + 1]);
        }
    }
    limits.sort_unstable();
    limits.dedup();
    prop_oneof![
        4 => select(limits).prop_map(|number| OsString::from(number.to_string())),
        2 => select(words).prop_map(OsString::from),
        2 => any::<i64>().prop_map(|number| OsString::from(number.to_string())),
        2 => (-10_i64..5000).prop_map(|number| OsString::from(number.to_string())),
        1 => "[ +-]{0,2}[0-9]{0,30}[a-z ]{0,2}".prop_map(OsString::from),
        1 => vec(any::<u8>(), 0..100).prop_map(OsString::from_vec),
    ]
}

proptest! {
    #[test]
    fn any_environment_gives_values_in_range(
        environment in vec((name(), text()), 0..40),
        pid in any::<u32>(),
    ) {
        let parsed = Config::parse(environment.clone(), pid);
        for effective in parsed.config.effective() {
            let parameter = effective.parameter();
            prop_assert!(
                parameter.allows(effective.value),
                "{}={}",
                parameter.name,
                effective.value
            );
        }

        // The fields say the same as the table's values: nothing was lost in between.
        let config = &parsed.config;
        let number = |name: &str| match config.value(name) {
            Some(Value::Number(number)) => *number,
            other => panic!("{name}: {other:?}"),
        };
        prop_assert_eq!(i64::from(config.log_details), number("VMA_LOG_DETAILS"));
        prop_assert_eq!(i64::from(config.stats_fd_num), number("VMA_STATS_FD_NUM"));
        prop_assert_eq!(i64::from(config.rx_poll), number("VMA_RX_POLL"));
        prop_assert_eq!(i64::from(config.select_poll_usec), number("VMA_SELECT_POLL"));
        prop_assert_eq!(
            i64::from(config.rx_udp_poll_os_ratio),
            number("VMA_RX_UDP_POLL_OS_RATIO")
        );
        prop_assert_eq!(
            i64::from(config.select_poll_os_ratio),
            number("VMA_SELECT_POLL_OS_RATIO")
        );
        prop_assert_eq!(i64::from(config.cq_poll_batch_max), number("VMA_CQ_POLL_BATCH_MAX"));
        prop_assert_eq!(i64::from(config.xdp_pool_frames), number("VMA_XDP_POOL_FRAMES"));
        prop_assert_ne!(config.rx_poll, 0);
        prop_assert!(config.xdp_pool_frames.is_power_of_two());
        prop_assert!(config.log_level <= LogLevel::MAX);

        // Whatever is logged about it is one line each.
        for warning in &parsed.warnings {
            prop_assert!(!warning.message.contains(char::is_control));
            prop_assert!(warning.message.contains(&warning.variable));
        }
        for (_, line) in banner(config, &BannerFacts::default()) {
            prop_assert!(!line.contains(char::is_control));
        }

        prop_assert_eq!(Config::parse(environment, pid), parsed);
    }

    #[test]
    fn the_printed_value_parses_to_itself(name in name(), text in text()) {
        let parsed = Config::parse([(name, text)], 1);
        let printed = parsed.config.effective().filter(|effective| {
            // Text from the user is printed so that it stays on one line, which is not reversible.
            !matches!(effective.value, Value::Text(_))
        });
        let environment: Vec<_> = printed
            .map(|effective| {
                (effective.parameter().name.into(), effective.value.to_environment().into())
            })
            .collect();
        let again = Config::parse(environment, 1).config;
        for (first, second) in parsed.config.effective().zip(again.effective()) {
            if !matches!(first.value, Value::Text(_)) {
                prop_assert_eq!(first.value, second.value, "{}", first.parameter().name);
            }
        }
    }

    #[test]
    fn a_known_name_is_its_own_nearest(index in 0..PARAMETERS.len()) {
        let name = PARAMETERS[index].name;
        prop_assert_eq!(nearest_name(name), Some(name));
    }
}
