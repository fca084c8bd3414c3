//! What an entry's table becomes.

/// Makes an entry of its table: name, type, unit and meaning of every field. The first group shares
/// a cache line with the entry's generation, every further group starts a line of its own. A group
/// after `+` has [`SHARES`](crate::SHARES) lines, which readers add up.
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
            head: $crate::schema::Head,
            $( #[doc = $help] pub $name: $type, )*
            $( $line: $crate::schema::LineStart, $( #[doc = $line_help] pub $line_name: $line_type, )* )*
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

            const _: () = assert!(size_of::<$share>() == $crate::layout::CACHE_LINE_BYTES);
            const _: () = assert!(
                std::mem::offset_of!($stats, $shares).is_multiple_of($crate::layout::CACHE_LINE_BYTES)
            );
        )?

        impl $stats {
            /// Every field in the order of the file.
            pub const FIELDS: &'static [$crate::schema::FieldInfo] = &[
                $( $crate::schema::FieldInfo {
                    name: stringify!($name),
                    kind: <$type as $crate::field::Field>::KIND,
                    type_name: stringify!($type),
                    unit: $unit,
                    help: $help,
                    offset: std::mem::offset_of!(Self, $name),
                }, )*
                $( $( $crate::schema::FieldInfo {
                    name: stringify!($line_name),
                    kind: <$line_type as $crate::field::Field>::KIND,
                    type_name: stringify!($line_type),
                    unit: $line_unit,
                    help: $line_help,
                    offset: std::mem::offset_of!(Self, $line_name),
                }, )* )*
                $( $( $crate::schema::FieldInfo {
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
        const _: () = assert!(align_of::<$stats>() == $crate::layout::CACHE_LINE_BYTES);
        const _: () = assert!(size_of::<$stats>() % $crate::layout::CACHE_LINE_BYTES == 0);
        $( const _: () = assert!(
            std::mem::offset_of!($stats, $line) % $crate::layout::CACHE_LINE_BYTES == 0
        ); )*

        impl $crate::schema::Entry for $stats {
            type Snapshot = $snapshot;

            fn head(&self) -> &$crate::schema::Head {
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
                    $( $( $share_name: $crate::schema::sum_of_shares(
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

        impl $crate::schema::Row for $snapshot {
            const FIELDS: &'static [$crate::schema::FieldInfo] = $stats::FIELDS;

            fn place(&self) -> u32 {
                self.$index
            }

            fn generation(&self) -> u64 {
                self.generation
            }

            fn values(&self) -> Vec<$crate::field::Value> {
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
    (ReasonCounters) => { $crate::field::ReasonCounts };
    (Histogram) => { $crate::field::Distribution };
}

pub(super) use {entry, snapshot_type};
