//! Options that neither the connection nor the headers of its packets have: what calls and packets
//! look at before them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use crate::sockets::options::IPV6_MINHOPCOUNT;
use crate::sockets::stamps::StampWish;
use crate::tcp::options::effect::TCP_INQ;

/// What the program has asked for. A connection has it of its listener.
#[derive(Default)]
pub(super) struct Wishes {
    /// `TCP_INQ`: each receive tells how much is left.
    tells_unread: AtomicBool,
    /// `SO_TIMESTAMP` and its like: each tells when its octets came.
    stamps: AtomicU8,
    /// `IP_MINTTL`, `IPV6_MINHOPCOUNT`: what has come from further away is dropped.
    least_ttl: AtomicU8,
    least_hops: AtomicU8,
    /// `TCP_SAVE_SYN`: how much is kept of the segment that opens a connection. 0: nothing.
    saves_syn: AtomicU8,
    /// Of that segment, until it is asked for (`TCP_SAVED_SYN`).
    syn: Mutex<Option<Box<[u8]>>>,
}

/// `TCP_SAVE_SYN`: the header of the link, too.
pub(super) const WHOLE_SYN: u8 = 2;

impl Wishes {
    /// Of a new socket.
    pub(super) fn clear(&self) {
        self.inherit(&Self::default());
        *self.syn() = None;
    }

    pub(super) fn inherit(&self, listener: &Self) {
        let tells_unread = listener.tells_unread.load(Ordering::Relaxed);
        self.tells_unread.store(tells_unread, Ordering::Relaxed);
        for (here, there) in [
            (&self.least_ttl, &listener.least_ttl),
            (&self.least_hops, &listener.least_hops),
            (&self.saves_syn, &listener.saves_syn),
            (&self.stamps, &listener.stamps),
        ] {
            here.store(there.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// `TCP_INQ` was set on the kernel's socket.
    pub(super) fn read_unread(&self, fd: c_int) {
        let tells = sys::option_int(fd, libc::IPPROTO_TCP, TCP_INQ).is_ok_and(|on| on != 0);
        self.tells_unread.store(tells, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn tells_unread(&self) -> bool {
        self.tells_unread.load(Ordering::Relaxed)
    }

    /// `SO_TIMESTAMP` or its like was.
    pub(super) fn read_stamps(&self, fd: c_int) {
        let bits = StampWish::read(fd).without_device_times().bits();
        self.stamps.store(bits, Ordering::Relaxed);
    }

    /// What is asked for of the times at which octets come.
    #[inline]
    pub(super) fn stamps(&self) -> StampWish {
        StampWish::of_bits(self.stamps.load(Ordering::Relaxed))
    }

    /// Whether a receive tells of more than its octets.
    #[inline]
    pub(super) fn tells(&self) -> bool {
        self.tells_unread() || self.stamps() != StampWish::NONE
    }

    /// `IP_MINTTL` or `IPV6_MINHOPCOUNT` was.
    pub(super) fn read_hops(&self, fd: c_int) {
        self.least_ttl.store(
            octet(fd, libc::IPPROTO_IP, libc::IP_MINTTL),
            Ordering::Relaxed,
        );
        self.least_hops.store(
            octet(fd, libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT),
            Ordering::Relaxed,
        );
    }

    /// Whether a packet with so many hops left has not come from too far away.
    #[inline]
    pub(super) fn admits(&self, is_ipv4: bool, hops_left: u8) -> bool {
        let least = if is_ipv4 {
            &self.least_ttl
        } else {
            &self.least_hops
        };
        hops_left >= least.load(Ordering::Relaxed)
    }

    /// `TCP_SAVE_SYN` was.
    pub(super) fn read_saves_syn(&self, fd: c_int) {
        let how = octet(fd, libc::IPPROTO_TCP, libc::TCP_SAVE_SYN);
        self.saves_syn.store(how, Ordering::Relaxed);
    }

    pub(super) fn saves_syn(&self) -> u8 {
        self.saves_syn.load(Ordering::Relaxed)
    }

    /// The headers of the segment that has opened the connection.
    pub(super) fn syn(&self) -> MutexGuard<'_, Option<Box<[u8]>>> {
        self.syn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 0 where there is no such option.
fn octet(fd: c_int, level: c_int, name: c_int) -> u8 {
    let value = sys::option_int(fd, level, name).unwrap_or(0);
    u8::try_from(value).unwrap_or(0)
}

impl fmt::Debug for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wishes").finish_non_exhaustive()
    }
}
