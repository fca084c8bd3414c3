//! The parameters of the library and everything that is generated from them.
//!
//! One table, [`PARAMETERS`], holds each `VMA_*` variable once: its name, type, default, range, the
//! words it accepts, how the start-up banner prints it and what it does. From this table come
//!
//! - [`Config::parse`]: an environment in, the configuration and warnings out;
//! - [`banner()`]: the lines that are printed at start-up;
//! - [`parameters_markdown`], [`man_page`] and [`conf_man_page`]: the reference pages
//!   `docs/parameters.md`, `man/vma.7` and
//!   `man/libvma.conf.5`;
//! - [`Config::effective`]: what the statistics segment publishes.
//!
//! Beside it, [`rules`] reads `libvma.conf`.
//!
//! Nothing in this crate reads the environment, the clock or a file, and nothing writes: the
//! library passes in what it read and writes what it gets back.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod adjust;
mod banner;
mod conf_page;
mod config;
mod deprecated;
mod devices;
mod docs;
mod environment;
mod level;
mod log_format;
mod man;
mod params;
mod parse;
mod preset;
pub mod rules;
mod settings;
mod suggest;
mod value;
mod warning;

pub use crate::banner::{BannerFacts, SystemFacts, banner};
pub use crate::conf_page::conf_man_page;
pub use crate::config::{
    Config, Effective, ExceptionHandling, MemoryKind, Parsed, RingLogic, ThreadMode,
};
pub use crate::deprecated::{DEPRECATED, Deprecated};
pub use crate::devices::{DeviceChoice, DeviceTimes, VerbsSettings, XdpMode};
pub use crate::docs::parameters_markdown;
pub use crate::level::LogLevel;
pub use crate::log_format::LogLine;
pub use crate::man::man_page;
pub use crate::params::{
    Choice, Form, GROUPS, Group, Kind, PARAMETERS, Parameter, ParameterId, Rule, Status, Word,
};
pub use crate::preset::{PRESETS, Preset, Spec};
pub use crate::settings::Origin;
pub use crate::suggest::nearest_name;
pub use crate::value::Value;
pub use crate::warning::{Warning, WarningKind};

#[cfg(test)]
mod tests;
