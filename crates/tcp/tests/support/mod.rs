//! What the tests of this directory share.

pub(crate) mod scripts;
