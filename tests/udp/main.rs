//! Datagrams past the kernel: whole, once and none lost, on devices of many kinds.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bulk;
mod churn;
mod devices;
mod exchange;
mod floods;
mod integrity;
mod paced;
mod ring_choice;
mod rings;
mod segmentation;
mod slow_readers;
mod unpolled;
mod uppers;
mod verbs;
mod verbs_times;
mod vlan;
mod wire_headers;
