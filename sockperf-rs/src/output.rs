//! What a run shows and writes: the report, its files, the live view.

pub mod compare;
pub mod full_log;
pub mod hgrm;
pub mod histogram;
pub mod hlog;
pub mod html;
pub mod json;
#[cfg_attr(not(feature = "live"), path = "output/no_live.rs")]
pub mod live;
pub mod monitor;
pub mod report;
