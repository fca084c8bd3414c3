//! Clause by clause, with virtual time.

mod chaos;
mod clauses;
mod close;
mod fast_open;
mod harness;
mod info;
mod loss;
mod open;
mod path_mtu;
mod pressure;
mod receive;
mod repair;
mod requirements;
mod send;
mod urgent;
mod validation;
