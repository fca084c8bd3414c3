//! The types of the running kernel (`/sys/kernel/btf/vmlinux`; format: kernel
//! `Documentation/bpf/btf.rst`): where a member of a structure lies, and the number of a kernel
//! function that programs may call.
//!
//! There are some hundred thousand types, and an interface is opened in a program's first call:
//! types are looked at in their order, and only as far as the one that is asked for.

mod source;

use std::io;
use std::ops::Range;

use source::Source;

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
/// `struct btf_type`
const TYPE_BYTES: usize = 12;
/// `struct btf_member`
const MEMBER_BYTES: usize = 12;
/// Structures and unions without a name that are looked through on the way to a member.
const DEPTH_MAX: u32 = 8;

/// The kernel's types.
#[derive(Debug)]
pub(super) struct Btf {
    bytes: Source,
    /// Where each type begins that was looked at so far, by its number less one.
    types: Vec<usize>,
    /// Where the others are.
    rest: Range<usize>,
    strings: Range<usize>,
}

/// The kinds of types that we look for or into (`enum` in `include/uapi/linux/btf.h`).
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
}

/// A type's fixed part.
#[derive(Clone, Copy, Debug)]
struct Type {
    at: usize,
    name: u32,
    kind: u32,
    /// Members, parameters or values behind the fixed part.
    count: usize,
    /// Members have bit fields: the offset's upper byte is a size.
    bit_fields: bool,
}

impl Btf {
    /// Those of the running kernel.
    pub(super) fn of_kernel() -> io::Result<Self> {
        Self::parse(Source::of_kernel()?)
            .ok_or_else(|| io::Error::other("/sys/kernel/btf/vmlinux is not as expected"))
    }

    /// `None`: the bytes are not in the format.
    fn parse(bytes: Source) -> Option<Self> {
        if read_u16(&bytes, 0)? != MAGIC || *bytes.get(2)? != 1 {
            return None;
        }
        let at = |offset| Some(read_u32(&bytes, offset)? as usize);
        let header = at(4)?;
        if header < HEADER_BYTES {
            return None;
        }
        let section = |offset, len| {
            let start = header.checked_add(at(offset)?)?;
            let end = start.checked_add(at(len)?)?;
            (end <= bytes.len()).then_some(start..end)
        };
        let (rest, strings) = (section(8, 12)?, section(16, 20)?);
        Some(Self {
            bytes,
            types: Vec::new(),
            rest,
            strings,
        })
    }

    /// Where a member of a structure lies, in bytes. Members of unnamed structures and unions in it
    /// count as its own.
    pub(super) fn offset_of(&mut self, structure: &str, member: &str) -> Option<u32> {
        let bits = self.bit_offset_of(structure, member)?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// The same in bits, for members that begin within an octet.
    pub(super) fn bit_offset_of(&mut self, structure: &str, member: &str) -> Option<u32> {
        let found = self.find(kind::STRUCT, structure)?;
        let structure = self.type_at(found)?;
        self.member_bits(structure, member, DEPTH_MAX)
    }

    /// The number of a structure.
    pub(super) fn structure(&mut self, name: &str) -> Option<u32> {
        u32::try_from(self.find(kind::STRUCT, name)?).ok()
    }

    /// The number of a function.
    pub(super) fn function(&mut self, name: &str) -> Option<u32> {
        u32::try_from(self.find(kind::FUNC, name)?).ok()
    }

    /// The number of the type of this kind and name.
    fn find(&mut self, kind: u32, name: &str) -> Option<usize> {
        let mut number = 1;
        loop {
            let found = self.type_at(number)?;
            if found.kind == kind && self.name_is(found.name, name) {
                return Some(number);
            }
            number += 1;
        }
    }

    fn type_at(&mut self, number: usize) -> Option<Type> {
        let index = number.checked_sub(1)?;
        while self.types.len() <= index {
            self.look_at_next()?;
        }
        read_type(&self.bytes, self.types[index])
    }

    /// `None`: there are no more, or none that we know how long they are.
    fn look_at_next(&mut self) -> Option<()> {
        let at = self.rest.start;
        if self.rest.is_empty() {
            return None;
        }
        let found = read_type(&self.bytes, at)?;
        let end = at.checked_add(TYPE_BYTES)?.checked_add(tail(&found)?)?;
        self.rest.start = end;
        self.types.push(at);
        Some(())
    }

    #[cfg(test)]
    pub(super) fn types_looked_at(&self) -> usize {
        self.types.len()
    }

    fn member_bits(&mut self, structure: Type, wanted: &str, depth: u32) -> Option<u32> {
        (0..structure.count).find_map(|index| {
            let at = structure.at + TYPE_BYTES + index * MEMBER_BYTES;
            let (name, number) = (
                read_u32(&self.bytes, at)?,
                read_u32(&self.bytes, at + 4)? as usize,
            );
            let offset = read_u32(&self.bytes, at + 8)?;
            let bits = if structure.bit_fields {
                offset & 0x00ff_ffff
            } else {
                offset
            };
            if self.name_is(name, wanted) {
                return Some(bits);
            }
            let inner = self.type_at(number)?;
            let is_unnamed = name == 0 && matches!(inner.kind, kind::STRUCT | kind::UNION);
            let depth = depth.checked_sub(1).filter(|_| is_unnamed)?;
            bits.checked_add(self.member_bits(inner, wanted, depth)?)
        })
    }

    fn name_is(&self, offset: u32, name: &str) -> bool {
        let all = self.bytes.get(self.strings.clone());
        all.and_then(|all| all.get(offset as usize..))
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn read_type(bytes: &[u8], at: usize) -> Option<Type> {
    let info = read_u32(bytes, at.checked_add(4)?)?;
    // The third word is there, too.
    read_u32(bytes, at.checked_add(8)?)?;
    Some(Type {
        at,
        name: read_u32(bytes, at)?,
        kind: info >> 24 & 0x1f,
        count: (info & 0xffff) as usize,
        bit_fields: info >> 31 != 0,
    })
}

/// Bytes behind the fixed part of a type. `None`: a kind from the future, whose length nobody
/// knows.
fn tail(found: &Type) -> Option<usize> {
    use kind::{ARRAY, DATASEC, DECL_TAG, ENUM, ENUM64, FUNC_PROTO, INT, STRUCT, UNION, VAR};
    Some(match found.kind {
        INT | VAR | DECL_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => found.count * 12,
        ENUM | FUNC_PROTO => found.count * 8,
        kind if kind <= ENUM64 => 0,
        _ => return None,
    })
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|it| u16::from_ne_bytes(*it))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|it| u32::from_ne_bytes(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRINGS: &[u8] = b"\0outer\0plain\0inside\0deep\0call\0int\0";

    fn name(text: &str) -> u32 {
        let with_ends = [b"\0", text.as_bytes(), b"\0"].concat();
        let at = STRINGS
            .windows(with_ends.len())
            .position(|window| window == with_ends)
            .unwrap();
        u32::try_from(at + 1).unwrap()
    }

    fn info(kind: u32, count: u32) -> u32 {
        kind << 24 | count
    }

    /// 1 int; 2 union { int inside }; 3 struct { bits 64.. int deep } with bit fields; 4 struct
    /// outer { plain, 2, 3 }; 5 call.
    fn sample() -> Vec<u8> {
        let types = [
            vec![name("int"), info(kind::INT, 0), 4, 32],
            vec![0, info(kind::UNION, 1), 4, name("inside"), 1, 0],
            vec![
                0,
                info(kind::STRUCT, 1) | 1 << 31,
                4,
                name("deep"),
                1,
                8 << 24 | 64,
            ],
            [
                [name("outer"), info(kind::STRUCT, 3), 40].as_slice(),
                &[name("plain"), 1, 32],
                &[0, 2, 96],
                &[0, 3, 128],
            ]
            .concat(),
            vec![name("call"), info(kind::FUNC, 0), 1],
        ];
        let types: Vec<u8> = types
            .concat()
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, len(&types), len(&types), len(STRINGS)] {
            bytes.extend(word.to_ne_bytes());
        }
        [bytes, types, STRINGS.to_vec()].concat()
    }

    #[test]
    fn members_are_found_through_unnamed_types() {
        let mut btf = Btf::parse(Source::Copied(sample())).unwrap();
        assert_eq!(btf.offset_of("outer", "plain"), Some(4));
        assert_eq!(btf.offset_of("outer", "inside"), Some(12));
        assert_eq!(btf.offset_of("outer", "deep"), Some(24));
        assert_eq!(btf.function("call"), Some(5));
        assert_eq!(btf.function("outer"), None, "no function");
        assert_eq!(btf.structure("outer"), Some(4));
        assert_eq!(btf.structure("call"), None, "no structure");
        assert_eq!(btf.offset_of("outer", "dee"), None, "a prefix");
        assert_eq!(btf.offset_of("oute", "plain"), None);
        assert_eq!(btf.offset_of("call", "plain"), None, "no structure");
    }

    #[test]
    fn damage_is_refused_or_harmless() {
        let whole = sample();
        for len in 0..whole.len() {
            assert!(
                Btf::parse(Source::Copied(whole[..len].to_vec())).is_none(),
                "{len} bytes"
            );
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                if let Some(mut btf) = Btf::parse(Source::Copied(damaged)) {
                    btf.offset_of("outer", "deep");
                    btf.function("call");
                }
            }
        }
        // A structure that contains itself.
        let mut turning = whole;
        let member = 24 + 4 * (4 + 6 + 6 + 3 + 3) + 4;
        turning[member..member + 4].copy_from_slice(&4_u32.to_ne_bytes());
        assert_eq!(
            Btf::parse(Source::Copied(turning))
                .unwrap()
                .offset_of("outer", "nothing"),
            None
        );
    }

    #[test]
    fn this_kernels_types_have_what_the_program_reads() {
        let Ok(mut btf) = Btf::of_kernel() else {
            return;
        };
        let (head, data) = (
            btf.offset_of("sk_buff", "head").unwrap(),
            btf.offset_of("sk_buff", "data").unwrap(),
        );
        assert_eq!(
            data - head,
            8,
            "two pointers beside each other since Linux 2.6.22"
        );
        assert!(btf.offset_of("sk_buff", "vlan_tci").is_some());
        assert_eq!(btf.offset_of("ethhdr", "h_proto"), Some(12));
    }
}
