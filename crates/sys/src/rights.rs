//! What the calling thread may do: credentials are a thread's own in Linux (credentials(7)).

use std::ptr;

use super::{Errno, check};

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits, in two parts.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    thread: i32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Part {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// What `TCP_REPAIR` takes, to begin it and to end it (<linux/capability.h>).
pub const CAP_NET_ADMIN: u32 = 12;

/// Sets of capabilities, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    pub effective: u64,
    pub permitted: u64,
    pub inheritable: u64,
}

/// Those of the calling thread.
pub fn capabilities() -> Result<Capabilities, Errno> {
    let mut header = Header {
        version: VERSION,
        thread: 0,
    };
    let mut parts = [Part::default(); 2];
    let (header, at) = (&raw mut header, parts.as_mut_ptr());
    // SAFETY: the kernel writes two parts.
    check(unsafe { libc::syscall(libc::SYS_capget, header, at) })?;
    let whole = |of: fn(&Part) -> u32| u64::from(of(&parts[1])) << 32 | u64::from(of(&parts[0]));
    Ok(Capabilities {
        effective: whole(|it| it.effective),
        permitted: whole(|it| it.permitted),
        inheritable: whole(|it| it.inheritable),
    })
}

/// Gives the calling thread these.
pub(crate) fn set_capabilities(to: &Capabilities) -> Result<(), Errno> {
    let mut header = Header {
        version: VERSION,
        thread: 0,
    };
    let part = |shift: u32| Part {
        effective: (to.effective >> shift) as u32,
        permitted: (to.permitted >> shift) as u32,
        inheritable: (to.inheritable >> shift) as u32,
    };
    let parts = [part(0), part(32)];
    let header = &raw mut header;
    // SAFETY: the kernel reads two parts.
    check(unsafe { libc::syscall(libc::SYS_capset, header, parts.as_ptr()) }).map(drop)
}

/// Real, effective and saved user of the calling thread.
pub fn users() -> Result<[u32; 3], Errno> {
    three(libc::SYS_getresuid)
}

/// The same of groups.
pub(crate) fn groups_of_thread() -> Result<[u32; 3], Errno> {
    three(libc::SYS_getresgid)
}

fn three(call: libc::c_long) -> Result<[u32; 3], Errno> {
    let mut ids = [0_u32; 3];
    let at = ids.as_mut_ptr();
    // SAFETY: the kernel writes one number to each place.
    check(unsafe { libc::syscall(call, at, at.wrapping_add(1), at.wrapping_add(2)) })?;
    Ok(ids)
}

/// `PR_GET_SECUREBITS`
pub fn secure_bits() -> Result<u32, Errno> {
    // SAFETY: integers.
    check(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_SECUREBITS, 0, 0, 0, 0) })
        .map(|bits| bits as u32)
}

/// Makes the calling thread, and no other, what another one is: groups, users, capabilities. It may
/// not become more than it is.
pub fn become_like(groups: [u32; 3], users: [u32; 3], to: &Capabilities) {
    let set = |call, [real, effective, saved]: [u32; 3]| {
        // SAFETY: integers.
        unsafe { libc::syscall(call, real, effective, saved) };
    };
    if groups_of_thread() != Ok(groups) {
        let none = ptr::null::<libc::gid_t>();
        // SAFETY: an empty list.
        unsafe { libc::syscall(libc::SYS_setgroups, 0, none) };
        set(libc::SYS_setresgid, groups);
    }
    if self::users() != Ok(users) {
        set(libc::SYS_setresuid, users);
    }
    if let Ok(own) = capabilities() {
        let _ = set_capabilities(&Capabilities {
            effective: own.effective & to.effective,
            permitted: own.permitted & to.permitted,
            inheritable: own.inheritable & to.inheritable,
        });
    }
}

/// Everything that is permitted to the thread is in use as long as this lives.
#[derive(Debug)]
pub struct Raised {
    before: Capabilities,
}

impl Raised {
    /// `None`: nothing is permitted that is not in use.
    pub fn begin() -> Option<Self> {
        let before = capabilities().ok()?;
        let raised = Capabilities {
            effective: before.permitted,
            ..before
        };
        let is_more = raised != before;
        (is_more && set_capabilities(&raised).is_ok()).then_some(Self { before })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let _ = set_capabilities(&self.before);
    }
}

/// Tries something that takes a capability. A program that has lowered its rights for a while
/// (`seteuid(3)`) still has them.
pub fn with_rights<T>(attempt: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match attempt() {
        Err(Errno(libc::EPERM)) => {
            let raised = Raised::begin().ok_or(Errno(libc::EPERM))?;
            let result = attempt();
            drop(raised);
            result
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_that_are_lowered_are_raised_for_a_moment() {
        // A thread of its own: what it gives up is its own.
        let tried = std::thread::spawn(|| {
            let before = capabilities().unwrap();
            let lowered = Capabilities {
                effective: 0,
                ..before
            };
            set_capabilities(&lowered).unwrap();
            let tried = with_rights(|| match capabilities()?.effective {
                0 => Err(Errno(libc::EPERM)),
                effective => Ok(effective),
            });
            (before, tried, capabilities().unwrap() == lowered)
        });
        let (before, tried, is_lowered_again) = tried.join().unwrap();
        assert!(is_lowered_again);
        match before.permitted {
            0 => assert_eq!(tried, Err(Errno(libc::EPERM))),
            permitted => assert_eq!(tried, Ok(permitted)),
        }
    }

    #[test]
    fn a_thread_becomes_like_another_and_not_more() {
        let (users, groups) = (users().unwrap(), groups_of_thread().unwrap());
        let left = std::thread::spawn(move || {
            become_like(groups, users, &Capabilities::default());
            become_like(
                groups,
                users,
                &Capabilities {
                    effective: u64::MAX,
                    permitted: u64::MAX,
                    inheritable: u64::MAX,
                },
            );
            capabilities()
        });
        assert_eq!(left.join().unwrap(), Ok(Capabilities::default()));
    }
}
