//! The script language of packetdrill, and a runner that plays a script against any TCP stack.
//!
//! A script is a sequence of system calls that a program makes, packets that arrive and packets that the
//! stack must send, each with the time at which it happens. The language is that of
//! <https://github.com/google/packetdrill>; what this crate parses and cannot run is an error that says so.

mod error;
mod lexer;
mod parser;
pub mod python;
pub mod script;

pub use error::{ParseError, Place};
pub use parser::{parse, parse_with};
