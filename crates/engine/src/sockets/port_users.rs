//! The UDP sockets of every process, by port, and how often it is worth asking the kernel for them:
//! it goes through all that there are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use links::network::PortUser;

/// As of one moment.
#[derive(Debug, Default)]
pub(crate) struct PortUsers(HashMap<u16, Vec<PortUser>>);

impl PortUsers {
    pub(crate) fn new(users: Vec<PortUser>) -> Self {
        let mut by_port: HashMap<u16, Vec<PortUser>> = HashMap::new();
        for user in users {
            by_port.entry(user.local.port()).or_default().push(user);
        }
        Self(by_port)
    }

    /// Those with a port.
    pub(crate) fn of(&self, port: u16) -> &[PortUser] {
        self.0.get(&port).map_or(&[], Vec::as_slice)
    }

    /// Whether a socket is among them.
    pub(crate) fn has(&self, inode: u64) -> bool {
        self.0.values().flatten().any(|it| it.inode == inode)
    }
}

/// What is kept of the last look at all of them.
#[derive(Clone, Debug)]
pub(crate) struct KnownUsers {
    /// The tick of the clock at which they were.
    tick_nsec: u64,
    /// What it took to ask.
    cost_nsec: u64,
    pub(crate) users: Arc<PortUsers>,
    /// By port those that are none of ours, as far as somebody has asked for them.
    others: HashMap<u16, Arc<[PortUser]>>,
    /// Inode numbers of ours that are gone since.
    gone: HashSet<u64>,
}

impl KnownUsers {
    pub(crate) fn new(tick_nsec: u64, cost_nsec: u64, users: Arc<PortUsers>) -> Self {
        Self {
            tick_nsec,
            cost_nsec,
            users,
            others: HashMap::new(),
            gone: HashSet::new(),
        }
    }

    /// Whether they need not be asked for anew: they are of the tick of now, or have cost so much
    /// that a program which opens thousands of sockets would do little else.
    pub(crate) fn is_recent(&self, tick_nsec: u64) -> bool {
        tick_nsec.saturating_sub(self.tick_nsec) <= TIME_SHARE * self.cost_nsec
    }

    /// Those with a port that are none of ours. `own`: inode numbers of ours there.
    pub(crate) fn others(
        &mut self,
        port: u16,
        own: impl FnOnce() -> HashSet<u64>,
    ) -> Arc<[PortUser]> {
        let (users, gone) = (&self.users, &self.gone);
        let others = self.others.entry(port).or_insert_with(|| {
            let own = own();
            let is_own = |user: &&PortUser| own.contains(&user.inode) || gone.contains(&user.inode);
            let users = users.of(port).iter();
            users.filter(|user| !is_own(user)).copied().collect()
        });
        Arc::clone(others)
    }

    /// A socket of ours is closed.
    pub(crate) fn note_gone(&mut self, port: u16, inode: u64) {
        self.gone.insert(inode);
        self.note_ours(port, inode);
    }

    /// A socket of ours has come to a port: it is nobody else's.
    pub(crate) fn note_ours(&mut self, port: u16, inode: u64) {
        if let Some(others) = self.others.get_mut(&port)
            && others.iter().any(|user| user.inode == inode)
        {
            *others = others
                .iter()
                .filter(|user| user.inode != inode)
                .copied()
                .collect();
        }
    }
}

/// So much may be spent on looks at once: some hundreds of sockets of one program.
const BURST_NSEC: u64 = 10_000_000;
/// The share of the time that looks may take beyond that: one part of so many.
const TIME_SHARE: u64 = 4;

/// What looks have cost lately. A program that opens thousands of sockets at once has them judged
/// by a look that is some of its binds old.
#[derive(Debug)]
pub(crate) struct LookBudget {
    as_of_nsec: u64,
    left_nsec: u64,
    is_burst: bool,
}

/// How to find out who has a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Ask for the port.
    Port,
    /// Ask for all, and keep that.
    All,
    /// What was kept has to do.
    Kept,
}

impl LookBudget {
    pub(crate) fn new() -> Self {
        Self {
            as_of_nsec: 0,
            left_nsec: BURST_NSEC,
            is_burst: false,
        }
    }

    pub(crate) fn next(&mut self, now_nsec: u64, has_kept: bool) -> Look {
        let passed = now_nsec.saturating_sub(self.as_of_nsec);
        self.as_of_nsec = self.as_of_nsec.max(now_nsec);
        self.left_nsec = (self.left_nsec + passed / TIME_SHARE).min(BURST_NSEC);
        if self.left_nsec == BURST_NSEC {
            self.is_burst = false;
        }
        match (self.is_burst, has_kept) {
            (false, _) => Look::Port,
            (true, true) if self.left_nsec == 0 => Look::Kept,
            (true, _) => Look::All,
        }
    }

    pub(crate) fn spend(&mut self, cost_nsec: u64) {
        match self.left_nsec.checked_sub(cost_nsec) {
            Some(left @ 1..) => self.left_nsec = left,
            _ => {
                self.is_burst = true;
                // What is owed is waited for.
                self.as_of_nsec += cost_nsec.saturating_sub(self.left_nsec) * TIME_SHARE;
                self.left_nsec = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USEC: u64 = 1000;
    const SEC: u64 = 1_000_000_000;

    #[test]
    fn a_few_sockets_are_looked_at_one_by_one() {
        let mut budget = LookBudget::new();
        let mut now = SEC;
        for _ in 0..100 {
            assert_eq!(budget.next(now, false), Look::Port);
            budget.spend(50 * USEC);
            now += 60 * USEC;
        }
    }

    #[test]
    fn many_at_once_spend_a_quarter_of_their_time_on_looks() {
        let mut budget = LookBudget::new();
        let (mut now, mut spent, mut has_kept) = (SEC, 0, false);
        for number in 0..20_000 {
            match budget.next(now, has_kept) {
                Look::Kept => {}
                look => {
                    has_kept |= look == Look::All;
                    let cost = number * USEC / 5;
                    budget.spend(cost);
                    spent += cost;
                    now += cost;
                }
            }
            now += 20 * USEC;
        }
        assert!(
            spent <= BURST_NSEC * 2 + (now - SEC) / TIME_SHARE,
            "{spent}"
        );
        assert_eq!(budget.next(now + SEC, true), Look::Port);
    }

    #[test]
    fn those_of_others_are_told_from_ours() {
        let user = |inode: u64| PortUser {
            local: "0.0.0.0:5".parse().unwrap(),
            peer: None,
            inode,
        };
        let users = Arc::new(PortUsers::new((1..5).map(user).collect()));
        let mut known = KnownUsers::new(1, 5, users);
        assert!(known.is_recent(1) && known.is_recent(21) && !known.is_recent(22));
        let inodes = |others: Arc<[PortUser]>| others.iter().map(|it| it.inode).collect::<Vec<_>>();
        assert_eq!(inodes(known.others(5, || HashSet::from([1, 2]))), [3, 4]);
        known.note_ours(5, 3);
        known.note_ours(6, 4);
        known.note_gone(6, 4);
        assert_eq!(inodes(known.others(5, || unreachable!())), [4]);
        known.note_gone(5, 4);
        assert_eq!(inodes(known.others(5, HashSet::new)), [0; 0]);
        let mut known = KnownUsers::new(1, 0, known.users);
        known.note_gone(5, 4);
        assert_eq!(inodes(known.others(5, HashSet::new)), [1, 2, 3]);
    }

    #[test]
    fn users_are_found_by_port() {
        let user = |local: &str| PortUser {
            local: local.parse().unwrap(),
            peer: None,
            inode: 1,
        };
        let users = PortUsers::new(vec![user("10.0.0.1:5"), user("[::]:5"), user("0.0.0.0:6")]);
        assert_eq!([5, 6, 7].map(|port| users.of(port).len()), [2, 1, 0]);
    }
}
