//! Decisions out of the fuzzer's bytes.

/// What is left of the bytes. After their end all decisions are zero.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn long(&mut self) -> u32 {
        u32::from(self.short()) | u32::from(self.short()) << 16
    }

    pub fn int(&mut self) -> i32 {
        match self.byte() % 8 {
            0 => i32::MIN,
            1 => i32::MAX,
            2 => -1,
            3 => self.long().cast_signed(),
            _ => i32::from(self.byte()),
        }
    }

    /// A length or a count, mostly a sensible one.
    pub fn len(&mut self) -> usize {
        match self.byte() % 16 {
            0 => usize::MAX,
            1 => 1 << 63,
            2 => isize::MAX.cast_unsigned(),
            3 => 0,
            4 => self.long() as usize,
            5 | 6 => usize::from(self.short()),
            _ => usize::from(self.byte()),
        }
    }

    /// Flags of a receive or send call, mostly few.
    pub fn flags(&mut self) -> i32 {
        match self.byte() % 8 {
            0..=2 => 0,
            3 => libc::MSG_DONTWAIT,
            4 => libc::MSG_PEEK,
            5 => libc::MSG_TRUNC,
            6 => 1 << (self.byte() % 32),
            _ => self.long().cast_signed(),
        }
    }
}
