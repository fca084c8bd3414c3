//! What the tests of this directory share.

#[allow(dead_code, reason = "not every test has two endpoints")]
pub(crate) mod device;
#[allow(dead_code, reason = "not every test plays scripts against the engine")]
pub(crate) mod engine;
#[allow(dead_code, reason = "one test and a fuzz target have a hostile peer")]
pub(crate) mod hostile;
#[allow(dead_code, reason = "not every test measures goodput")]
pub(crate) mod links;
#[allow(dead_code, reason = "not every test has a network")]
pub(crate) mod network;
#[allow(dead_code, reason = "not every test has two endpoints")]
pub(crate) mod pair;
#[allow(dead_code, reason = "not every test plays seeds")]
pub(crate) mod seeds;
