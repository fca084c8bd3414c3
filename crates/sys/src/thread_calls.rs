//! The system calls that threads of this process sleep in, as the kernel shows them in `/proc`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use libc::c_long;

use super::may_call;

/// A system call that a thread sleeps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepingCall {
    pub number: c_long,
    pub arguments: [u64; 6],
    /// Address behind the instruction that has made it.
    pub instruction: u64,
}

/// Whether what is in here may be asked: a filter of system calls may forbid it.
pub fn may_ask_for_threads() -> bool {
    [libc::SYS_openat, libc::SYS_getdents64, libc::SYS_newfstatat]
        .into_iter()
        .all(may_call)
}

/// The numbers of this process's threads. None where there is no `/proc`.
pub fn threads() -> impl Iterator<Item = libc::pid_t> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What a thread sleeps in. `None`: it runs, sleeps in no system call, is gone, or the kernel does
/// not say.
pub fn sleeping_call(thread: libc::pid_t) -> Option<SleepingCall> {
    let mut file = File::open(format!("/proc/self/task/{thread}/syscall")).ok()?;
    let mut text = [0; 256];
    let len = file.read(&mut text).ok()?;
    SleepingCall::parse(std::str::from_utf8(&text[..len]).ok()?)
}

impl SleepingCall {
    /// "232 0x4 0x7f52 0x3ff 0x3e8 0x0 0x0 0x7f52 0x7f53": the number, the arguments, the addresses
    /// of stack and instruction.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
        let mut hexadecimal = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = hexadecimal()?;
        }
        let _stack = hexadecimal()?;
        Some(Self {
            number,
            arguments,
            instruction: hexadecimal()?,
        })
    }
}

/// Copies memory of the program that may be gone. `false`: it is.
pub fn read_memory(at: u64, into: &mut [u8]) -> bool {
    File::open("/proc/self/mem").is_ok_and(|memory| memory.read_exact_at(into, at).is_ok())
}

/// Whether an instruction is the program's own, and neither the C library's nor this one's. Where
/// nobody knows it is not.
pub fn is_programs_own(instruction: u64) -> bool {
    // The C library's of before 2.34 had two files.
    let of_libraries = [
        libc::abort as *const () as u64,
        libc::sem_wait as *const () as u64,
        is_programs_own as *const () as u64,
    ];
    std::fs::read_to_string("/proc/self/maps")
        .is_ok_and(|maps| is_elsewhere(&maps, instruction, &of_libraries))
}

/// Whether the file that is mapped at an address, or the memory without one, is that at none of
/// `others`.
fn is_elsewhere(maps: &str, address: u64, others: &[u64]) -> bool {
    // "7f00-7f10 r-xp 00000000 08:01 1234    /lib/libc.so.6": what comes after the offset tells
    // files apart.
    let file_at = |address: u64| {
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let at = |text| u64::from_str_radix(text, 16).ok();
            let file = rest.splitn(3, ' ').nth(2)?;
            (at(start)?..at(end)?).contains(&address).then_some(file)
        })
    };
    let known: Option<Vec<_>> = others.iter().map(|it| file_at(*it)).collect();
    match (file_at(address), known) {
        (Some(file), Some(known)) => !file.contains("[vdso]") && !known.contains(&file),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn sleeping_calls_are_read() {
        let text = "232 0x4 0x7f52 0x3ff 0xffffffffffffffff 0x0 0x7f528a94e6e8 0x7f01 0x7f5289cc\n";
        let call = SleepingCall {
            number: 232,
            arguments: [4, 0x7f52, 0x3ff, u64::MAX, 0, 0x7f52_8a94_e6e8],
            instruction: 0x7f52_89cc,
        };
        assert_eq!(SleepingCall::parse(text), Some(call));
        for other in ["running\n", "-1 0x7ffd 0x7f52\n", "232 0x4\n", ""] {
            assert_eq!(SleepingCall::parse(other), None);
        }
    }

    #[test]
    fn a_thread_is_seen_asleep_in_the_c_library() {
        let (reader, writer) = std::io::pipe().unwrap();
        let fd = reader.as_raw_fd();
        let sleeper = std::thread::spawn(move || {
            let mut reader = reader;
            drop(reader.read(&mut [0]));
        });
        let is_it =
            |call: &SleepingCall| (call.number, call.arguments[0]) == (libc::SYS_read, fd as u64);
        let call = loop {
            if let Some(call) = threads().filter_map(sleeping_call).find(is_it) {
                break call;
            }
        };
        assert!(!is_programs_own(call.instruction));
        drop(writer);
        sleeper.join().unwrap();
    }

    #[test]
    fn memory_is_copied_if_it_is_there() {
        let (word, mut copy) = (0x1234_5678_u32, [0; 4]);
        assert!(read_memory((&raw const word).addr() as u64, &mut copy));
        assert_eq!(u32::from_ne_bytes(copy), word);
        assert!(!read_memory(8, &mut copy) && !read_memory(u64::MAX - 1, &mut copy));
    }

    #[test]
    fn instructions_belong_to_files() {
        let maps = "1000-2000 r-xp 00000000 08:01 5  /bin/it\n\
                    2000-3000 r--p 00000000 08:01 6  /lib/libc.so\n\
                    3000-4000 r-xp 00001000 08:01 6  /lib/libc.so\n\
                    5000-6000 r-xp 00000000 00:00 0 \n\
                    7000-8000 r-xp 00000000 00:00 0  [vdso]\n";
        assert!(is_elsewhere(maps, 0x1000, &[0x2000]) && is_elsewhere(maps, 0x5fff, &[0x2000]));
        for libraries in [0x2000, 0x3fff, 0x7000] {
            assert!(!is_elsewhere(maps, libraries, &[0x2000]));
        }
        // Nobody knows.
        assert!(!is_elsewhere(maps, 0x4000, &[0x2000]) && !is_elsewhere(maps, 0x1000, &[0x9000]));
        assert!(!is_elsewhere("", 0x1000, &[]));
    }
}
