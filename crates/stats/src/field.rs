//! The types a statistics entry is made of.
//!
//! Every field is an atomic or an array of atomics: any bit pattern is valid and a concurrent read
//! is never undefined. Each knows how to be written by the one writer and how to be read at an
//! offset of another process's segment.

use crate::field::value::Value;
use crate::mapping::EntryView;

pub(crate) mod endpoint;
pub(crate) mod histogram;
pub(crate) mod reasons;
pub(crate) mod remark;
pub(crate) mod scalar;
pub(crate) mod text;
pub(crate) mod value;
mod versioned;

/// How a field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Says what the entry is about.
    Identity,
    /// Only grows: readers show differences.
    Counter,
    /// Rises and falls: readers show the present value.
    Gauge,
    /// The most that a gauge ever was.
    Peak,
}

/// What every field type can do; the schema's macro builds entries and snapshots from it.
pub(crate) trait Field: Default {
    /// The plain value of a snapshot.
    type Value: Clone;

    const KIND: FieldKind;

    /// Back to the value of a fresh entry.
    fn reset(&self);

    /// Takes over the value of another entry's field.
    fn copy_from(&self, other: &Self);

    /// Lets a counter or a peak begin anew, while another thread may count. All else stays.
    fn zero(&self) {}

    /// The value of a snapshot, whatever its type.
    fn shown(value: &Self::Value) -> Value;

    /// Reads the field at `offset` of an entry in another process's segment.
    fn read(entry: &EntryView<'_>, offset: usize) -> Self::Value;

    /// What to show for an interval: the increase of a counter, the present value of all else.
    fn since(current: &Self::Value, _earlier: &Self::Value) -> Self::Value {
        current.clone()
    }
}
