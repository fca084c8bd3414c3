//! Reads the text of one variable as its parameter's type.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::level::LogLevel;
use crate::params::{Kind, Parameter};
use crate::preset::Spec;
use crate::value::Value;

/// What became of a variable's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It is a value that the parameter allows.
    Valid(Value),
    /// It begins with a number that the parameter allows, but something follows. The original reads
    /// numbers with `atoi` and so uses what it can read.
    Leading(Value),
    /// It is a value that the parameter does not allow.
    OutOfRange,
    /// It is not a value of the parameter's type.
    Malformed,
}

impl Reading {
    /// Whether it is a boolean that is on.
    pub(crate) fn is_on(&self) -> bool {
        matches!(
            self,
            Self::Valid(Value::Bool(true)) | Self::Leading(Value::Bool(true))
        )
    }
}

/// The largest processor number that a set may name: the size of glibc's `cpu_set_t`.
const CPU_MAX: u32 = 1023;

/// Reads `text` as a value of `parameter`. The first `%d` of a value that stands for the process id
/// becomes `pid`.
pub(crate) fn read(parameter: &Parameter, text: &OsStr, pid: u32) -> Reading {
    match parameter.kind {
        Kind::Bool { .. } => read_bool(text),
        Kind::Number { .. } | Kind::Choice { .. } => read_number(parameter, text),
        Kind::Word { words, .. } => named(text, |text| {
            words
                .iter()
                .find(|word| word.word.eq_ignore_ascii_case(text))
                .map(|word| Value::Word(word.word))
        }),
        Kind::Level { .. } => named(text, |text| LogLevel::from_name(text).map(Value::Level)),
        Kind::Spec => named(text, |text| Spec::from_name(text).map(Value::Spec)),
        Kind::Text {
            expands_pid: true, ..
        }
        | Kind::Path {
            expands_pid: true, ..
        } => Reading::Valid(Value::Text(expand_pid(text, pid))),
        Kind::Text { .. } | Kind::Path { .. } => Reading::Valid(Value::Text(text.to_owned())),
        Kind::CpuSet { .. } => match text.to_str().map(str::trim) {
            Some(text) if is_cpu_set(text) => Reading::Valid(Value::Text(text.into())),
            _ => Reading::Malformed,
        },
    }
}

/// Whether `text` names a set of processors: `-1`, a mask such as `0x3`, or a list such as
/// `0,2,4-6`.
pub(crate) fn is_cpu_set(text: &str) -> bool {
    text == "-1" || cpus(text).is_some()
}

/// The processors of a mask or a list, in rising order and without repetitions. `None`: it is
/// neither, or none is in it.
pub(crate) fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(mask) => cpus_of_mask(mask)?,
        None => {
            let mut cpus = Vec::new();
            for range in text.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last) = (cpu_number(first)?, cpu_number(last)?);
                if first > last {
                    return None;
                }
                cpus.extend(first..=last);
            }
            cpus
        }
    };
    cpus.sort_unstable();
    cpus.dedup();
    (!cpus.is_empty()).then_some(cpus)
}

fn cpus_of_mask(mask: &str) -> Option<Vec<u32>> {
    let digits_max = (CPU_MAX as usize + 1) / 4;
    if mask.len() > digits_max {
        return None;
    }
    let mut cpus = Vec::new();
    for (digit, first) in mask.chars().rev().zip((0..).step_by(4)) {
        let bits = digit.to_digit(16)?;
        cpus.extend(
            (0..4)
                .filter(|bit| bits >> bit & 1 != 0)
                .map(|bit| first + bit),
        );
    }
    Some(cpus)
}

fn cpu_number(text: &str) -> Option<u32> {
    // A sign is accepted by `parse` but not here.
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|cpu| digits_only && *cpu <= CPU_MAX)
}

fn named(text: &OsStr, find: impl Fn(&str) -> Option<Value>) -> Reading {
    match text.to_str().map(str::trim).and_then(find) {
        Some(value) => Reading::Valid(value),
        None => Reading::Malformed,
    }
}

/// Any number but zero is on, as with `atoi`; the usual words are understood as well.
pub(crate) fn read_bool(text: &OsStr) -> Reading {
    const WORDS: [(&str, bool); 8] = [
        ("true", true),
        ("yes", true),
        ("on", true),
        ("enabled", true),
        ("false", false),
        ("no", false),
        ("off", false),
        ("disabled", false),
    ];
    let text = text.to_string_lossy();
    let text = text.trim();
    if let Some((_, value)) = WORDS
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
    {
        return Reading::Valid(Value::Bool(*value));
    }
    match leading_number(text) {
        Some((number, "")) => Reading::Valid(Value::Bool(number != 0)),
        Some((number, _)) => Reading::Leading(Value::Bool(number != 0)),
        None => Reading::Malformed,
    }
}

fn read_number(parameter: &Parameter, text: &OsStr) -> Reading {
    let text = text.to_string_lossy();
    let Some((number, rest)) = leading_number(text.trim()) else {
        return Reading::Malformed;
    };
    let value = Value::Number(number);
    match (parameter.allows(&value), rest.is_empty()) {
        (true, true) => Reading::Valid(value),
        (true, false) => Reading::Leading(value),
        (false, true) => Reading::OutOfRange,
        (false, false) => Reading::Malformed,
    }
}

/// Splits a decimal number, which may have a sign, from what follows it. A number too large for 64
/// bits becomes the nearest one that fits.
fn leading_number(text: &str) -> Option<(i64, &str)> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let rest = unsigned.trim_start_matches(|character: char| character.is_ascii_digit());
    let digits = &unsigned[..unsigned.len() - rest.len()];
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits.bytes().fold(0_i64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    });
    Some((if negative { -magnitude } else { magnitude }, rest))
}

/// Replaces the first `%d` of `text` by `pid`.
fn expand_pid(text: &OsStr, pid: u32) -> OsString {
    let bytes = text.as_bytes();
    let Some(position) = bytes.windows(2).position(|pair| pair == b"%d") else {
        return text.to_owned();
    };
    let (before, after) = bytes.split_at(position);
    OsString::from_vec([before, pid.to_string().as_bytes(), &after[2..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::ParameterId;

    #[track_caller]
    fn reading(name: &str, text: &[u8]) -> Reading {
        let id = ParameterId::find(name).unwrap();
        read(id.parameter(), OsStr::from_bytes(text), 4321)
    }

    fn number(value: i64) -> Reading {
        Reading::Valid(Value::Number(value))
    }

    fn text(value: &str) -> Reading {
        Reading::Valid(Value::Text(value.into()))
    }

    #[test]
    fn booleans_are_numbers_or_words() {
        for (given, value) in [
            ("0", false),
            ("1", true),
            ("2", true),
            ("-1", true),
            (" 1 ", true),
            ("00", false),
            ("on", true),
            ("TRUE", true),
            ("Off", false),
            ("no", false),
        ] {
            let expected = Reading::Valid(Value::Bool(value));
            assert_eq!(
                reading("VMA_OFFLOADED_SOCKETS", given.as_bytes()),
                expected,
                "{given}"
            );
        }
        assert_eq!(
            reading("VMA_BF", b"1x"),
            Reading::Leading(Value::Bool(true))
        );
        for given in ["", "x", "-", "maybe"] {
            assert_eq!(
                reading("VMA_BF", given.as_bytes()),
                Reading::Malformed,
                "{given}"
            );
        }
    }

    #[test]
    fn signed_numbers_keep_to_their_range() {
        for (given, expected) in [
            ("-1", number(-1)),
            ("0", number(0)),
            ("+7", number(7)),
            ("\t100000000\n", number(100_000_000)),
            ("100000001", Reading::OutOfRange),
            ("-2", Reading::OutOfRange),
            ("99999999999999999999999", Reading::OutOfRange),
            ("-99999999999999999999999", Reading::OutOfRange),
            ("100us", Reading::Leading(Value::Number(100))),
            ("1e6", Reading::Leading(Value::Number(1))),
            ("-7us", Reading::Malformed),
            ("abc", Reading::Malformed),
            ("", Reading::Malformed),
            ("-", Reading::Malformed),
            ("--1", Reading::Malformed),
        ] {
            assert_eq!(
                reading("VMA_RX_POLL", given.as_bytes()),
                expected,
                "{given}"
            );
        }
        assert_eq!(reading("VMA_RX_POLL", b"\xff"), Reading::Malformed);
    }

    #[test]
    fn unsigned_numbers_keep_to_their_range() {
        assert_eq!(reading("VMA_RX_BUFS", b"4294967295"), number(4_294_967_295));
        assert_eq!(reading("VMA_RX_BUFS", b"4294967296"), Reading::OutOfRange);
        assert_eq!(reading("VMA_RX_BUFS", b"-1"), Reading::OutOfRange);
    }

    #[test]
    fn rules_apply_within_the_range() {
        let name = "VMA_XDP_POOL_FRAMES";
        for frames in [1024, 8192, 1_048_576] {
            assert_eq!(reading(name, frames.to_string().as_bytes()), number(frames));
        }
        for frames in ["0", "512", "8191", "10000", "2097152", "-1024"] {
            assert_eq!(
                reading(name, frames.as_bytes()),
                Reading::OutOfRange,
                "{frames}"
            );
        }
        let name = "VMA_RX_PREFETCH_BYTES_BEFORE_POLL";
        for (bytes, allowed) in [(0, true), (1, false), (31, false), (32, true), (2044, true)] {
            let expected = if allowed {
                number(bytes)
            } else {
                Reading::OutOfRange
            };
            assert_eq!(
                reading(name, bytes.to_string().as_bytes()),
                expected,
                "{bytes}"
            );
        }
    }

    #[test]
    fn choices_allow_only_their_numbers() {
        let name = "VMA_RING_ALLOCATION_LOGIC_RX";
        for logic in [0, 1, 10, 20, 30, 31] {
            assert_eq!(reading(name, logic.to_string().as_bytes()), number(logic));
        }
        for logic in ["2", "11", "-1", "32"] {
            assert_eq!(
                reading(name, logic.as_bytes()),
                Reading::OutOfRange,
                "{logic}"
            );
        }
        assert_eq!(reading("VMA_EXCEPTION_HANDLING", b"-2"), number(-2));
        assert_eq!(
            reading("VMA_EXCEPTION_HANDLING", b"-3"),
            Reading::OutOfRange
        );
    }

    #[test]
    fn names_are_read_without_regard_to_case() {
        let native = Reading::Valid(Value::Word("native"));
        assert_eq!(reading("VMA_XDP_MODE", b" Native "), native);
        assert_eq!(reading("VMA_XDP_MODE", b"driver"), Reading::Malformed);
        let debug = Reading::Valid(Value::Level(LogLevel::Debug));
        assert_eq!(reading("VMA_TRACELEVEL", b"4"), debug);
        assert_eq!(reading("VMA_TRACELEVEL", b"Debug"), debug);
        assert_eq!(reading("VMA_TRACELEVEL", b"9"), Reading::Malformed);
        let latency = Reading::Valid(Value::Spec(Spec::Latency));
        assert_eq!(reading("VMA_SPEC", b"LATENCY"), latency);
        assert_eq!(reading("VMA_SPEC", b"15"), latency);
        assert_eq!(reading("VMA_SPEC", b"16"), Reading::Malformed);
    }

    #[test]
    fn only_the_first_pid_placeholder_is_replaced() {
        for (given, expected) in [
            ("/tmp/log.%d", "/tmp/log.4321"),
            ("%d-%d", "4321-%d"),
            ("%%d", "%4321"),
            ("/tmp/plain", "/tmp/plain"),
            ("%", "%"),
            ("", ""),
        ] {
            assert_eq!(
                reading("VMA_LOG_FILE", given.as_bytes()),
                text(expected),
                "{given}"
            );
        }
        assert_eq!(reading("VMA_APPLICATION_ID", b"app%d"), text("app4321"));
        assert_eq!(
            reading("VMA_INTERNAL_THREAD_CPUSET", b"/dev/%d"),
            text("/dev/%d")
        );
    }

    #[test]
    fn paths_need_not_be_utf8() {
        let expected = OsString::from_vec(b"/tmp/\xff4321".to_vec());
        let reading = reading("VMA_STATS_SHMEM_DIR", b"/tmp/\xff%d");
        assert_eq!(reading, Reading::Valid(Value::Text(expected)));
    }

    #[test]
    fn processor_sets_are_masks_or_lists() {
        for given in [
            "-1", "0", "14", "0,4,8", "0,1,7-10", "0x1", "0X0f", "1023", "3-3",
        ] {
            assert!(is_cpu_set(given), "{given}");
        }
        let long_mask = format!("0x{}", "f".repeat(257));
        for given in [
            "", "-2", ",", "1,", "7-1", "1-", "0x", "0x0", "0xg", "a", "1024", "+1", &long_mask,
        ] {
            assert!(!is_cpu_set(given), "{given}");
        }
        assert_eq!(
            reading("VMA_INTERNAL_THREAD_AFFINITY", b" 0,2 "),
            text("0,2")
        );
        assert_eq!(
            reading("VMA_INTERNAL_THREAD_AFFINITY", b"cpu0"),
            Reading::Malformed
        );
    }
}
