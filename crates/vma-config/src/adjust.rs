//! Rules between parameters: what one parameter's value makes of another's.

use crate::level::LogLevel;
use crate::params::ParameterId;
use crate::settings::{Origin, Settings};
use crate::value::Value;
use crate::warning::{Warning, WarningKind};

const TRACE_LEVEL: ParameterId = ParameterId::of("VMA_TRACELEVEL");
const LOG_DETAILS: ParameterId = ParameterId::of("VMA_LOG_DETAILS");
const TX_WRE: ParameterId = ParameterId::of("VMA_TX_WRE");
const TX_WRE_BATCHING: ParameterId = ParameterId::of("VMA_TX_WRE_BATCHING");
const TX_MAX_INLINE: ParameterId = ParameterId::of("VMA_TX_MAX_INLINE");
const RX_WRE: ParameterId = ParameterId::of("VMA_RX_WRE");
const RX_WRE_BATCHING: ParameterId = ParameterId::of("VMA_RX_WRE_BATCHING");
const RX_POLL: ParameterId = ParameterId::of("VMA_RX_POLL");
const SELECT_POLL: ParameterId = ParameterId::of("VMA_SELECT_POLL");
const DRAIN_INTERVAL: ParameterId = ParameterId::of("VMA_PROGRESS_ENGINE_INTERVAL");
const DRAIN_MAX: ParameterId = ParameterId::of("VMA_PROGRESS_ENGINE_WCE_MAX");
const MODERATION: ParameterId = ParameterId::of("VMA_CQ_MODERATION_ENABLE");
const MODERATION_COUNT: ParameterId = ParameterId::of("VMA_CQ_MODERATION_COUNT");
const ADAPTIVE_COUNT: ParameterId = ParameterId::of("VMA_CQ_AIM_MAX_COUNT");
const ADAPTIVE_INTERVAL: ParameterId = ParameterId::of("VMA_CQ_AIM_INTERVAL_MSEC");
const COMPENSATION: ParameterId = ParameterId::of("VMA_QP_COMPENSATION_LEVEL");
const TIMER: ParameterId = ParameterId::of("VMA_TIMER_RESOLUTION_MSEC");
const TCP_TIMER: ParameterId = ParameterId::of("VMA_TCP_TIMER_RESOLUTION_MSEC");
const SOCKETXTREME: ParameterId = ParameterId::of("VMA_SOCKETXTREME");

/// Applies every rule between parameters. A value that the user set and that a rule changes is
/// worth a warning; presets and defaults change silently.
pub(crate) fn adjust(settings: &mut Settings, warnings: &mut Vec<Warning>) {
    adjust_logging(settings, warnings);
    adjust_queues(settings, warnings);
    adjust_polling(settings, warnings);
}

fn adjust_logging(settings: &mut Settings, warnings: &mut Vec<Warning>) {
    let Value::Level(level) = *settings.value(TRACE_LEVEL) else {
        return;
    };
    if level > LogLevel::MAX {
        settings.set(TRACE_LEVEL, Value::Level(LogLevel::MAX), Origin::Adjusted);
        warnings.push(Warning {
            kind: WarningKind::Adjusted,
            severity: LogLevel::Warning,
            variable: TRACE_LEVEL.parameter().name.to_owned(),
            // The original's words, for whoever looks for them.
            message: format!(
                "VMA trace level set to max level {} [VMA_TRACELEVEL]",
                LogLevel::MAX
            ),
        });
    }
    if level >= LogLevel::Debug && !settings.is_from_environment(LOG_DETAILS) {
        settings.set(LOG_DETAILS, Value::Number(2), Origin::Adjusted);
    }
}

fn adjust_queues(settings: &mut Settings, warnings: &mut Vec<Warning>) {
    let inline_bytes = settings.number(TX_MAX_INLINE);
    limit(
        settings,
        warnings,
        TX_WRE,
        Limit::AtMost(work_requests_max(inline_bytes)),
        TX_MAX_INLINE,
    );
    let batch = settings.number(TX_WRE_BATCHING);
    limit(
        settings,
        warnings,
        TX_WRE,
        Limit::AtLeast(2 * batch),
        TX_WRE_BATCHING,
    );
    let batch = settings.number(RX_WRE_BATCHING);
    limit(
        settings,
        warnings,
        RX_WRE,
        Limit::AtLeast(2 * batch),
        RX_WRE_BATCHING,
    );
    limit(
        settings,
        warnings,
        COMPENSATION,
        Limit::AtLeast(batch),
        RX_WRE_BATCHING,
    );
    let half_queue = settings.number(RX_WRE) / 2;
    limit(
        settings,
        warnings,
        MODERATION_COUNT,
        Limit::AtMost(half_queue),
        RX_WRE,
    );
    limit(
        settings,
        warnings,
        ADAPTIVE_COUNT,
        Limit::AtMost(half_queue),
        RX_WRE,
    );
    let tick_msec = settings.number(TIMER);
    limit(
        settings,
        warnings,
        TCP_TIMER,
        Limit::AtLeast(tick_msec),
        TIMER,
    );
}

fn adjust_polling(settings: &mut Settings, warnings: &mut Vec<Warning>) {
    // A blocking receive looks at the ring at least once before it sleeps.
    if settings.number(RX_POLL) == 0 {
        settings.set(RX_POLL, Value::Number(1), Origin::Adjusted);
    }
    let drains = settings.number(DRAIN_MAX) != 0 && !settings.is_on(SOCKETXTREME);
    if !drains && settings.number(DRAIN_INTERVAL) != 0 {
        let cause = if settings.is_on(SOCKETXTREME) {
            SOCKETXTREME
        } else {
            DRAIN_MAX
        };
        limit(settings, warnings, DRAIN_INTERVAL, Limit::AtMost(0), cause);
    }
    // Who polls for ever needs no interrupts.
    let endless = settings.number(RX_POLL) < 0 || settings.number(SELECT_POLL) < 0;
    if endless && settings.is_on(MODERATION) && !settings.is_from_environment(MODERATION) {
        settings.set(MODERATION, Value::Bool(false), Origin::Adjusted);
    }
    if !settings.is_on(MODERATION) && settings.number(ADAPTIVE_INTERVAL) != 0 {
        limit(
            settings,
            warnings,
            ADAPTIVE_INTERVAL,
            Limit::AtMost(0),
            MODERATION,
        );
    }
}

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(i64),
    AtMost(i64),
}

/// Brings `id` within `limit`, which comes from the value of `cause`.
fn limit(
    settings: &mut Settings,
    warnings: &mut Vec<Warning>,
    id: ParameterId,
    limit: Limit,
    cause: ParameterId,
) {
    let given = settings.number(id);
    let (used, bound) = match limit {
        Limit::AtLeast(least) => (given.max(least), format!("at least {least}")),
        Limit::AtMost(most) => (given.min(most), format!("at most {most}")),
    };
    if used == given {
        return;
    }
    if settings.is_from_environment(id) {
        let parameter = id.parameter();
        warnings.push(Warning {
            kind: WarningKind::Adjusted,
            severity: if parameter.works() {
                LogLevel::Warning
            } else {
                LogLevel::Debug
            },
            variable: parameter.name.to_owned(),
            message: format!(
                "{}={given} must be {bound} because of {}={}; using {used}",
                parameter.name,
                cause.parameter().name,
                settings.number(cause),
            ),
        });
    }
    settings.set(id, Value::Number(used), Origin::Adjusted);
}

/// The most work requests that fit into the largest send queue of a card, 2 MiB, when each carries
/// up to `inline_bytes` of packet.
fn work_requests_max(inline_bytes: i64) -> i64 {
    const QUEUE_BYTES: i64 = 2 * 16 * 1024 * 64;
    let entry_bytes = align_64(align_64((inline_bytes - 12).max(0)) + 12);
    QUEUE_BYTES / entry_bytes
}

fn align_64(bytes: i64) -> i64 {
    (bytes + 63) / 64 * 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_queue_limit_shrinks_with_inline_bytes() {
        for (inline_bytes, most) in [
            (0, 32_768),
            (12, 32_768),
            (13, 16_384),
            (204, 8192),
            (884, 2184),
        ] {
            assert_eq!(work_requests_max(inline_bytes), most, "{inline_bytes}");
        }
    }
}
