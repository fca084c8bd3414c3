//! What a reader gets of an entry.

use crate::field::FieldKind;
use crate::field::value::Value;

/// One field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    pub name: &'static str,
    pub kind: FieldKind,
    /// How it is stored: the name of a type of this crate.
    pub type_name: &'static str,
    /// Plural noun, or empty where the value has none.
    pub unit: &'static str,
    pub help: &'static str,
    /// From the start of the entry, bytes.
    pub offset: usize,
}

/// A snapshot of an entry, whatever its section.
pub trait Row: Clone {
    /// What [`values`](Self::values) are, in their order.
    const FIELDS: &'static [FieldInfo];

    /// Place of the entry in its section.
    fn place(&self) -> u32;

    /// Tells the users of one place apart.
    fn generation(&self) -> u64;

    /// Every field.
    fn values(&self) -> Vec<Value>;

    /// The increase of every counter since `earlier`, a snapshot of the same place and
    /// generation; all else as it is now.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self;
}
