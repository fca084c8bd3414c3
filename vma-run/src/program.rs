//! Programs that a preloaded library does nothing for.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Why the library does nothing in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deaf {
    Static,
    Go,
    /// The loader leaves out what is preloaded where a program gets rights by its file.
    Privileged,
}

impl Deaf {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Static => {
                "is linked statically: there is no loader that would preload the library, and it runs on the kernel. Link it \
                 dynamically"
            }
            Self::Go => {
                "is a Go program: Go makes system calls of its own and never calls the C library's, so that its sockets stay \
                 the kernel's"
            }
            Self::Privileged => {
                "gets rights by its file (set-user-ID, set-group-ID or file capabilities): the loader ignores LD_PRELOAD then, \
                 and it runs on the kernel. Give it ambient capabilities instead (setpriv --ambient-caps)"
            }
        }
    }
}

/// Why the library does nothing in the program that this word names, as far as its file says.
pub(crate) fn look_at(program: &OsStr) -> Option<Deaf> {
    let path = find(program)?;
    // A script is what its interpreter is; the rights of its own file count for nothing.
    judge(&interpreter(&path).unwrap_or(path))
}

fn judge(path: &Path) -> Option<Deaf> {
    if is_privileged(path) {
        return Some(Deaf::Privileged);
    }
    let file = File::open(path).ok()?;
    let elf = Elf::read(&file)?;
    if elf.is_go {
        Some(Deaf::Go)
    } else {
        (!elf.has_interpreter).then_some(Deaf::Static)
    }
}

/// As a shell finds it.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// Of a script: what its first line names.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let len = File::open(path).ok()?.read(&mut start).ok()?;
    let line = start.get(..len)?.split(|byte| *byte == b'\n').next()?;
    let words = String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned();
    let mut words = words.split_whitespace();
    let first = words.next()?;
    if first.ends_with("/env") {
        return find(OsStr::new(words.find(|word| !word.starts_with('-'))?));
    }
    Some(first.into())
}

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID_AND_RUN: u32 = 0o2010;

/// Whether the program runs with other rights than this user's.
fn is_privileged(path: &Path) -> bool {
    let Ok(status) = fs::metadata(path) else {
        return false;
    };
    let user = geteuid();
    let is_other = status.mode() & SET_USER_ID != 0 && status.uid() != user.as_raw();
    let is_other_group = status.mode() & SET_GROUP_ID_AND_RUN == SET_GROUP_ID_AND_RUN
        && status.gid() != rustix::process::getegid().as_raw();
    // Root gets no rights by a file.
    let has_capabilities =
        !user.is_root() && rustix::fs::getxattr(path, "security.capability", &mut [0; 64]).is_ok();
    is_other || is_other_group || has_capabilities
}

/// What matters of a program of 64 bits in this machine's order of bytes.
struct Elf {
    has_interpreter: bool,
    is_go: bool,
}

const INTERPRETER: u32 = 3;
const NOTE: u32 = 4;
/// How far notes are looked at: Go's is among the first hundred bytes.
const NOTES_MAX: u64 = 4096;

impl Elf {
    /// `None`: it is none. What a file says of itself is not believed beyond its end.
    fn read(file: &File) -> Option<Self> {
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0).ok()?;
        let is_elf = head.starts_with(b"\x7fELF") && head[4] == 2 && head[5] == 1;
        if !is_elf {
            return None;
        }
        let table = number(&head, 32, 8)?;
        let (size, count) = (number(&head, 54, 2)?, number(&head, 56, 2)?);
        let mut elf = Self {
            has_interpreter: false,
            is_go: false,
        };
        for index in 0..count {
            let mut entry = [0; 56];
            let at = table.checked_add(index.checked_mul(size)?)?;
            if file.read_exact_at(&mut entry, at).is_err() {
                break;
            }
            let kind = u32::try_from(number(&entry, 0, 4)?).ok()?;
            elf.has_interpreter |= kind == INTERPRETER;
            if kind == NOTE {
                let len = number(&entry, 32, 8)?.min(NOTES_MAX);
                let mut notes = vec![0; usize::try_from(len).ok()?];
                let at = number(&entry, 8, 8)?;
                // The name of Go's build id, with its length and kind in front.
                let is_read = file.read_exact_at(&mut notes, at).is_ok();
                elf.is_go |= is_read && notes.windows(8).any(|it| it == b"\x04\0\0\0Go\0\0");
            }
        }
        Some(elf)
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole
        .get_mut(..len)?
        .copy_from_slice(bytes.get(at..at + len)?);
    Some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program with these entries of its table: kind, and the content of the segment.
    fn program(directory: &Path, name: &str, entries: &[(u32, &[u8])]) -> PathBuf {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = u8::try_from(entries.len()).unwrap();
        let mut at = 64 + 56 * entries.len();
        for (kind, content) in entries {
            let mut entry = [0; 56];
            entry[..4].copy_from_slice(&kind.to_le_bytes());
            entry[8..16].copy_from_slice(&(at as u64).to_le_bytes());
            entry[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            file.extend(entry);
            at += content.len();
        }
        entries
            .iter()
            .for_each(|(_, content)| file.extend(*content));
        let path = directory.join(name);
        fs::write(&path, file).unwrap();
        path
    }

    const LOADER: (u32, &[u8]) = (INTERPRETER, b"/lib64/ld.so\0");

    #[test]
    fn programs_without_a_loader_and_of_go_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let of =
            |name: &str, entries: &[(u32, &[u8])]| judge(&program(directory.path(), name, entries));
        let go: (u32, &[u8]) = (NOTE, b"\x04\0\0\0\x08\0\0\0\x04\0\0\0Go\0\0buildid.");
        let other: (u32, &[u8]) = (NOTE, b"\x04\0\0\0\x08\0\0\0\x01\0\0\0GNU\0........");
        assert_eq!(of("dynamic", &[LOADER, other]), None);
        assert_eq!(of("static", &[other]), Some(Deaf::Static));
        assert_eq!(of("go", &[go]), Some(Deaf::Go));
        assert_eq!(of("cgo", &[LOADER, go]), Some(Deaf::Go));
        assert_eq!(look_at(env::current_exe().unwrap().as_os_str()), None);
    }

    #[test]
    fn a_damaged_file_is_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let path = program(directory.path(), "whole", &[LOADER, (NOTE, b"12345678")]);
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let _ = judge(&path);
        }
        for at in 0..64 {
            let mut bytes = whole.clone();
            bytes[at] = 0xff;
            fs::write(&path, bytes).unwrap();
            let _ = judge(&path);
        }
        assert_eq!(look_at(OsStr::new("/nonexistent")), None);
        assert_eq!(look_at(OsStr::new("no-such-program")), None);
    }

    #[test]
    fn a_script_is_what_runs_it() {
        let directory = tempfile::tempdir().unwrap();
        let fixed = program(directory.path(), "fixed", &[]);
        let script = directory.path().join("script");
        fs::write(&script, format!("#! {} -x\n", fixed.display())).unwrap();
        assert_eq!(look_at(script.as_os_str()), Some(Deaf::Static));
        fs::write(&script, "#!/usr/bin/env -S sh\n").unwrap();
        assert_eq!(interpreter(&script), find(OsStr::new("sh")));
    }

    #[test]
    fn rights_of_the_file_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = program(directory.path(), "program", &[LOADER]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        // Its owner is this user, who gets nothing new.
        assert!(!is_privileged(&path));
        let nobody = (Some(65_534), None);
        if std::os::unix::fs::chown(&path, nobody.0, nobody.1).is_ok() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
            assert_eq!(judge(&path), Some(Deaf::Privileged));
        }
    }
}
