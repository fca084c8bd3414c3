//! An interface that several processes have. A broker opens it, with the rights that this takes,
//! and gives each process sockets of its own for the same memory; flows are asked of the broker,
//! packets pass it by.
//!
//! ```text
//! broker   program, maps, memory, fill and completion rings
//!   │ once: memory, an RX and a TX ring of each queue      │ for each port or flow: a question
//! client   copies what comes into its own frames; gives empty ones back under the lock, in dozens
//! ```

pub(crate) mod admission;
mod area;
mod budget;
mod client;
mod host;
pub(crate) mod join;
mod ledger;
mod lock;
pub(crate) mod membership;
pub(crate) mod message;
pub(crate) mod receive;
mod refill;
pub(crate) mod reserved;
pub(crate) mod send;

pub use client::Client;
pub use host::{Facts, Host, MemberFacts, Question, System, greeting, refuse};
pub use message::Hello;
pub use receive::SharedRx;
pub use send::SharedTx;
