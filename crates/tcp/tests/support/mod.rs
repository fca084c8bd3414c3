//! What the tests of this directory share.

#[allow(dead_code, reason = "not every test plays scripts against the engine")]
pub(crate) mod engine;
#[allow(dead_code, reason = "not every test uses all of it")]
pub(crate) mod scripts;
