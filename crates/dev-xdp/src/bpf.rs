//! The XDP program that picks our flows out of an interface's traffic: its source, its maps, and
//! the bpf(2) calls that load and attach it.
//!
//! The program is assembled here and handed to the kernel as instructions; no compiler, object file
//! or loader library takes part. Read first: kernel `Documentation/bpf/standardization/` for the
//! instruction set, bpf(2) for the calls.

pub mod admission;
mod asm;
mod btf;
pub mod driver_time;
mod error;
pub mod hidden;
mod insn;
pub mod link;
mod maps;
pub mod program;
pub mod skb_notes;
mod syscall;

pub use error::BpfError;
