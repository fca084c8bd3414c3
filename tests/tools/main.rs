//! What operators see and set: log, statistics, reasons, rules, exported names.
#![allow(clippy::unwrap_used, reason = "tests")]

mod boxes;
mod brokered;
mod capture;
mod explained;
mod exports;
mod logs;
mod measured;
mod reasons;
mod rules;
mod stats_file;
