//! The script language of packetdrill, and a runner that plays a script against any TCP stack.
//!
//! A script is a sequence of system calls that a program makes, packets that arrive and packets
//! that the stack must send, each with the time at which it happens. The language is that of
//! <https://github.com/google/packetdrill>; what this crate parses and cannot run is an error that
//! says so.

mod call;
mod error;
mod lexer;
mod linux;
mod parser;
pub mod python;
mod remote;
mod runner;
pub mod script;
pub mod scripts;
mod stack;
pub mod symbols;
pub mod sysctl;
pub mod wire;

pub use call::{Call, OptionValue, Outcome};
pub use error::{ParseError, Place};
pub use linux::Linux;
pub use parser::{parse, parse_with};
pub use remote::{Remote, obey};
pub use runner::{Conditions, Failure, describe, run};
pub use stack::{Segment, Setup, Stack, Unreachable, octet, wrong_octet};
