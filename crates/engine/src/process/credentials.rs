//! What a process may do, as far as the library's work depends on it, and what calls that change it
//! leave (credentials(7), capabilities(7)). Decisions only: what is in force is asked for
//! elsewhere.

use sys::CAP_NET_ADMIN;

/// A user that a call leaves as it is.
pub const UNCHANGED: u32 = u32::MAX;

const CAP_SETUID: u32 = 7;
const CAP_SETPCAP: u32 = 8;

/// `SECBIT_NO_SETUID_FIXUP` and `SECBIT_KEEP_CAPS` of include/uapi/linux/securebits.h.
const NO_SETUID_FIXUP: u32 = 1 << 2;
const KEEP_CAPS: u32 = 1 << 4;

/// Users, capabilities and secure bits of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Real, effective and saved.
    pub users: [u32; 3],
    /// Sets of capabilities, a bit each.
    pub effective: u64,
    /// What it may make effective.
    pub permitted: u64,
    /// What programs that it executes may get.
    pub inheritable: u64,
    /// `PR_GET_SECUREBITS`
    pub secure_bits: u32,
}

/// A call that changes credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `setuid(2)`
    User(u32),
    /// `setreuid(2)`
    RealAndEffective(u32, u32),
    /// `setresuid(2)`, and `seteuid(3)`, which is made of it.
    Users([u32; 3]),
    /// `capset(2)`
    Capabilities {
        /// As in [`Credentials`].
        effective: u64,
        /// As in [`Credentials`].
        permitted: u64,
        /// As in [`Credentials`].
        inheritable: u64,
    },
    /// `CLONE_NEWUSER`: all rights in a new user namespace, and none where the interfaces are.
    UserNamespace,
}

impl Credentials {
    fn has(set: u64, capability: u32) -> bool {
        set & 1 << capability != 0
    }

    /// Whether the thread may take the capability into use that the return of connections to the
    /// kernel needs.
    pub fn may_administer(&self) -> bool {
        Self::has(self.permitted, CAP_NET_ADMIN)
    }

    /// Whether it is in use.
    pub fn administers(&self) -> bool {
        Self::has(self.effective, CAP_NET_ADMIN)
    }

    /// The same with all that is permitted in use.
    pub fn raised(&self) -> Self {
        Self {
            effective: self.permitted,
            ..*self
        }
    }

    /// What is in force after a call. `None`: the kernel refuses it.
    pub fn after(&self, change: &Change) -> Option<Self> {
        match *change {
            Change::User(user) => self.with_user(user),
            Change::RealAndEffective(real, effective) => self.with_two(real, effective),
            Change::Users(users) => self.with_three(users),
            Change::Capabilities {
                effective,
                permitted,
                inheritable,
            } => self.with_capabilities(effective, permitted, inheritable),
            Change::UserNamespace => Some(Self {
                effective: 0,
                permitted: 0,
                inheritable: 0,
                ..*self
            }),
        }
    }

    fn may_be_anybody(&self) -> bool {
        Self::has(self.effective, CAP_SETUID)
    }

    /// `__sys_setuid` of kernel/sys.c, and so on.
    fn with_user(&self, user: u32) -> Option<Self> {
        let [real, _, saved] = self.users;
        match user {
            UNCHANGED => None,
            _ if self.may_be_anybody() => Some(self.with_users([user; 3])),
            _ if user == real || user == saved => Some(self.with_users([real, user, saved])),
            _ => None,
        }
    }

    fn with_two(&self, real: u32, effective: u32) -> Option<Self> {
        let [old_real, old_effective, saved] = self.users;
        let may = |user: u32, others: &[u32]| {
            user == UNCHANGED || self.may_be_anybody() || others.contains(&user)
        };
        if !may(real, &[old_real, old_effective]) || !may(effective, &self.users) {
            return None;
        }
        let new_effective = or(effective, old_effective);
        let sets_saved = real != UNCHANGED || effective != UNCHANGED && effective != old_real;
        let saved = if sets_saved { new_effective } else { saved };
        Some(self.with_users([or(real, old_real), new_effective, saved]))
    }

    fn with_three(&self, users: [u32; 3]) -> Option<Self> {
        let may =
            |user: &u32| *user == UNCHANGED || self.may_be_anybody() || self.users.contains(user);
        if !users.iter().all(may) {
            return None;
        }
        let new = [0, 1, 2].map(|index| or(users[index], self.users[index]));
        Some(self.with_users(new))
    }

    /// `cap_emulate_setxuid` of security/commoncap.c.
    fn with_users(&self, users: [u32; 3]) -> Self {
        let mut new = Self { users, ..*self };
        if self.secure_bits & NO_SETUID_FIXUP != 0 {
            return new;
        }
        if self.users.contains(&0) && !users.contains(&0) && self.secure_bits & KEEP_CAPS == 0 {
            new.permitted = 0;
            new.effective = 0;
        }
        match (self.users[1] == 0, users[1] == 0) {
            (true, false) => new.effective = 0,
            (false, true) => new.effective = new.permitted,
            _ => {}
        }
        new
    }

    /// `cap_capset` of security/commoncap.c.
    fn with_capabilities(&self, effective: u64, permitted: u64, inheritable: u64) -> Option<Self> {
        let may_inherit = match Self::has(self.effective, CAP_SETPCAP) {
            true => u64::MAX,
            false => self.inheritable | self.permitted,
        };
        let is_allowed = permitted & !self.permitted == 0
            && effective & !permitted == 0
            && inheritable & !may_inherit == 0;
        is_allowed.then_some(Self {
            effective,
            permitted,
            inheritable,
            ..*self
        })
    }
}

fn or(user: u32, old: u32) -> u32 {
    if user == UNCHANGED { old } else { user }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = (1 << 41) - 1;
    const NOBODY: u32 = 65534;
    const ADMIN: u64 = 1 << CAP_NET_ADMIN;

    const ROOT: Credentials = Credentials {
        users: [0; 3],
        effective: ALL,
        permitted: ALL,
        inheritable: 0,
        secure_bits: 0,
    };

    fn after(credentials: Credentials, changes: &[Change]) -> Credentials {
        changes
            .iter()
            .fold(credentials, |it, change| it.after(change).unwrap())
    }

    #[test]
    fn root_that_becomes_somebody_else_for_good_has_no_rights() {
        for change in [
            Change::User(NOBODY),
            Change::RealAndEffective(NOBODY, NOBODY),
            Change::Users([NOBODY; 3]),
        ] {
            let left = after(ROOT, &[change]);
            assert_eq!((left.users, left.permitted), ([NOBODY; 3], 0), "{change:?}");
            assert!(!left.administers() && !left.may_administer());
            assert_eq!(left.after(&Change::User(0)), None, "no way back");
        }
    }

    #[test]
    fn who_can_come_back_keeps_the_rights_for_later() {
        let lowered = after(ROOT, &[Change::Users([UNCHANGED, NOBODY, UNCHANGED])]);
        assert!(!lowered.administers() && lowered.may_administer());
        assert_eq!(
            after(lowered, &[Change::Users([UNCHANGED, 0, UNCHANGED])]),
            ROOT
        );
        let swapped = after(ROOT, &[Change::RealAndEffective(UNCHANGED, NOBODY)]);
        assert_eq!(swapped.users, [0, NOBODY, NOBODY]);
        assert!(swapped.may_administer());
        // setuid(2) without CAP_SETUID in use changes the effective user only.
        let half = after(lowered, &[Change::User(0)]);
        assert_eq!(half.users, [0; 3]);
        assert!(half.administers());
        let last = after(lowered, &[Change::Users([NOBODY; 3])]);
        assert_eq!(last.permitted, 0);
    }

    #[test]
    fn capabilities_are_kept_on_purpose() {
        let keeps = Credentials {
            secure_bits: KEEP_CAPS,
            ..ROOT
        };
        let kept = after(keeps, &[Change::User(NOBODY)]);
        assert!(!kept.administers() && kept.may_administer());
        let fixed = Credentials {
            secure_bits: NO_SETUID_FIXUP,
            ..ROOT
        };
        assert!(after(fixed, &[Change::User(NOBODY)]).administers());
        let user = Credentials {
            users: [NOBODY; 3],
            effective: ADMIN,
            permitted: ADMIN,
            ..ROOT
        };
        assert!(after(user, &[Change::User(NOBODY)]).administers());
    }

    #[test]
    fn capset_takes_no_more_than_there_is() {
        let set = |effective, permitted, inheritable| Change::Capabilities {
            effective,
            permitted,
            inheritable,
        };
        let without = after(ROOT, &[set(0, ALL & !ADMIN, 0)]);
        assert!(!without.may_administer());
        assert_eq!(without.after(&set(0, ALL, 0)), None);
        assert_eq!(ROOT.after(&set(ADMIN, 0, 0)), None);
        assert!(after(ROOT, &[set(0, ADMIN, 0)]).may_administer());
        let plain = after(ROOT, &[set(0, ADMIN, 0)]);
        assert_eq!(plain.after(&set(0, 0, 1)), None, "not its own to hand down");
        assert!(plain.after(&set(0, 0, ADMIN)).is_some());
        assert!(!after(ROOT, &[Change::UserNamespace]).may_administer());
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let user = Credentials {
            users: [1, 2, 3],
            effective: 0,
            permitted: ADMIN,
            ..ROOT
        };
        for change in [
            Change::User(2),
            Change::User(UNCHANGED),
            Change::RealAndEffective(3, UNCHANGED),
            Change::RealAndEffective(UNCHANGED, 4),
            Change::Users([UNCHANGED, 4, UNCHANGED]),
        ] {
            assert_eq!(user.after(&change), None, "{change:?}");
        }
        assert_eq!(after(user, &[Change::User(3)]).users, [1, 3, 3]);
        let two = after(user, &[Change::RealAndEffective(UNCHANGED, 1)]);
        assert_eq!(two.users, [1, 1, 3]);
        assert_eq!(
            after(user, &[Change::RealAndEffective(2, 3)]).users,
            [2, 3, 3]
        );
    }
}
