//! Which multicast groups this host is a member of: as the kernel tells, or before Linux 6.15 as
//! its files list them.

mod listed;
mod told;

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use crate::error::Error;
use listed::Listed;
use told::Told;

/// The groups of one network namespace by interface, whoever has joined them and for whatever
/// sources.
#[derive(Debug)]
pub struct Memberships(Source);

#[derive(Debug)]
enum Source {
    Told(Told),
    Listed(Listed),
}

/// What [`Memberships::process_events`] found changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChanges {
    /// The host has joined or left these groups, on some interface. Each once.
    Some(Vec<IpAddr>),
    /// Too many to tell, or notifications were lost.
    Any,
}

/// More groups are not told apart.
const GROUPS_TOLD_MAX: usize = 64;

impl GroupChanges {
    /// `None`: there are none.
    fn of(mut changed: Vec<IpAddr>) -> Option<Self> {
        if changed.len() > GROUPS_TOLD_MAX {
            return Some(Self::Any);
        }
        changed.sort_unstable();
        changed.dedup();
        (!changed.is_empty()).then_some(Self::Some(changed))
    }
}

impl Memberships {
    /// Subscribes to notifications in the calling thread's network namespace and reads the
    /// memberships. `subscribe` has a netlink socket receive the notifications of the multicast
    /// group with this number (`NETLINK_ADD_MEMBERSHIP`, netlink(7)). Where the kernel does not
    /// tell, it opens the files that list them.
    ///
    /// # Errors
    ///
    /// The kernel does neither.
    pub fn open(subscribe: impl Fn(BorrowedFd<'_>, u32) -> io::Result<()>) -> Result<Self, Error> {
        let source = match Told::open(subscribe) {
            Ok(told) => Source::Told(told),
            Err(error) => match Listed::open() {
                Ok(listed) => Source::Listed(listed),
                Err(_) => return Err(error),
            },
        };
        Ok(Self(source))
    }

    /// Whether [`Memberships::process_events`] has to read files, for the kernel does not tell.
    pub fn are_listed(&self) -> bool {
        matches!(self.0, Source::Listed(_))
    }

    /// Whether the host is a member of a group on an interface, as of the last
    /// [`Memberships::process_events`]. It is, too, if that could not be found out.
    pub fn contains(&self, link_index: u32, group: IpAddr) -> bool {
        match &self.0 {
            Source::Told(told) => told.contains(link_index, group),
            Source::Listed(listed) => listed.contains(link_index, group),
        }
    }

    /// Takes in the notifications that have arrived, without waiting, or reads the files. `None`:
    /// nothing has changed.
    ///
    /// # Errors
    ///
    /// If the sockets fail. What is known is not current any more then.
    pub fn process_events(&mut self) -> Result<Option<GroupChanges>, Error> {
        match &mut self.0 {
            Source::Told(told) => told.process_events(),
            Source::Listed(listed) => Ok(listed.read_again()),
        }
    }
}
