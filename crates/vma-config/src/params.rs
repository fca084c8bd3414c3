//! The parameter table: one entry for each variable, in the order in which the banner prints them.
//!
//! The entries stand in one submodule for each subject. `PARAMETERS` joins them at compile time, so
//! that a [`ParameterId`] is a checked position in one array.

mod build;
mod completion;
mod general;
mod limits;
mod polling;
mod receive;
mod rings;
mod steering;
mod tcp;
mod threads;
mod transmit;
mod xdp;

use crate::level::LogLevel;
use crate::preset::Spec;
use crate::value::Value;

/// Every parameter, in banner order.
pub static PARAMETERS: &[Parameter] = &TABLE;

/// The parameters again, by subject, in banner order.
pub static GROUPS: &[Group] = &GROUP_TABLE;

/// The parameters that concern one subject.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The subject, as a heading.
    pub title: &'static str,
    /// The parameters, in banner order.
    pub parameters: &'static [Parameter],
}

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name of the environment variable.
    pub name: &'static str,
    /// What the banner calls it; empty where the banner does not print it.
    pub label: &'static str,
    /// The type, the default and the range.
    pub kind: Kind,
    /// How the banner prints it.
    pub form: Form,
    /// Whether this release acts on it.
    pub status: Status,
    /// What it is, in one line.
    pub help: &'static str,
    /// What it does and when to change it.
    pub description: &'static str,
}

/// The type of a parameter, with its default and what it may be set to.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// On or off.
    Bool {
        /// The value when nothing sets it.
        default: bool,
    },
    /// A whole number.
    Number {
        /// The value when nothing sets it.
        default: i64,
        /// The smallest allowed value; at least `i32::MIN`.
        min: i64,
        /// The largest allowed value; at most `u32::MAX`.
        max: i64,
        /// What is asked of the number besides the range.
        rule: Rule,
    },
    /// One of some numbers, each with a meaning.
    Choice {
        /// The value when nothing sets it.
        default: i32,
        /// The allowed numbers.
        choices: &'static [Choice],
    },
    /// One of some words.
    Word {
        /// The value when nothing sets it.
        default: &'static str,
        /// The allowed words.
        words: &'static [Word],
    },
    /// A log level, by any of [its names](LogLevel::accepted_names).
    Level {
        /// The value when nothing sets it.
        default: LogLevel,
    },
    /// A profile of preset values, by any of [its names](Spec::accepted_names).
    Spec,
    /// Any text.
    Text {
        /// The value when nothing sets it.
        default: &'static str,
        /// Whether the first `%d` in it stands for the process id.
        expands_pid: bool,
    },
    /// The path of a file or directory; may be empty.
    Path {
        /// The value when nothing sets it.
        default: &'static str,
        /// Whether the first `%d` in it stands for the process id.
        expands_pid: bool,
    },
    /// A set of processors: `-1` for any, a mask such as `0x3`, or a list such as `0,2,4-6`.
    CpuSet {
        /// The value when nothing sets it.
        default: &'static str,
    },
}

/// What is asked of a number besides its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    Any,
    /// A power of two.
    PowerOfTwo,
    /// Zero, or at least this much.
    ZeroOrAtLeast(i64),
}

/// One allowed number of a [`Kind::Choice`].
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The number.
    pub number: i32,
    /// What it means, as the banner prints it.
    pub text: &'static str,
}

/// One allowed word of a [`Kind::Word`].
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word, in lower case.
    pub word: &'static str,
    /// What it means.
    pub text: &'static str,
}

/// How the banner prints a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Not at all.
    Hidden,
    /// A number as a number, everything else as text.
    Plain,
    /// As text, and always at level INFO.
    Always,
    /// As a number, although it is a boolean or a choice.
    Number,
    /// A choice as its number followed by its text.
    NumberAndText,
    /// A choice as its text alone.
    ChoiceText,
    /// As a number followed by a text, which depends on whether the number is zero.
    NumberWithText {
        /// The text when the number is zero.
        zero: &'static str,
        /// The text when it is not, empty for the number alone.
        other: &'static str,
    },
    /// As a number, or as `Disabled` when it is zero.
    ZeroDisabled {
        /// The label when it is zero.
        label: &'static str,
        /// Whether the line has level INFO when it is zero, even if that is the default.
        always_info: bool,
    },
    /// As a number, but not at all when this other parameter is zero.
    UnlessZero(&'static str),
    /// The profile's line, which is left out when no profile was asked for.
    Spec,
    /// A number that is printed only with the profiles that use it.
    SpecParameter,
}

/// Whether this release acts on a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does what its description says.
    Works,
    /// It is read and checked, and changes nothing yet.
    NoEffect(
        /// Why: what is missing.
        &'static str,
    ),
    /// It is read and checked, and concerns what this library does not have or need.
    NoMeaning(
        /// Why.
        &'static str,
    ),
}

impl Status {
    /// What is to be said of a parameter that changes nothing, and why.
    pub(crate) fn remark(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Works => None,
            Self::NoEffect(reason) => Some(("no effect yet", reason)),
            Self::NoMeaning(reason) => Some(("no meaning here", reason)),
        }
    }
}

/// The position of a parameter in [`PARAMETERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(usize);

impl ParameterId {
    /// The parameter named `name`. Meant for constants, where an unknown name does not compile.
    ///
    /// # Panics
    ///
    /// If there is no such parameter.
    pub(crate) const fn of(name: &str) -> Self {
        let mut index = 0;
        while index < TABLE.len() {
            if is_same(TABLE[index].name, name) {
                return Self(index);
            }
            index += 1;
        }
        panic!("no parameter has this name");
    }

    /// Finds a parameter by the exact name of its environment variable.
    pub fn find(name: &str) -> Option<Self> {
        PARAMETERS
            .iter()
            .position(|parameter| parameter.name == name)
            .map(Self)
    }

    /// Every parameter, in banner order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..PARAMETERS.len()).map(Self)
    }

    /// The position in [`PARAMETERS`].
    pub const fn index(self) -> usize {
        self.0
    }

    /// The table entry.
    pub fn parameter(self) -> &'static Parameter {
        &PARAMETERS[self.0]
    }
}

impl Parameter {
    /// The value when nothing sets it.
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Bool { default } => Value::Bool(default),
            Kind::Number { default, .. } => Value::Number(default),
            Kind::Choice { default, .. } => Value::Number(default.into()),
            Kind::Word { default, .. } => Value::Word(default),
            Kind::Level { default } => Value::Level(default),
            Kind::Spec => Value::Spec(Spec::None),
            Kind::Text { default, .. } | Kind::Path { default, .. } | Kind::CpuSet { default } => {
                Value::Text(default.into())
            }
        }
    }

    /// What the parameter may be set to, in words, such as `0..1024` or `auto, native or generic`.
    pub fn range(&self) -> String {
        match self.kind {
            Kind::Bool { .. } => "0 or 1".to_owned(),
            Kind::Number { min, max, rule, .. } => match rule {
                Rule::Any => format!("{min}..{max}"),
                Rule::PowerOfTwo => format!("a power of two in {min}..{max}"),
                Rule::ZeroOrAtLeast(least) => format!("0 or {least}..{max}"),
            },
            Kind::Choice { choices, .. } => {
                enumerate(choices.iter().map(|choice| choice.number.to_string()))
            }
            Kind::Word { words, .. } => enumerate(words.iter().map(|word| word.word.to_owned())),
            Kind::Level { .. } => {
                enumerate(LogLevel::ALL_LEVELS.map(|level| level.name().to_ascii_lowercase()))
            }
            Kind::Spec => enumerate(Spec::ALL.map(|spec| spec.name().to_owned())),
            Kind::Text { .. } => "any text".to_owned(),
            Kind::Path { .. } => "a path, or empty".to_owned(),
            Kind::CpuSet { .. } => "-1, a mask such as 0x3, or a list such as 0,2,4-6".to_owned(),
        }
    }

    /// Whether `value` is of the parameter's type and within its range.
    pub fn allows(&self, value: &Value) -> bool {
        match (self.kind, value) {
            (Kind::Bool { .. }, Value::Bool(_))
            | (Kind::Level { .. }, Value::Level(_))
            | (Kind::Spec, Value::Spec(_))
            | (Kind::Text { .. } | Kind::Path { .. }, Value::Text(_)) => true,
            (Kind::Number { min, max, rule, .. }, Value::Number(number)) => {
                (min..=max).contains(number)
                    && match rule {
                        Rule::Any => true,
                        Rule::PowerOfTwo => number.count_ones() == 1,
                        Rule::ZeroOrAtLeast(least) => *number == 0 || *number >= least,
                    }
            }
            (Kind::Choice { choices, .. }, Value::Number(number)) => choices
                .iter()
                .any(|choice| i64::from(choice.number) == *number),
            (Kind::Word { words, .. }, Value::Word(text)) => {
                words.iter().any(|word| word.word == *text)
            }
            (Kind::CpuSet { .. }, Value::Text(text)) => {
                text.to_str().is_some_and(crate::parse::is_cpu_set)
            }
            _ => false,
        }
    }

    /// Whether this release acts on the parameter.
    pub fn works(&self) -> bool {
        self.status == Status::Works
    }

    /// Whether a later release may act on the parameter.
    pub(crate) fn lacks_effect(&self) -> bool {
        matches!(self.status, Status::NoEffect(_))
    }
}

/// Joins words as prose does: `a, b or c`.
pub(crate) fn enumerate(words: impl IntoIterator<Item = String>) -> String {
    let mut words: Vec<String> = words.into_iter().collect();
    match (words.pop(), words.is_empty()) {
        (None, _) => String::new(),
        (Some(last), true) => last,
        (Some(last), false) => format!("{} or {last}", words.join(", ")),
    }
}

const GROUP_TABLE: [Group; 11] = [
    Group {
        title: "General, logging and statistics",
        parameters: &general::PARAMETERS,
    },
    Group {
        title: "Rings",
        parameters: &rings::PARAMETERS,
    },
    Group {
        title: "Transmitting",
        parameters: &transmit::PARAMETERS,
    },
    Group {
        title: "Receiving",
        parameters: &receive::PARAMETERS,
    },
    Group {
        title: "Steering",
        parameters: &steering::PARAMETERS,
    },
    Group {
        title: "select, poll and epoll",
        parameters: &polling::PARAMETERS,
    },
    Group {
        title: "Completion queues and interrupts",
        parameters: &completion::PARAMETERS,
    },
    Group {
        title: "Sockets and TCP",
        parameters: &tcp::PARAMETERS,
    },
    Group {
        title: "Threads and memory",
        parameters: &threads::PARAMETERS,
    },
    Group {
        title: "Neighbours, sizes and compatibility",
        parameters: &limits::PARAMETERS,
    },
    Group {
        title: "Beyond the original",
        parameters: &xdp::PARAMETERS,
    },
];

const COUNT: usize = {
    let mut count = 0;
    let mut group = 0;
    while group < GROUP_TABLE.len() {
        count += GROUP_TABLE[group].parameters.len();
        group += 1;
    }
    count
};

#[expect(
    clippy::large_const_arrays,
    reason = "only constants are made from it; programs use PARAMETERS"
)]
const TABLE: [Parameter; COUNT] = {
    let mut table = [GROUP_TABLE[0].parameters[0]; COUNT];
    let mut count = 0;
    let mut group = 0;
    while group < GROUP_TABLE.len() {
        let mut index = 0;
        while index < GROUP_TABLE[group].parameters.len() {
            table[count] = GROUP_TABLE[group].parameters[index];
            count += 1;
            index += 1;
        }
        group += 1;
    }
    table
};

const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// With a capital at the beginning, as a sentence has it.
pub(crate) fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
