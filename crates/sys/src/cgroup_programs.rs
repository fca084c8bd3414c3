//! Programs that the kernel runs for the sockets of a control group (cgroups(7), bpf(2)).

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use descriptors::OwnDescriptor;
use libc::{c_int, c_long};

use super::{Errno, check, owned};

/// `enum bpf_attach_type`, those that see or change datagrams: ingress, egress, `UDP4_SENDMSG`,
/// `UDP4_RECVMSG`. What is asked when a socket is made, bound or connected runs in any case.
const ATTACH_TYPES: [u32; 4] = [0, 1, 14, 19];
const BPF_PROG_QUERY: c_int = 16;
/// Those of the groups above count, too.
const BPF_F_QUERY_EFFECTIVE: u32 = 1;

/// The beginning of `union bpf_attr` for `BPF_PROG_QUERY`.
#[derive(Default)]
#[repr(C)]
struct Query {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_count: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Query>() == 32);

/// Whether programs see the datagrams of this process's control group. `false` where the system
/// does not say.
pub fn has_cgroup_programs() -> bool {
    own_cgroup().is_some_and(|group| has_programs(&group))
}

/// The directory of the process's group in the unified hierarchy.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(mount_point)?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(group))
}

/// Where a line of `mountinfo` (proc(5)) mounts the unified hierarchy.
fn mount_point(line: &str) -> Option<&str> {
    let (place, kind) = line.split_once(" - ")?;
    kind.starts_with("cgroup2 ")
        .then(|| place.split(' ').nth(4))
        .flatten()
}

fn has_programs(group: &Path) -> bool {
    let Ok(path) = CString::new(group.as_os_str().as_bytes()) else {
        return false;
    };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a string that outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    let Ok(fd) = check(fd) else { return false };
    // SAFETY: the kernel has just made it.
    let fd = OwnDescriptor::new(unsafe { owned(fd) });
    ATTACH_TYPES
        .into_iter()
        .any(|attach_type| count(&fd, attach_type).is_ok_and(|count| count > 0))
}

fn count(group: &OwnDescriptor, attach_type: u32) -> Result<u32, Errno> {
    let mut query = Query {
        target_fd: group.as_raw_fd().cast_unsigned(),
        attach_type,
        query_flags: BPF_F_QUERY_EFFECTIVE,
        ..Query::default()
    };
    let (attributes, len) = (&raw mut query, size_of::<Query>());
    // SAFETY: the kernel reads and writes at most `len` bytes of `query`, and no list of programs,
    // for which there is no room.
    let result: c_long = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, attributes, len) };
    check(result).map(|_| query.prog_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_hierarchy_is_found_among_the_mounts() {
        let line = "42 32 0:39 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(mount_point(line), Some("/sys/fs/cgroup/unified"));
        let other = "34 32 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        assert_eq!(mount_point(other), None);
        assert_eq!(mount_point(""), None);
    }

    /// `union bpf_attr` for `BPF_PROG_LOAD`.
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        rest: [u64; 8],
    }

    fn bpf<T>(command: c_int, attributes: &T) -> Result<c_int, Errno> {
        let (at, len) = (std::ptr::from_ref(attributes), size_of::<T>());
        // SAFETY: the kernel reads `len` bytes, and what they point at, which lives on.
        check(unsafe { libc::syscall(libc::SYS_bpf, command, at, len) }).map(|fd| fd as c_int)
    }

    #[test]
    fn a_program_of_the_group_or_of_one_above_is_seen() {
        const CGROUP_SKB: u32 = 8;
        const LOAD: c_int = 5;
        const ATTACH: c_int = 8;
        let Some(above) = own_cgroup() else {
            return testkit::skip("there is no unified hierarchy of control groups");
        };
        let group = above.join(format!("vmat-{}", std::process::id()));
        let below = group.join("below");
        if let Err(error) = fs::create_dir(&group).and_then(|()| fs::create_dir(&below)) {
            return testkit::skip(format!("cannot make a control group: {error}"));
        }
        assert!(!has_programs(&below));
        // r0 = 1; exit: all may pass.
        let program: [u64; 2] = [0x0000_0001_0000_00b7, 0x95];
        let load = Load {
            kind: CGROUP_SKB,
            count: 2,
            instructions: program.as_ptr().addr() as u64,
            license: c"Dual MIT/GPL".as_ptr().addr() as u64,
            rest: [0; 8],
        };
        let directory = fs::File::open(&group).unwrap();
        let attached = bpf(LOAD, &load).and_then(|program| {
            // SAFETY: the kernel has just made it.
            let program = unsafe { owned(program.into()) };
            let [group, program] =
                [directory.as_raw_fd(), program.as_raw_fd()].map(i32::cast_unsigned);
            bpf(ATTACH, &[group, program, ATTACH_TYPES[1], 0])
        });
        let seen = [&group, &below, &above].map(|group| has_programs(group));
        drop(directory);
        fs::remove_dir(&below)
            .and_then(|()| fs::remove_dir(&group))
            .unwrap();
        if let Err(Errno(libc::EPERM)) = attached {
            return testkit::skip("programs may not be attached here");
        }
        attached.unwrap();
        assert_eq!(seen, [true, true, false]);
    }
}
