//! What a NIC gives to a queue pair the kernel does not see. A packet socket sees frames before the
//! ingress hook of an interface does: there a program drops those that a rule is about.

use std::io;

use crate::bpf::{self, Insn};
use crate::sys;

/// Rules that a device takes.
const CAPACITY: u32 = 16_384;

/// Whose packets a rule is about: addresses, of IPv4 in the first four octets, ports and numbers as
/// on the wire. A rule for every peer has zeroes for it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) destination: [u8; 16],
    pub(crate) source: [u8; 16],
    pub(crate) destination_port: [u8; 2],
    pub(crate) source_port: [u8; 2],
    pub(crate) protocol: u8,
    /// 4 or 6
    pub(crate) version: u8,
    /// The number in the tag, or zeroes.
    pub(crate) vlan: [u8; 2],
}

const KEY_BYTES: usize = size_of::<Key>();
const _: () = assert!(KEY_BYTES == 40);

impl Key {
    /// Of a whole packet, not of a fragment. Its tag is not in the frame.
    pub(crate) fn of_frame(frame: &[u8], vlan: u16) -> Option<Self> {
        let mut key = Self {
            vlan: vlan.to_ne_bytes(),
            ..Self::default()
        };
        let packet = frame.get(14..)?;
        let ports = match frame.get(12..14)? {
            [0x08, 0x00] => {
                if packet.len() < 20 || packet[6] & 0x3f != 0 || packet[7] != 0 {
                    return None;
                }
                (key.version, key.protocol) = (4, packet[9]);
                key.source[..4].copy_from_slice(&packet[12..16]);
                key.destination[..4].copy_from_slice(&packet[16..20]);
                packet.get(usize::from(packet[0] & 15) * 4..)?
            }
            [0x86, 0xdd] => {
                (key.version, key.protocol) = (6, *packet.get(6)?);
                key.source.copy_from_slice(packet.get(8..24)?);
                key.destination.copy_from_slice(packet.get(24..40)?);
                packet.get(40..)?
            }
            _ => return None,
        };
        key.source_port = *ports.first_chunk()?;
        key.destination_port = *ports.get(2..)?.first_chunk()?;
        Some(key)
    }

    /// The rule for every peer that covers it.
    pub(crate) fn of_port(self) -> Self {
        Self {
            source: [0; 16],
            source_port: [0; 2],
            ..self
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: it has no padding but what is a field.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), KEY_BYTES) }
    }
}

/// The dropping of an interface's frames.
#[derive(Debug)]
pub(crate) struct Steal {
    map: i32,
    link: i32,
}

impl Steal {
    pub(crate) fn begin(ifindex: u32) -> io::Result<Self> {
        let map = bpf::create_map(KEY_BYTES, CAPACITY)?;
        let link = bpf::attach(&program(map), ifindex)?;
        Ok(Self { map, link })
    }

    pub(crate) fn add(&self, key: &Key) -> io::Result<()> {
        bpf::insert(self.map, key.bytes())
    }

    pub(crate) fn remove(&self, key: &Key) {
        bpf::remove(self.map, key.bytes());
    }

    /// In a forked child: it would go on after the parent's end.
    pub(crate) fn descriptors(&self) -> [i32; 2] {
        [self.map, self.link]
    }
}

impl Drop for Steal {
    fn drop(&mut self) {
        self.descriptors().into_iter().for_each(sys::close);
    }
}

const KEY_AT: i16 = -40;
const SOURCE_AT: i16 = KEY_AT + 16;
const PORTS_AT: i16 = KEY_AT + 32;
const PROTOCOL_AT: i16 = KEY_AT + 36;
const VERSION_AT: i16 = KEY_AT + 37;
const VLAN_AT: i16 = KEY_AT + 38;
const HEADER_AT: i16 = -80;
/// `__sk_buff.vlan_present` and `vlan_tci`
const VLAN_PRESENT: i16 = 20;
const VLAN_TCI: i16 = 24;

const W: u8 = 0;
const H: u8 = 0x08;
const B: u8 = 0x10;
const DW: u8 = 0x18;

fn load(size: u8, to: u8, from: u8, offset: i16) -> Insn {
    insn(0x61 | size, to, from, offset, 0)
}

fn store(size: u8, offset: i16, from: u8) -> Insn {
    insn(0x63 | size, 10, from, offset, 0)
}

fn store_value(size: u8, offset: i16, value: i32) -> Insn {
    insn(0x62 | size, 10, 0, offset, value)
}

fn insn(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Insn {
    Insn {
        code,
        registers: from << 4 | to,
        offset,
        value,
    }
}

/// A jump to one of the ends, which are put in when the length is known.
const TO_PASS: i16 = i16::MAX;
const TO_DROP: i16 = i16::MAX - 1;
const JNE: u8 = 0x55;
const JEQ: u8 = 0x15;

/// `skb_load_bytes(skb, r2, header, len)`, or passes.
fn load_bytes(len: i32) -> [Insn; 6] {
    [
        insn(0xbf, 1, 6, 0, 0),
        insn(0xbf, 3, 10, 0, 0),
        insn(0x07, 3, 0, 0, i32::from(HEADER_AT)),
        insn(0xb7, 4, 0, 0, len),
        insn(0x85, 0, 0, 0, 26),
        insn(JNE, 0, 0, TO_PASS, 0),
    ]
}

/// Drops what is in the map.
fn look_up(map: i32) -> [Insn; 6] {
    [
        insn(0x18, 1, 1, 0, map),
        insn(0, 0, 0, 0, 0),
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, i32::from(KEY_AT)),
        insn(0x85, 0, 0, 0, 1),
        insn(JNE, 0, 0, TO_DROP, 0),
    ]
}

fn copy(words: i16, from: i16, to: i16) -> impl Iterator<Item = Insn> {
    (0..words).flat_map(move |word| [load(W, 1, 10, from + 4 * word), store(W, to + 4 * word, 1)])
}

fn program(map: i32) -> Vec<Insn> {
    let v4 = |program: &mut Vec<Insn>| {
        program.push(insn(0xb7, 2, 0, 0, 14));
        program.extend(load_bytes(20));
        program.extend([
            load(H, 1, 10, HEADER_AT + 6),
            // More fragments, or an offset.
            insn(0x57, 1, 0, 0, i32::from(0x3fff_u16.to_be())),
            insn(JNE, 1, 0, TO_PASS, 0),
            load(B, 1, 10, HEADER_AT + 9),
            store(B, PROTOCOL_AT, 1),
            store_value(B, VERSION_AT, 4),
        ]);
        program.extend(copy(1, HEADER_AT + 12, SOURCE_AT));
        program.extend(copy(1, HEADER_AT + 16, KEY_AT));
        program.extend([
            load(B, 8, 10, HEADER_AT),
            insn(0x57, 8, 0, 0, 15),
            insn(0x67, 8, 0, 0, 2),
            insn(0x07, 8, 0, 0, 14),
        ]);
    };
    let v6 = |program: &mut Vec<Insn>| {
        program.push(insn(0xb7, 2, 0, 0, 14));
        program.extend(load_bytes(40));
        program.extend([
            load(B, 1, 10, HEADER_AT + 6),
            store(B, PROTOCOL_AT, 1),
            store_value(B, VERSION_AT, 6),
        ]);
        program.extend(copy(4, HEADER_AT + 8, SOURCE_AT));
        program.extend(copy(4, HEADER_AT + 24, KEY_AT));
        program.push(insn(0xb7, 8, 0, 0, 54));
    };
    let (mut of_v4, mut of_v6) = (Vec::new(), Vec::new());
    v4(&mut of_v4);
    v6(&mut of_v6);
    let mut program = vec![insn(0xbf, 6, 1, 0, 0)];
    program.extend((0..5).map(|word| store_value(DW, KEY_AT + 8 * word, 0)));
    program.extend([
        load(W, 0, 6, VLAN_PRESENT),
        insn(JEQ, 0, 0, 3, 0),
        load(W, 0, 6, VLAN_TCI),
        insn(0x57, 0, 0, 0, 0x0fff),
        store(H, VLAN_AT, 0),
    ]);
    program.push(insn(0xb7, 2, 0, 0, 12));
    program.extend(load_bytes(2));
    program.push(load(H, 7, 10, HEADER_AT));
    let v4_type = i32::from(0x0800_u16.to_be());
    let v6_type = i32::from(0x86dd_u16.to_be());
    // The code of IPv4 ends with a jump over that of IPv6.
    program.push(insn(JNE, 7, 0, of_v4.len() as i16 + 1, v4_type));
    program.extend(of_v4);
    program.push(insn(0x05, 0, 0, of_v6.len() as i16 + 1, 0));
    program.push(insn(JNE, 7, 0, TO_PASS, v6_type));
    program.extend(of_v6);
    program.push(insn(0xbf, 2, 8, 0, 0));
    program.extend(load_bytes(4));
    program.extend([
        load(H, 1, 10, HEADER_AT),
        store(H, PORTS_AT + 2, 1),
        load(H, 1, 10, HEADER_AT + 2),
        store(H, PORTS_AT, 1),
    ]);
    program.extend(look_up(map));
    program.extend([
        store_value(DW, SOURCE_AT, 0),
        store_value(DW, SOURCE_AT + 8, 0),
        store_value(H, PORTS_AT + 2, 0),
    ]);
    program.extend(look_up(map));
    let pass = program.len();
    // TCX_NEXT, TCX_DROP
    program.extend([insn(0xb7, 0, 0, 0, -1), insn(0x95, 0, 0, 0, 0)]);
    program.extend([insn(0xb7, 0, 0, 0, 2), insn(0x95, 0, 0, 0, 0)]);
    for (place, insn) in program.iter_mut().enumerate() {
        let end = match (insn.code, insn.offset) {
            (JNE | JEQ, TO_PASS) => pass,
            (JNE | JEQ, TO_DROP) => pass + 2,
            _ => continue,
        };
        insn.offset = (end - place - 1) as i16;
    }
    program
}
