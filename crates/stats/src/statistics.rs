//! All of a process's statistics at one moment, and what changes between two.

use crate::error::ReadError;
use crate::field::value::Value;
use crate::reader::Reader;
use crate::schema::{Row, SocketSnapshot};
use crate::sections::{SECTIONS, SectionInfo, SectionKind, with_sections};

macro_rules! statistics {
    ($( $kind:ident = $number:literal, $name:ident: $stats:ident => $snapshot:ident,
        $mode:ident $( by $claim:ident -> $slot:ident )?,
        $entries:expr, $told:expr, $order:expr, $help:literal; )*) => {
        /// All of a process's statistics at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(default))]
        pub struct Statistics {
            $( #[doc = $help] pub $name: Vec<crate::schema::$snapshot>, )*
        }

        impl Statistics {
            /// Reads every section.
            pub fn read(reader: &Reader) -> Result<Self, ReadError> {
                Ok(Self { $( $name: reader.$name()?, )* })
            }

            /// The increase of every counter since `earlier`; what did not exist then counts from
            /// zero. All else, and sections whose counters are at rest, as they are now.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $( $name: match SectionKind::$kind {
                    SectionKind::ClosedSockets => self.$name.clone(),
                    _ => since(&self.$name, &earlier.$name),
                }, )* }
            }

            /// Writes the sections that are wanted into a map, each under its name.
            ///
            /// # Errors
            /// Those of the map.
            #[cfg(feature = "serde")]
            pub fn serialize_into<M: serde::ser::SerializeMap>(
                &self,
                map: &mut M,
                wanted: impl Fn(SectionKind) -> bool,
            ) -> Result<(), M::Error> {
                $( if wanted(SectionKind::$kind) {
                    map.serialize_entry(stringify!($name), &self.$name)?;
                } )*
                Ok(())
            }

            /// Whether a section is as it was then.
            pub fn is_unchanged(&self, kind: SectionKind, earlier: &Self) -> bool {
                match kind {
                    $( SectionKind::$kind => self.$name == earlier.$name, )*
                }
            }

            /// Takes a section from another moment.
            pub fn take_section(&mut self, kind: SectionKind, earlier: &Self) {
                match kind {
                    $( SectionKind::$kind => self.$name.clone_from(&earlier.$name), )*
                }
            }

            /// The values of every entry, section by section: what [`SectionInfo::fields`] lists,
            /// in that order.
            pub fn rows(&self) -> Vec<(&'static SectionInfo, Vec<Vec<Value>>)> {
                let values = [ $( self.$name.iter().map(Row::values).collect::<Vec<_>>(), )* ];
                SECTIONS.iter().zip(values).collect()
            }
        }
    };
}

with_sections!(statistics);

impl Statistics {
    /// The sockets that were closed since `earlier`, with what they have counted since then. Some
    /// are missing where more were closed than are kept.
    pub fn closed_since(&self, earlier: &Self) -> Vec<SocketSnapshot> {
        let known = earlier.closed_sockets.iter().map(|it| it.closed).max();
        let new = self
            .closed_sockets
            .iter()
            .filter(|it| Some(it.closed) > known);
        let change = |socket: &SocketSnapshot| {
            let same = |it: &&SocketSnapshot| it.inode != 0 && it.inode == socket.inode;
            match earlier.sockets.iter().find(same) {
                Some(before) => socket.since(before),
                None => socket.clone(),
            }
        };
        new.map(change).collect()
    }
}

/// Pairs entries by place and generation. A new user of a place is not compared with the old one.
fn since<S: Row>(current: &[S], earlier: &[S]) -> Vec<S> {
    let key = |entry: &S| (entry.place(), entry.generation());
    let earlier: std::collections::HashMap<_, _> =
        earlier.iter().map(|entry| (key(entry), entry)).collect();
    let change = |entry: &S| match earlier.get(&key(entry)) {
        Some(before) => entry.since(before),
        None => entry.clone(),
    };
    current.iter().map(change).collect()
}
