//! The entries of each section: names, types, units and meanings of their fields.

mod calls;
mod devices;
mod sockets;
mod texts;

pub use calls::*;
pub use devices::*;
pub use sockets::*;
pub use texts::*;
