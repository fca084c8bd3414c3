//! What an entry's table becomes.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::field::remark::Remark;
use crate::field::text::Text;
use crate::mapping::EntryView;
use crate::schema::row::Row;
use crate::shares::SHARES;

/// What the segment's code needs of every entry.
pub(crate) trait Entry: Default {
    type Snapshot: Row;

    fn head(&self) -> &Head;

    /// All fields as in a fresh entry; the generation stays.
    fn reset(&self);

    /// Takes over all fields of another entry; the generation stays.
    fn copy_from(&self, other: &Self);

    /// Counters and peaks begin anew.
    fn zero(&self);

    /// Reads the fields once; the caller checks the generation around it.
    fn read(entry: &EntryView<'_>, index: u32, generation: u64) -> Self::Snapshot;
}

/// First word of every entry: odd while the entry is in use, even while it is free, one more at
/// each change, so a reader that sees the same odd value before and after has read one user's data.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Head {
    generation: AtomicU64,
}

impl Head {
    /// Whether the entry is in use.
    pub(crate) fn is_open(&self) -> bool {
        !self.generation.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Makes a reset entry visible.
    pub(crate) fn open(&self) {
        // Even, unless the file was damaged.
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1) | 1;
        self.generation.store(next, Ordering::Release);
    }

    /// Takes the entry away from readers, before the next user resets it.
    pub(crate) fn close(&self) {
        // Odd, unless the file was damaged.
        let next = (self.generation.load(Ordering::Relaxed) | 1).wrapping_add(1);
        self.generation.store(next, Ordering::Release);
        // Everything that the next user stores comes after the even generation.
        fence(Ordering::Release);
    }
}

pub(crate) type Text16 = Text<2>;
pub(crate) type Text64 = Text<8>;
pub(crate) type Text128 = Text<16>;
pub(crate) type Text192 = Text<24>;
pub(crate) type Text256 = Text<32>;
pub(crate) type Remark120 = Remark<15>;

/// What all shares of a counter have counted: the first at `offset`, and each a line behind the
/// other. What an older layout does not have reads as 0.
pub(crate) fn sum_of_shares(entry: &EntryView<'_>, offset: usize, line_bytes: usize) -> u64 {
    let shares = (0..SHARES).map(|share| entry.load_u64(offset.saturating_add(share * line_bytes)));
    shares.fold(0, u64::wrapping_add)
}

/// Makes an entry of its table: name, type, unit and meaning of every field. The first group shares
/// a cache line with the entry's generation, every further group starts a line of its own. A group
/// after `+` has [`SHARES`] lines, which readers add up.
macro_rules! entry {
    (
        $(#[$stats_doc:meta])* $stats:ident,
        $(#[$snapshot_doc:meta])* $snapshot:ident by $index:ident,
        { $( $name:ident: $type:ident, $unit:literal, $help:literal; )* }
        $( $line:ident { $(
            $line_name:ident: $line_type:ident, $line_unit:literal, $line_help:literal;
        )* } )*
        $( + $shares:ident: $share:ident { $(
            $share_name:ident: Counter, $share_unit:literal, $share_help:literal;
        )* } )?
    ) => {
        $(#[$stats_doc])*
        #[derive(Debug, Default)]
        #[repr(C, align(64))]
        pub struct $stats {
            head: $crate::schema::entry::Head,
            $( #[doc = $help] pub $name: $type, )*
            $(
                $line: $crate::cache_line::LineStart,
                $( #[doc = $line_help] pub $line_name: $line_type, )*
            )*
            $(
                /// The first is everybody's, each other of one thread: see
                /// [`Shares`](crate::Shares).
                pub $shares: [$share; $crate::SHARES],
            )?
        }

        $(
            /// What one thread has counted, on a cache line of its own.
            #[derive(Debug, Default)]
            #[repr(C, align(64))]
            pub struct $share {
                $( #[doc = $share_help] pub $share_name: Counter, )*
            }

            const _: () = assert!(size_of::<$share>() == $crate::cache_line::CACHE_LINE_BYTES);
            const _: () = assert!(
                std::mem::offset_of!($stats, $shares)
                    .is_multiple_of($crate::cache_line::CACHE_LINE_BYTES)
            );
        )?

        impl $stats {
            /// Every field in the order of the file.
            pub const FIELDS: &'static [$crate::schema::row::FieldInfo] = &[
                $( $crate::schema::row::FieldInfo {
                    name: stringify!($name),
                    kind: <$type as $crate::field::Field>::KIND,
                    type_name: stringify!($type),
                    unit: $unit,
                    help: $help,
                    offset: std::mem::offset_of!(Self, $name),
                }, )*
                $( $( $crate::schema::row::FieldInfo {
                    name: stringify!($line_name),
                    kind: <$line_type as $crate::field::Field>::KIND,
                    type_name: stringify!($line_type),
                    unit: $line_unit,
                    help: $line_help,
                    offset: std::mem::offset_of!(Self, $line_name),
                }, )* )*
                $( $( $crate::schema::row::FieldInfo {
                    name: stringify!($share_name),
                    kind: <Counter as $crate::field::Field>::KIND,
                    type_name: "Counter",
                    unit: $share_unit,
                    help: $share_help,
                    offset: std::mem::offset_of!(Self, $shares)
                        + std::mem::offset_of!($share, $share_name),
                }, )* )?
            ];
        }

        const _: () = assert!(std::mem::offset_of!($stats, head) == 0);
        const _: () = assert!(align_of::<$stats>() == $crate::cache_line::CACHE_LINE_BYTES);
        const _: () = assert!(size_of::<$stats>() % $crate::cache_line::CACHE_LINE_BYTES == 0);
        $( const _: () = assert!(
            std::mem::offset_of!($stats, $line) % $crate::cache_line::CACHE_LINE_BYTES == 0
        ); )*

        impl $crate::schema::entry::Entry for $stats {
            type Snapshot = $snapshot;

            fn head(&self) -> &$crate::schema::entry::Head {
                &self.head
            }

            fn reset(&self) {
                use $crate::field::Field;
                $( self.$name.reset(); )*
                $( $( self.$line_name.reset(); )* )*
                $( for share in &self.$shares { $( share.$share_name.reset(); )* } )?
            }

            fn copy_from(&self, other: &Self) {
                use $crate::field::Field;
                $( self.$name.copy_from(&other.$name); )*
                $( $( self.$line_name.copy_from(&other.$line_name); )* )*
                $( for (share, other) in self.$shares.iter().zip(&other.$shares) {
                    $( share.$share_name.copy_from(&other.$share_name); )*
                } )?
            }

            fn zero(&self) {
                use $crate::field::Field;
                $( self.$name.zero(); )*
                $( $( self.$line_name.zero(); )* )*
                $( for share in &self.$shares { $( share.$share_name.zero(); )* } )?
            }

            fn read(
                entry: &$crate::mapping::EntryView<'_>,
                index: u32,
                generation: u64,
            ) -> $snapshot {
                use $crate::field::Field;
                $snapshot {
                    $index: index,
                    generation,
                    $( $name: <$type>::read(entry, std::mem::offset_of!($stats, $name)), )*
                    $( $( $line_name:
                        <$line_type>::read(entry, std::mem::offset_of!($stats, $line_name)), )* )*
                    $( $( $share_name: $crate::schema::entry::sum_of_shares(
                        entry,
                        std::mem::offset_of!($stats, $shares)
                            + std::mem::offset_of!($share, $share_name),
                        size_of::<$share>(),
                    ), )* )?
                }
            }
        }

        $(#[$snapshot_doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(default))]
        pub struct $snapshot {
            /// Place of the entry in its section.
            pub $index: u32,
            /// Tells the users of one place apart; 0 for a place that was never taken.
            pub generation: u64,
            $( #[doc = $help] pub $name: $crate::schema::entry::snapshot_type!($type), )*
            $( $( #[doc = $line_help]
                pub $line_name: $crate::schema::entry::snapshot_type!($line_type), )* )*
            $( $( #[doc = $share_help] pub $share_name: u64, )* )?
        }

        impl $crate::schema::row::Row for $snapshot {
            const FIELDS: &'static [$crate::schema::row::FieldInfo] = $stats::FIELDS;

            fn place(&self) -> u32 {
                self.$index
            }

            fn generation(&self) -> u64 {
                self.generation
            }

            fn values(&self) -> Vec<$crate::field::value::Value> {
                use $crate::field::Field;
                vec![
                    $( <$type>::shown(&self.$name), )*
                    $( $( <$line_type>::shown(&self.$line_name), )* )*
                    $( $( <Counter>::shown(&self.$share_name), )* )?
                ]
            }

            fn since(&self, earlier: &Self) -> Self {
                use $crate::field::Field;
                Self {
                    $index: self.$index,
                    generation: self.generation,
                    $( $name: <$type>::since(&self.$name, &earlier.$name), )*
                    $( $( $line_name:
                        <$line_type>::since(&self.$line_name, &earlier.$line_name), )* )*
                    $( $( $share_name:
                        <Counter>::since(&self.$share_name, &earlier.$share_name), )* )?
                }
            }
        }
    };
}

macro_rules! snapshot_type {
    (Counter) => { u64 };
    (Gauge) => { u64 };
    (Peak) => { u64 };
    (Number) => { u32 };
    (LargeNumber) => { u64 };
    (Flag) => { bool };
    (Descriptor) => { i32 };
    (Endpoint) => { Option<std::net::SocketAddr> };
    (Text16) => { String };
    (Text64) => { String };
    (Text128) => { String };
    (Text192) => { String };
    (Text256) => { String };
    (Remark120) => { String };
    (ReasonCounters) => { $crate::field::reasons::ReasonCounts };
    (Histogram) => { $crate::field::histogram::Distribution };
}

pub(super) use {entry, snapshot_type};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_generation_is_odd_while_in_use() {
        let head = Head::default();
        let generation = || head.generation.load(Ordering::Relaxed);
        assert_eq!(generation(), 0);
        head.open();
        assert_eq!(generation(), 1);
        head.close();
        assert_eq!(generation(), 2);
    }
}
