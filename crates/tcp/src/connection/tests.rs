//! Clause by clause, with virtual time.

mod chaos;
mod clauses;
mod close;
mod data;
mod fast_open;
mod harness;
mod info;
mod open;
mod path_mtu;
mod repair;
mod requirements;
mod validation;
