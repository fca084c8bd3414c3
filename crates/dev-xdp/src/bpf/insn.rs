//! BPF instructions as the kernel takes them: RFC 9669, and kernel `include/uapi/linux/bpf.h`.

/// One instruction (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) opcode: u8,
    /// Two bit fields of four bits: destination and source register, in the machine's order.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

impl Instruction {
    pub(super) const fn new(
        opcode: u8,
        destination: Register,
        source: Register,
        offset: i16,
        immediate: i32,
    ) -> Self {
        let (destination, source) = (destination as u8, source as u8);
        let registers = if cfg!(target_endian = "little") {
            source << 4 | destination
        } else {
            destination << 4 | source
        };
        Self {
            opcode,
            registers,
            offset,
            immediate,
        }
    }
}

/// A register of the BPF machine.
///
/// `R0` holds results, `R1` to `R5` arguments (lost in a call), `R6` to `R9` survive calls, `R10`
/// is the end of the 512-byte stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// How much a load or store moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Width {
    U32 = 0x00,
    U16 = 0x08,
    U8 = 0x10,
    U64 = 0x18,
}

/// A 64-bit operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Alu {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Or = 0x40,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// When a jump is taken. Comparisons are unsigned and of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    /// Bits in common.
    AnyBitOf = 0x40,
    NotEqual = 0x50,
    Less = 0xa0,
}

/// A kernel function that programs may call (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    MapLookupElement = 1,
    MapUpdateElement = 2,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    KtimeGetNs = 5,
    RedirectMap = 51,
    XdpAdjustMeta = 54,
    SocketLookupTcp = 84,
    SocketRelease = 86,
    /// Linux 5.5.
    ProbeReadKernel = 113,
    /// Linux 5.18.
    XdpBufferLength = 188,
}

/// Instruction classes, modes and operations, as they are combined into opcodes.
pub(super) mod opcode {
    pub(crate) const LOAD_64_BIT_IMMEDIATE: u8 = 0x18;
    pub(crate) const LOAD: u8 = 0x61;
    pub(crate) const STORE_IMMEDIATE: u8 = 0x62;
    pub(crate) const STORE_REGISTER: u8 = 0x63;
    pub(crate) const ALU_64_BIT: u8 = 0x07;
    pub(crate) const JUMP: u8 = 0x05;
    pub(crate) const CALL: u8 = 0x85;
    pub(crate) const EXIT: u8 = 0x95;
    pub(crate) const TO_BIG_ENDIAN: u8 = 0xdc;
    /// The second operand is a register, not the immediate.
    pub(crate) const REGISTER_OPERAND: u8 = 0x08;
}

/// Source register of a call: the immediate is the number of a kernel function's type.
pub(super) const PSEUDO_FUNCTION: Register = Register::R2;
/// Source register of a 64-bit immediate load: the immediate is a map's descriptor.
pub(super) const PSEUDO_MAP_FD: Register = Register::R1;
