//! A small BPF assembler: one method per kind of instruction, labels for forward jumps.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::insn::{
    Alu, Condition, Helper, Instruction, PSEUDO_FUNCTION, PSEUDO_MAP_FD, Register, Width, opcode,
};

/// Collects the instructions of one program in order.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// Jumps to complete: the index of the instruction, and where it goes.
    jumps: Vec<(usize, Label)>,
    /// The index of the instruction at each label, once placed.
    labels: Vec<Option<usize>>,
}

/// A place in the program that jumps can name before it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// The second operand of an operation or comparison.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(Register),
    /// Extended with its sign to 64 bits.
    Immediate(i32),
}

/// A jump that has no target, or one that is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadJump {
    instruction: usize,
}

impl Assembler {
    /// A new label, to be put somewhere with [`place`](Self::place).
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts `label` in front of the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `destination = operand`
    pub(super) fn mov(&mut self, destination: Register, operand: impl Into<Operand>) {
        self.alu(Alu::Move, destination, operand);
    }

    /// `destination += operand`
    pub(super) fn add(&mut self, destination: Register, operand: impl Into<Operand>) {
        self.alu(Alu::Add, destination, operand);
    }

    /// `destination -= operand`
    pub(super) fn sub(&mut self, destination: Register, operand: impl Into<Operand>) {
        self.alu(Alu::Subtract, destination, operand);
    }

    /// `destination *= operand`
    pub(super) fn multiply(&mut self, destination: Register, operand: impl Into<Operand>) {
        self.alu(Alu::Multiply, destination, operand);
    }

    /// `destination |= operand`
    pub(super) fn or(&mut self, destination: Register, operand: impl Into<Operand>) {
        self.alu(Alu::Or, destination, operand);
    }

    /// `destination <<= operand`
    pub(super) fn shift_left(&mut self, destination: Register, operand: impl Into<Operand>) {
        self.alu(Alu::ShiftLeft, destination, operand);
    }

    /// `destination >>= operand`, with zeros from above
    pub(super) fn shift_right(&mut self, destination: Register, operand: impl Into<Operand>) {
        self.alu(Alu::ShiftRight, destination, operand);
    }

    /// Converts the low 16 bits between big-endian and the machine's order and clears the others.
    pub(super) fn be16(&mut self, register: Register) {
        self.push(opcode::TO_BIG_ENDIAN, register, Register::R0, 0, 16);
    }

    /// `destination = *(width *)(base + offset)`
    pub(super) fn load(
        &mut self,
        destination: Register,
        width: Width,
        base: Register,
        offset: i16,
    ) {
        self.push(opcode::LOAD | width as u8, destination, base, offset, 0);
    }

    /// `*(width *)(base + offset) = operand`
    pub(super) fn store(
        &mut self,
        width: Width,
        base: Register,
        offset: i16,
        operand: impl Into<Operand>,
    ) {
        match operand.into() {
            Operand::Register(source) => {
                self.push(
                    opcode::STORE_REGISTER | width as u8,
                    base,
                    source,
                    offset,
                    0,
                );
            }
            Operand::Immediate(value) => {
                let opcode = opcode::STORE_IMMEDIATE | width as u8;
                self.push(opcode, base, Register::R0, offset, value);
            }
        }
    }

    /// `destination = map`. The kernel takes a reference when it loads the program.
    pub(super) fn load_map(&mut self, destination: Register, map: BorrowedFd<'_>) {
        let opcode = opcode::LOAD_64_BIT_IMMEDIATE;
        self.push(opcode, destination, PSEUDO_MAP_FD, 0, map.as_raw_fd());
        // The instruction is two slots long; the second one has the upper half of the immediate.
        self.push(0, Register::R0, Register::R0, 0, 0);
    }

    /// `if left condition right goto target`
    pub(super) fn jump_if(
        &mut self,
        left: Register,
        condition: Condition,
        right: impl Into<Operand>,
        target: Label,
    ) {
        self.jumps.push((self.instructions.len(), target));
        self.with_operand(opcode::JUMP | condition as u8, left, right);
    }

    /// `r0 = helper(r1, r2, ...)`
    pub(super) fn call(&mut self, helper: Helper) {
        self.push(opcode::CALL, Register::R0, Register::R0, 0, helper as i32);
    }

    /// `r0 = function(r1, r2, ...)`, a kernel function by the number of its type.
    pub(super) fn call_function(&mut self, number: u32) {
        let number = number.cast_signed();
        self.push(opcode::CALL, Register::R0, PSEUDO_FUNCTION, 0, number);
    }

    /// `return r0`
    pub(super) fn exit(&mut self) {
        self.push(opcode::EXIT, Register::R0, Register::R0, 0, 0);
    }

    /// The finished program.
    pub(super) fn finish(mut self) -> Result<Vec<Instruction>, BadJump> {
        for (instruction, Label(label)) in self.jumps {
            // An offset of zero is the next instruction; the kernel wants no jumps backwards from
            // us.
            let offset = self.labels[label]
                .and_then(|target| target.checked_sub(instruction + 1))
                .and_then(|distance| i16::try_from(distance).ok())
                .ok_or(BadJump { instruction })?;
            self.instructions[instruction].offset = offset;
        }
        Ok(self.instructions)
    }

    fn alu(&mut self, operation: Alu, destination: Register, operand: impl Into<Operand>) {
        self.with_operand(opcode::ALU_64_BIT | operation as u8, destination, operand);
    }

    fn with_operand(&mut self, opcode: u8, destination: Register, operand: impl Into<Operand>) {
        match operand.into() {
            Operand::Register(source) => {
                self.push(opcode | opcode::REGISTER_OPERAND, destination, source, 0, 0);
            }
            Operand::Immediate(value) => self.push(opcode, destination, Register::R0, 0, value),
        }
    }

    fn push(&mut self, opcode: u8, dst: Register, src: Register, offset: i16, immediate: i32) {
        self.instructions
            .push(Instruction::new(opcode, dst, src, offset, immediate));
    }
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Self {
        Self::Immediate(value)
    }
}

impl fmt::Display for BadJump {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the jump at instruction {} leads nowhere",
            self.instruction
        )
    }
}

impl std::error::Error for BadJump {}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::bpf::insn::Register::{R0, R1, R2, R6, R7, R10};

    /// The program's bytes, in little-endian order whatever the machine's.
    fn bytes(assembler: Assembler) -> Vec<[u8; 8]> {
        let instructions = assembler.finish().unwrap();
        let encode = |one: &Instruction| {
            let [o0, o1] = one.offset.to_le_bytes();
            let [i0, i1, i2, i3] = one.immediate.to_le_bytes();
            [one.opcode, one.registers, o0, o1, i0, i1, i2, i3]
        };
        instructions.iter().map(encode).collect()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_clang_does() {
        let mut a = Assembler::default();
        a.mov(R6, R1);
        a.mov(R0, 2);
        a.add(R1, 42);
        a.add(R1, R2);
        a.sub(R1, 20);
        a.or(R1, R2);
        a.shift_left(R1, 48);
        a.be16(R1);
        a.load(R7, Width::U32, R6, 4);
        a.load(R1, Width::U16, R7, 12);
        a.load(R1, Width::U8, R7, 23);
        a.store(Width::U32, R10, -8, R1);
        a.store(Width::U16, R10, -4, R1);
        a.store(Width::U8, R10, -1, 0);
        a.call(Helper::RedirectMap);
        a.call_function(0x0102);
        a.exit();
        let expected = [
            [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
            [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
            [0x07, 0x01, 0, 0, 42, 0, 0, 0],
            [0x0f, 0x21, 0, 0, 0, 0, 0, 0],
            [0x17, 0x01, 0, 0, 20, 0, 0, 0],
            [0x4f, 0x21, 0, 0, 0, 0, 0, 0],
            [0x67, 0x01, 0, 0, 48, 0, 0, 0],
            [0xdc, 0x01, 0, 0, 16, 0, 0, 0],
            [0x61, 0x67, 4, 0, 0, 0, 0, 0],
            [0x69, 0x71, 12, 0, 0, 0, 0, 0],
            [0x71, 0x71, 23, 0, 0, 0, 0, 0],
            [0x63, 0x1a, 0xf8, 0xff, 0, 0, 0, 0],
            [0x6b, 0x1a, 0xfc, 0xff, 0, 0, 0, 0],
            [0x72, 0x0a, 0xff, 0xff, 0, 0, 0, 0],
            [0x85, 0x00, 0, 0, 51, 0, 0, 0],
            [0x85, 0x20, 0, 0, 2, 1, 0, 0],
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(a), expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn jumps_count_instructions_behind_the_jump() {
        let mut a = Assembler::default();
        let (near, far) = (a.label(), a.label());
        a.jump_if(R1, Condition::Greater, R2, far);
        a.jump_if(R1, Condition::NotEqual, 17, near);
        a.place(near);
        a.jump_if(R1, Condition::AnyBitOf, 0xff3f, far);
        a.jump_if(R0, Condition::Equal, 0, far);
        a.jump_if(R1, Condition::Less, R2, far);
        a.place(far);
        a.exit();
        let expected = [
            [0x2d, 0x21, 4, 0, 0, 0, 0, 0],
            [0x55, 0x01, 0, 0, 17, 0, 0, 0],
            [0x45, 0x01, 2, 0, 0x3f, 0xff, 0, 0],
            [0x15, 0x00, 1, 0, 0, 0, 0, 0],
            [0xad, 0x21, 0, 0, 0, 0, 0, 0],
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(a), expected);
    }

    #[test]
    fn map_loads_take_two_slots() {
        let stdin = std::io::stdin();
        let mut a = Assembler::default();
        let end = a.label();
        a.jump_if(R0, Condition::Equal, 0, end);
        a.load_map(R1, stdin.as_fd());
        a.place(end);
        a.exit();
        let program = a.finish().unwrap();
        assert_eq!(program.len(), 4);
        assert_eq!(program[0].offset, 2);
        assert_eq!(program[1].immediate, stdin.as_fd().as_raw_fd());
    }

    #[test]
    fn jumps_that_lead_nowhere_are_refused() {
        let mut unplaced = Assembler::default();
        let label = unplaced.label();
        unplaced.jump_if(R0, Condition::Equal, 0, label);
        assert_eq!(unplaced.finish(), Err(BadJump { instruction: 0 }));

        let mut backwards = Assembler::default();
        let label = backwards.label();
        backwards.place(label);
        backwards.exit();
        backwards.jump_if(R0, Condition::Equal, 0, label);
        assert_eq!(backwards.finish(), Err(BadJump { instruction: 1 }));

        let mut too_far = Assembler::default();
        let label = too_far.label();
        too_far.jump_if(R0, Condition::Equal, 0, label);
        (0..40_000).for_each(|_| too_far.mov(R0, 0));
        too_far.place(label);
        assert_eq!(too_far.finish(), Err(BadJump { instruction: 0 }));
    }
}
