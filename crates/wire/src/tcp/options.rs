//! TCP options (RFC 9293 §3.2): those of RFC 9293, 7323, 2018 and 7413.

use super::fast_open::{self, FastOpen};

/// The longest option list, in bytes: a data offset of 15 words less the fixed header.
pub const MAX_OPTIONS_LEN: usize = 40;

/// Window scales above this are used as this (RFC 7323 §2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

/// The options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size in octets (RFC 9293 §3.7.1). On SYN only.
    pub mss: Option<u16>,
    /// Window scale as the shift that applies, at most [`MAX_WINDOW_SCALE`] (RFC 7323 §2). On SYN
    /// only.
    pub window_scale: Option<u8>,
    /// SACK-permitted (RFC 2018 §2). On SYN only.
    pub sack_permitted: bool,
    pub timestamps: Option<Timestamps>,
    pub sack: SackBlocks,
    /// Fast Open (RFC 7413 §4.1.1). On SYN only, beside the MSS: without that it is not written.
    pub fast_open: Option<FastOpen>,
}

/// The timestamps option (RFC 7323 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`: the sender's clock.
    pub value: u32,
    /// `TSecr`: the clock of the receiver as the sender last saw it.
    pub echo: u32,
}

/// A range of received octets (RFC 2018 §3): `left` is in it, `right` is the one behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    pub left: u32,
    pub right: u32,
}

/// Up to four SACK blocks, as many as a header has room for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; Self::MAX],
    len: u8,
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: Self = Self {
        blocks: [SackBlock { left: 0, right: 0 }; Self::MAX],
        len: 0,
    };

    /// The most blocks of a segment; three beside timestamps.
    pub const MAX: usize = 4;

    /// Adds a block behind the others; `false` if there is no room.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *slot = block;
        self.len = self.len.wrapping_add(1);
        true
    }

    /// The blocks in the order of the option.
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether there is none, as in nearly every segment.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl FromIterator<SackBlock> for SackBlocks {
    /// Keeps the first [`SackBlocks::MAX`].
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> Self {
        let mut list = Self::default();
        for block in blocks.into_iter().take(Self::MAX) {
            list.push(block);
        }
        list
    }
}

impl Options {
    /// Reads the option list of a segment; `is_syn` says whether its SYN flag is set.
    ///
    /// As Linux does (`tcp_parse_options`), options that are unknown, of a wrong length or not
    /// allowed in the segment are skipped, and a list that runs over its end is read up to there: a
    /// segment is not refused for its options (RFC 9293 MUST-7).
    #[inline]
    pub fn parse(list: &[u8], is_syn: bool) -> Self {
        // RFC 7323 appendix A: the layout that nearly every segment of an established connection
        // has.
        if let &[
            NOP,
            NOP,
            TIMESTAMPS,
            TIMESTAMPS_LEN,
            v0,
            v1,
            v2,
            v3,
            e0,
            e1,
            e2,
            e3,
        ] = list
        {
            return Self {
                timestamps: Some(Timestamps {
                    value: u32::from_be_bytes([v0, v1, v2, v3]),
                    echo: u32::from_be_bytes([e0, e1, e2, e3]),
                }),
                ..Self::default()
            };
        }
        Self::parse_any(list, is_syn)
    }

    fn parse_any(mut list: &[u8], is_syn: bool) -> Self {
        let mut options = Self::default();
        while let [kind, rest @ ..] = list {
            match *kind {
                END => break,
                NOP => list = rest,
                kind => {
                    // The length counts the kind and itself.
                    let Some((&len, rest)) = rest.split_first() else {
                        break;
                    };
                    let Some(data_len) = usize::from(len).checked_sub(2) else {
                        break;
                    };
                    let Some((data, rest)) = rest.split_at_checked(data_len) else {
                        break;
                    };
                    options.take(kind, data, is_syn);
                    list = rest;
                }
            }
        }
        options
    }

    fn take(&mut self, kind: u8, data: &[u8], is_syn: bool) {
        match (kind, data) {
            (MSS, &[high, low]) if is_syn => match u16::from_be_bytes([high, low]) {
                0 => {}
                mss => self.mss = Some(mss),
            },
            // RFC 7323 §2.3: "If a Window Scale option is received with a shift.cnt value larger
            // than 14, the TCP [...] MUST use 14 instead of the specified value."
            (WINDOW_SCALE, &[shift]) if is_syn => {
                self.window_scale = Some(shift.min(MAX_WINDOW_SCALE));
            }
            (SACK_PERMITTED, []) if is_syn => self.sack_permitted = true,
            (TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
                self.timestamps = Some(Timestamps {
                    value: u32::from_be_bytes([v0, v1, v2, v3]),
                    echo: u32::from_be_bytes([e0, e1, e2, e3]),
                });
            }
            (SACK, data) => {
                let (blocks, rest) = data.as_chunks::<SACK_BLOCK_LEN>();
                if rest.is_empty() {
                    self.sack = blocks
                        .iter()
                        .map(|&[l0, l1, l2, l3, r0, r1, r2, r3]| SackBlock {
                            left: u32::from_be_bytes([l0, l1, l2, l3]),
                            right: u32::from_be_bytes([r0, r1, r2, r3]),
                        })
                        .collect();
                }
            }
            (fast_open::FAST_OPEN, cookie) if is_syn => {
                self.fast_open = FastOpen::parse(self.fast_open, cookie, false);
            }
            (fast_open::EXPERIMENT, data) if is_syn => {
                if let Some(cookie) = data.strip_prefix(&fast_open::MAGIC) {
                    self.fast_open = FastOpen::parse(self.fast_open, cookie, true);
                }
            }
            _ => {}
        }
    }

    /// Writes the list to the start of `target`; returns its length, a multiple of four, in bytes.
    ///
    /// The order is that of Linux (`tcp_options_write`). SACK blocks for which a header has no room
    /// are left out, the last ones first.
    #[inline]
    pub fn emit(&self, target: &mut [u8; MAX_OPTIONS_LEN]) -> usize {
        let is_data_layout = self.mss.is_none()
            && self.window_scale.is_none()
            && !self.sack_permitted
            && self.sack.is_empty();
        match self.timestamps {
            None if is_data_layout => 0,
            Some(timestamps) if is_data_layout => {
                let [v0, v1, v2, v3] = timestamps.value.to_be_bytes();
                let [e0, e1, e2, e3] = timestamps.echo.to_be_bytes();
                let list = [
                    NOP,
                    NOP,
                    TIMESTAMPS,
                    TIMESTAMPS_LEN,
                    v0,
                    v1,
                    v2,
                    v3,
                    e0,
                    e1,
                    e2,
                    e3,
                ];
                if let Some(start) = target.first_chunk_mut() {
                    *start = list;
                }
                list.len()
            }
            _ => self.emit_any(target),
        }
    }

    fn emit_any(&self, target: &mut [u8; MAX_OPTIONS_LEN]) -> usize {
        let mut writer = Writer { target, len: 0 };
        if let Some(mss) = self.mss {
            writer.put(&[MSS, 4]);
            writer.put(&mss.to_be_bytes());
        }
        if let Some(timestamps) = self.timestamps {
            // SACK-permitted takes the place of the padding.
            writer.put(if self.sack_permitted {
                &[SACK_PERMITTED, 2]
            } else {
                &[NOP, NOP]
            });
            writer.put(&[TIMESTAMPS, TIMESTAMPS_LEN]);
            writer.put(&timestamps.value.to_be_bytes());
            writer.put(&timestamps.echo.to_be_bytes());
        } else if self.sack_permitted {
            writer.put(&[NOP, NOP, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale {
            writer.put(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        let room = writer.room().saturating_sub(4) / SACK_BLOCK_LEN;
        let blocks = self.sack.as_slice();
        let blocks = blocks.get(..room).unwrap_or(blocks);
        if let Ok(len @ 1..) = u8::try_from(blocks.len()) {
            let len = len.wrapping_mul(8).wrapping_add(2);
            writer.put(&[NOP, NOP, SACK, len]);
            for block in blocks {
                writer.put(&block.left.to_be_bytes());
                writer.put(&block.right.to_be_bytes());
            }
        }
        if let Some(fast_open) = &self.fast_open {
            fast_open.emit(&mut writer);
        }
        writer.len
    }
}

pub(super) struct Writer<'a> {
    target: &'a mut [u8; MAX_OPTIONS_LEN],
    len: usize,
}

impl Writer<'_> {
    /// The largest list of a SYN, with Fast Open, is 40 bytes; SACK blocks are counted before: all
    /// of it fits.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        let end = self.len.wrapping_add(bytes.len());
        if let Some(target) = self.target.get_mut(self.len..end) {
            target.copy_from_slice(bytes);
            self.len = end;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    const fn room(&self) -> usize {
        MAX_OPTIONS_LEN.saturating_sub(self.len)
    }
}

const END: u8 = 0;
pub(super) const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const TIMESTAMPS_LEN: u8 = 10;
const SACK_BLOCK_LEN: usize = 8;

#[cfg(test)]
mod tests;
