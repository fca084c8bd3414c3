//! Connections that become the kernel's: handed over whole, in TIME-WAIT, or let through while
//! their listener stays here.

pub(super) mod exempt;
pub(super) mod hand_over;
pub(super) mod time_wait;
