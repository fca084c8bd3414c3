//! What makes the entries of the table short: constructors, usual ranges and usual reasons for
//! having no effect.

use crate::params::{Choice, Form, Kind, Parameter, Rule, Status};

/// The range of an unsigned number without a narrower one.
pub(super) const ANY_U32: (i64, i64) = (0, 4_294_967_295);
/// The range of a signed number that cannot be negative.
pub(super) const NOT_NEGATIVE: (i64, i64) = (0, 2_147_483_647);
/// The range of a polling limit, -1 meaning no limit.
pub(super) const POLL_LIMIT: (i64, i64) = (-1, 100_000_000);

pub(super) const NEEDS_RDMA: &str =
    "it concerns RDMA network cards, whose back-end does not know it yet";
pub(super) const FULL_QUEUE: &str = "without a free frame it is the device that drops packets, and it is refilled as frames come back";
pub(super) const NO_MODERATION: &str =
    "moderation adapts by itself: only fast streams that nobody answers are moderated";
pub(super) const ONE_POOL: &str =
    "all rings share one pool of frames, sized by VMA_XDP_POOL_FRAMES";
pub(super) const NO_PREFETCH: &str =
    "frames are in the cache when they are filled: the one that came back last is taken first";
pub(super) const NO_NEIGHBOURS: &str = "the kernel resolves and confirms neighbours";

impl Parameter {
    pub(super) const fn new(name: &'static str, label: &'static str, kind: Kind) -> Self {
        Self {
            name,
            label,
            kind,
            form: if label.is_empty() {
                Form::Hidden
            } else {
                Form::Plain
            },
            status: Status::Works,
            help: "",
            description: "",
        }
    }

    pub(super) const fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// The number is printed as `Disabled` when it is zero.
    pub(super) const fn zero_disabled(self) -> Self {
        let form = Form::ZeroDisabled {
            label: self.label,
            always_info: false,
        };
        self.form(form)
    }

    pub(super) const fn rule(self, rule: Rule) -> Self {
        match self.kind {
            Kind::Number {
                default, min, max, ..
            } => Self {
                kind: Kind::Number {
                    default,
                    min,
                    max,
                    rule,
                },
                ..self
            },
            _ => panic!("only numbers have rules"),
        }
    }

    pub(super) const fn no_effect(self, reason: &'static str) -> Self {
        Self {
            status: Status::NoEffect(reason),
            ..self
        }
    }

    pub(super) const fn no_meaning(self, reason: &'static str) -> Self {
        Self {
            status: Status::NoMeaning(reason),
            ..self
        }
    }

    pub(super) const fn about(self, help: &'static str, description: &'static str) -> Self {
        Self {
            help,
            description,
            ..self
        }
    }
}

pub(super) const fn flag(name: &'static str, label: &'static str, default: bool) -> Parameter {
    Parameter::new(name, label, Kind::Bool { default })
}

pub(super) const fn number(
    name: &'static str,
    label: &'static str,
    default: i64,
    (min, max): (i64, i64),
) -> Parameter {
    Parameter::new(
        name,
        label,
        Kind::Number {
            default,
            min,
            max,
            rule: Rule::Any,
        },
    )
}

pub(super) const fn choice(
    name: &'static str,
    label: &'static str,
    default: i32,
    choices: &'static [Choice],
) -> Parameter {
    Parameter::new(name, label, Kind::Choice { default, choices }).form(Form::NumberAndText)
}

pub(super) const fn path(
    name: &'static str,
    label: &'static str,
    default: &'static str,
) -> Parameter {
    Parameter::new(
        name,
        label,
        Kind::Path {
            default,
            expands_pid: true,
        },
    )
}
