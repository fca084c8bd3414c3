//! What a filter of system calls (seccomp(2)) says of a call: its program, run here as the kernel
//! does it (`seccomp_check_filter` and `bpf_prog_run` of the kernel; linux/filter.h,
//! linux/seccomp.h).

/// An instruction: `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) k: u32,
}

/// A call as the kernel shows it to a filter: `struct seccomp_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: u32,
    /// Where it is made.
    pub(crate) instruction_pointer: u64,
    pub(crate) arguments: [u64; 6],
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// It is made.
    Allowed,
    /// It fails, or another process decides.
    Refused,
    /// It ends the thread or the process, or is a signal.
    Deadly,
}

/// `AUDIT_ARCH_X86_64` of linux/audit.h, and that of AArch64.
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else {
    0xc000_00b7
};
/// Words of `struct seccomp_data`.
const DATA_WORDS: usize = 16;
/// `BPF_MEMWORDS`
const MEMORY_WORDS: usize = 16;

impl Call {
    fn words(&self) -> [u32; DATA_WORDS] {
        let mut words = [0; DATA_WORDS];
        words[0] = self.number;
        words[1] = ARCHITECTURE;
        let wide = std::iter::once(self.instruction_pointer).chain(self.arguments);
        for (pair, value) in words[2..].chunks_exact_mut(2).zip(wide) {
            pair[0] = value as u32;
            pair[1] = (value >> 32) as u32;
        }
        words
    }
}

/// What a program says of a call. `None`: the kernel would not take it as a filter.
pub(crate) fn verdict(program: &[Instruction], call: &Call) -> Option<Verdict> {
    run(program, &call.words()).map(meaning)
}

/// Of a value that a filter returns.
fn meaning(value: u32) -> Verdict {
    const ACTION: u32 = 0xffff_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const LOG: u32 = 0x7ffc_0000;
    const TRACE: u32 = 0x7ff0_0000;
    const USER_NOTIFICATION: u32 = 0x7fc0_0000;
    const ERRNO: u32 = 0x0005_0000;
    match value & ACTION {
        ALLOW | LOG => Verdict::Allowed,
        TRACE | USER_NOTIFICATION | ERRNO => Verdict::Refused,
        // To kill the thread or the process, a signal, and what the kernel does not know.
        _ => Verdict::Deadly,
    }
}

/// Runs a program to its end, which comes: jumps lead forwards only.
fn run(program: &[Instruction], data: &[u32; DATA_WORDS]) -> Option<u32> {
    let (mut accumulator, mut index) = (0_u32, 0_u32);
    let mut memory = [0_u32; MEMORY_WORDS];
    let mut at = 0;
    loop {
        let Instruction {
            code,
            if_true,
            if_false,
            k,
        } = *program.get(at)?;
        at += 1;
        let place = memory.get_mut(k as usize);
        match code {
            LOAD_ABSOLUTE => accumulator = load(data, k)?,
            LOAD_LENGTH => accumulator = DATA_BYTES,
            LOAD_INDEX_LENGTH => index = DATA_BYTES,
            LOAD_IMMEDIATE => accumulator = k,
            LOAD_INDEX_IMMEDIATE => index = k,
            LOAD_MEMORY => accumulator = *place?,
            LOAD_INDEX_MEMORY => index = *place?,
            STORE => *place? = accumulator,
            STORE_INDEX => *place? = index,
            ACCUMULATOR_TO_INDEX => index = accumulator,
            INDEX_TO_ACCUMULATOR => accumulator = index,
            RETURN => return Some(k),
            RETURN_ACCUMULATOR => return Some(accumulator),
            JUMP => at = at.checked_add(k as usize)?,
            _ => {
                let other = if code & BY_INDEX != 0 { index } else { k };
                match code & CLASS {
                    // The kernel takes no program that divides by a zero of its own, and ends one
                    // that comes to do so.
                    ARITHMETIC if code & OPERATION == DIVIDE && other == 0 => {
                        return (code & BY_INDEX != 0).then_some(0);
                    }
                    ARITHMETIC => {
                        accumulator = compute(code & OPERATION, accumulator, other)?;
                    }
                    BRANCH => {
                        let holds = compare(code & OPERATION, accumulator, other)?;
                        at += usize::from(if holds { if_true } else { if_false });
                    }
                    _ => return None,
                }
            }
        }
    }
}

/// A word of the call, at an offset in bytes.
fn load(data: &[u32; DATA_WORDS], offset: u32) -> Option<u32> {
    let is_aligned = offset.is_multiple_of(4);
    data.get(offset as usize / 4)
        .copied()
        .filter(|_| is_aligned)
}

fn compute(operation: u16, left: u32, right: u32) -> Option<u32> {
    Some(match operation {
        0x00 => left.wrapping_add(right),
        0x10 => left.wrapping_sub(right),
        0x20 => left.wrapping_mul(right),
        DIVIDE => left.checked_div(right)?,
        0x40 => left | right,
        0x50 => left & right,
        0x60 => left.wrapping_shl(right),
        0x70 => left.wrapping_shr(right),
        0x80 => left.wrapping_neg(),
        0xa0 => left ^ right,
        _ => return None,
    })
}

fn compare(operation: u16, left: u32, right: u32) -> Option<bool> {
    Some(match operation {
        0x10 => left == right,
        0x20 => left > right,
        0x30 => left >= right,
        0x40 => left & right != 0,
        _ => return None,
    })
}

const DATA_BYTES: u32 = 64;
/// Parts of a code, and the codes that filters may have beside arithmetic and branches.
const CLASS: u16 = 0x07;
const OPERATION: u16 = 0xf0;
const BY_INDEX: u16 = 0x08;
const DIVIDE: u16 = 0x30;
const ARITHMETIC: u16 = 0x04;
const BRANCH: u16 = 0x05;
const LOAD_ABSOLUTE: u16 = 0x20;
const LOAD_LENGTH: u16 = 0x80;
const LOAD_INDEX_LENGTH: u16 = 0x81;
const LOAD_IMMEDIATE: u16 = 0x00;
const LOAD_INDEX_IMMEDIATE: u16 = 0x01;
const LOAD_MEMORY: u16 = 0x60;
const LOAD_INDEX_MEMORY: u16 = 0x61;
const STORE: u16 = 0x02;
const STORE_INDEX: u16 = 0x03;
const ACCUMULATOR_TO_INDEX: u16 = 0x07;
const INDEX_TO_ACCUMULATOR: u16 = 0x87;
const RETURN: u16 = 0x06;
const RETURN_ACCUMULATOR: u16 = 0x16;
const JUMP: u16 = 0x05;

#[cfg(test)]
mod tests {
    use super::*;

    const JUMP_EQUAL: u16 = 0x15;
    const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
    const JUMP_SET: u16 = 0x45;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const ALLOW: u32 = 0x7fff_0000;

    fn plain(code: u16, k: u32) -> Instruction {
        jump(code, k, 0, 0)
    }

    fn jump(code: u16, k: u32, if_true: u8, if_false: u8) -> Instruction {
        Instruction {
            code,
            if_true,
            if_false,
            k,
        }
    }

    fn call(number: u32, first: u64) -> Call {
        Call {
            number,
            instruction_pointer: 0x1234_5678_9abc,
            arguments: [first, 0, 0, 0, 0, 0],
        }
    }

    /// As systemd and libseccomp make them: the architecture first, then numbers, then an argument.
    #[test]
    fn a_filter_says_what_it_allows() {
        let program = [
            plain(LOAD_ABSOLUTE, 4),
            jump(JUMP_EQUAL, ARCHITECTURE, 1, 0),
            plain(RETURN, KILL_PROCESS),
            plain(LOAD_ABSOLUTE, 0),
            jump(JUMP_EQUAL, 7, 4, 0),
            jump(JUMP_EQUAL, 41, 0, 4),
            plain(LOAD_ABSOLUTE, 16),
            jump(JUMP_EQUAL, 44, 0, 1),
            plain(RETURN, 0x0005_0001),
            plain(RETURN, ALLOW),
            plain(RETURN, 0x0003_0000),
        ];
        for (number, first, expected) in [
            (7, 0, Verdict::Allowed),
            (41, 2, Verdict::Allowed),
            (41, 44, Verdict::Refused),
            (8, 0, Verdict::Deadly),
        ] {
            let seen = verdict(&program, &call(number, first));
            assert_eq!(seen, Some(expected), "{number} {first}");
        }
    }

    #[test]
    fn every_action_has_a_meaning() {
        for (action, expected) in [
            (0x8000_0000, Verdict::Deadly),
            (0, Verdict::Deadly),
            (0x0003_0000, Verdict::Deadly),
            (0x0005_0026, Verdict::Refused),
            (0x7fc0_0000, Verdict::Refused),
            (0x7ff0_0007, Verdict::Refused),
            (0x7ffc_0000, Verdict::Allowed),
            (0x7fff_0000, Verdict::Allowed),
            (0x1234_0000, Verdict::Deadly),
        ] {
            let seen = verdict(&[plain(RETURN, action)], &call(0, 0));
            assert_eq!(seen, Some(expected), "{action:#x}");
        }
    }

    #[test]
    fn arithmetic_and_memory_are_the_kernels() {
        let result = |program: &[Instruction]| run(program, &call(5, 0xffff_0000_0003).words());
        let add = [
            plain(LOAD_ABSOLUTE, 20),
            plain(STORE, 3),
            plain(LOAD_ABSOLUTE, 16),
            plain(LOAD_INDEX_MEMORY, 3),
            // Adds the index, shifts, negates.
            plain(0x0c, 0),
            plain(0x64, 4),
            plain(0x84, 0),
            plain(RETURN_ACCUMULATOR, 0),
        ];
        let expected = ((0xffff_u32 + 3) << 4).wrapping_neg();
        assert_eq!(result(&add), Some(expected));
        assert_eq!(
            result(&[plain(LOAD_LENGTH, 0), plain(RETURN_ACCUMULATOR, 0)]),
            Some(64)
        );
        let branches = [
            plain(LOAD_ABSOLUTE, 0),
            jump(JUMP_GREATER_OR_EQUAL, 5, 1, 0),
            plain(RETURN, 1),
            jump(JUMP_SET, 4, 0, 1),
            plain(JUMP, 1),
            plain(RETURN, 2),
            plain(RETURN, 3),
        ];
        assert_eq!(result(&branches), Some(3));
    }

    #[test]
    fn what_is_no_filter_has_no_verdict() {
        for program in [
            &[][..],
            &[plain(LOAD_ABSOLUTE, 2), plain(RETURN, ALLOW)],
            &[plain(LOAD_ABSOLUTE, 64), plain(RETURN, ALLOW)],
            &[plain(STORE, 16), plain(RETURN, ALLOW)],
            &[plain(JUMP, u32::MAX)],
            &[plain(0x34, 0), plain(RETURN, ALLOW)],
            &[plain(0xffff, 0)],
            &[plain(LOAD_ABSOLUTE, 0)],
        ] {
            assert_eq!(verdict(program, &call(0, 0)), None, "{program:?}");
        }
    }
}
