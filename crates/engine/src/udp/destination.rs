//! Where datagrams go: one entry a destination, valid until the next hop changes that it shares
//! with other sockets.

mod resolve;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use links::family::{Addresses, Versions};
use links::groups::is_looped;
use links::rings::{Migration, RingPolicy, RingUser};
use vma_config::rules::ProcessRules;

use crate::sockets::header_options::HeaderOptions;
use crate::sockets::pacing::queue::PacedQueue;
use crate::sockets::stack::Stack;
use crate::udp::send_options::{Overrides, SendOptions};
pub(super) use resolve::{Asked, Destination, Link, Way};

/// Destinations that an unconnected socket remembers beside the latest; beyond that it starts
/// afresh.
const DESTINATIONS_MAX: usize = 256;

/// The sending side of a socket, under its lock.
#[derive(Debug)]
pub(crate) struct SendState<S: Stack> {
    /// Bound address; `None` while unbound. Unspecified: the route chooses.
    pub(super) local: Option<SocketAddr>,
    /// The versions of IP that it carries.
    pub(super) versions: Versions,
    /// Peer of a connected socket.
    pub(super) peer: Option<SocketAddr>,
    /// The rules that the socket follows; `None` before it is bound.
    pub(super) rules: Option<&'static ProcessRules>,
    known: Known<SocketAddr, S>,
    /// Those of messages with control data.
    overridden: Known<(SocketAddr, Overrides), S>,
    options: SendOptions,
    /// Where datagrams wait that leave at a rate or at a time.
    pub(super) paced: Option<Arc<PacedQueue<S>>>,
    /// Index of the interface that datagrams to groups leave by (`IP_MULTICAST_IF`); `None`: the
    /// route decides.
    pub(super) group_interface: Option<u32>,
    /// `IPV6_MTU`: the longest packet of IPv6 in bytes; 0: no limit.
    pub(super) packet_len_max: u32,
    /// Whether the kernel's socket may hold an error that a send call reports.
    pub(super) may_have_error: bool,
    /// What the socket's options say of headers, once they were read.
    headers: KnownHeaders,
    /// Counts how often the destinations were forgotten.
    epoch: u64,
    /// IPv4 identification of the next datagram.
    identification: u16,
    /// The tick of the clock at which the kernel's socket was last asked for an error.
    asked_at_nsec: u64,
    /// Datagrams that went through the kernel since the network was last looked at.
    kernel_messages: u32,
    /// By what its rings are chosen.
    rings: RingPolicy,
    /// When the socket is moved to another ring.
    pub(super) migration: Migration,
    /// Whose rings it sends by; `None`: nobody has sent yet.
    pub(super) user: Option<RingUser>,
    /// The thread that made the socket.
    creator: usize,
}

/// A thread that sends without pause may keep the internal thread from its core. So the sender
/// itself looks now and then whether the reason for which its datagrams go through the kernel has
/// gone.
const KERNEL_MESSAGES_PER_LOOK: u32 = 16;

impl<S: Stack> Default for SendState<S> {
    fn default() -> Self {
        Self {
            local: None,
            versions: Versions::BOTH,
            peer: None,
            rules: None,
            known: Known::default(),
            overridden: Known::default(),
            options: SendOptions::default(),
            paced: None,
            group_interface: None,
            packet_len_max: 0,
            may_have_error: false,
            headers: KnownHeaders::default(),
            epoch: 0,
            identification: 0,
            asked_at_nsec: 0,
            kernel_messages: 0,
            rings: RingPolicy::ONE_RING,
            migration: Migration::default(),
            user: None,
            creator: 0,
        }
    }
}

impl<S: Stack> SendState<S> {
    /// The entry for an address, if it is known and still valid.
    #[inline]
    pub(super) fn find(&mut self, address: &SocketAddr) -> Option<&Destination<S>> {
        self.known.find(address)
    }

    /// The same for a message with control data.
    pub(super) fn find_overridden(
        &mut self,
        address: SocketAddr,
        overrides: Overrides,
    ) -> Option<&Destination<S>> {
        self.overridden.find(&(address, overrides))
    }

    /// Remembers a destination that was resolved in `epoch`, if that is still the present.
    pub(super) fn remember(
        &mut self,
        address: SocketAddr,
        overrides: Overrides,
        destination: Destination<S>,
        headers: KnownHeaders,
        epoch: u64,
    ) {
        if epoch != self.epoch {
            return;
        }
        self.headers = headers;
        if overrides == Overrides::default() {
            self.known.remember(address, destination);
        } else {
            self.overridden.remember((address, overrides), destination);
        }
    }

    /// Addresses of the socket.
    pub(super) fn set_addresses(&mut self, addresses: &Addresses, rules: &'static ProcessRules) {
        (self.local, self.peer, self.rules) = (Some(addresses.local), addresses.peer, Some(rules));
        self.versions = addresses.versions;
        self.may_have_error = addresses.peer.is_some() || self.options.reports_errors;
        self.forget_destinations();
    }

    /// Options of the socket.
    pub(super) fn set_options(&mut self, options: SendOptions) {
        self.options = options;
        self.may_have_error = self.peer.is_some() || options.reports_errors;
        self.forget_destinations();
    }

    pub(super) fn options(&self) -> SendOptions {
        self.options
    }

    /// Forgets everything: the socket begins another life, by the calling thread.
    pub(super) fn start_afresh(&mut self, rings: RingPolicy) {
        *self = Self {
            epoch: self.epoch + 1,
            rings,
            migration: Migration::new(rings),
            creator: dev_core::lock::thread_token(),
            ..Self::default()
        };
    }

    /// The socket chooses its rings by something else from here on.
    pub(super) fn choose_rings(&mut self, rings: RingPolicy) {
        (self.rings, self.migration, self.user) = (rings, Migration::new(rings), None);
        self.forget_destinations();
    }

    /// Whose rings the socket sends by. At first that is whoever made it.
    #[cold]
    pub(super) fn user(&mut self, socket: usize) -> RingUser {
        let (creator, rings) = (self.creator, self.rings);
        *self.user.get_or_insert_with(|| RingUser {
            thread: creator,
            ..RingUser::present(rings, socket)
        })
    }

    /// [`Migration::count_call`] has said that it is to be looked who sends. Whether the socket is
    /// the calling thread's from here on, and sends by other rings.
    pub(super) fn moves_to_caller(&mut self, socket: usize) -> bool {
        let own = self.user(socket);
        let present = RingUser::present(self.rings, socket);
        let moves = self.migration.moves(own, present);
        if moves {
            self.user = Some(present);
            self.forget_destinations();
        }
        moves
    }

    /// Forgets every destination: an address or an option of the socket has changed.
    pub(crate) fn forget_destinations(&mut self) {
        self.known.forget();
        self.overridden.forget();
        self.headers = KnownHeaders::default();
        self.epoch += 1;
    }

    /// What the socket's options say of headers, if they were read in this epoch.
    pub(super) fn headers(&self) -> KnownHeaders {
        self.headers
    }

    /// For [`SendState::remember`], taken before addresses and options are read.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the clock has ticked since the last call: a few milliseconds.
    #[inline]
    pub(super) fn tick_has_passed(&mut self) -> bool {
        let now = sys::tick_nsec();
        std::mem::replace(&mut self.asked_at_nsec, now) != now
    }

    /// Counts a datagram that goes through the kernel; says whether to look at the network.
    pub(super) fn counts_kernel_message(&mut self) -> bool {
        self.kernel_messages += 1;
        let look = self.kernel_messages >= KERNEL_MESSAGES_PER_LOOK;
        if look {
            self.kernel_messages = 0;
        }
        look
    }

    #[inline]
    pub(super) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// A message has left as so many datagrams more than one.
    pub(super) fn skip_identifications(&mut self, count: usize) {
        self.identification = self.identification.wrapping_add(count as u16);
    }
}

/// Destinations by what distinguishes them.
#[derive(Debug)]
struct Known<K, S: Stack> {
    latest: Option<(K, Destination<S>)>,
    others: HashMap<K, Destination<S>>,
}

impl<K, S: Stack> Default for Known<K, S> {
    fn default() -> Self {
        Self {
            latest: None,
            others: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, S: Stack> Known<K, S> {
    /// The entry, if it is still valid.
    #[inline]
    fn find(&mut self, key: &K) -> Option<&Destination<S>> {
        let is_latest = self.latest.as_ref().is_some_and(|latest| latest.0 == *key);
        if !is_latest {
            self.make_latest(key)?;
        }
        let latest = self.latest.as_ref().map(|latest| &latest.1);
        latest.filter(|latest| latest.is_current())
    }

    #[cold]
    fn make_latest(&mut self, key: &K) -> Option<()> {
        let wanted = self.others.remove(key)?;
        if let Some((key, previous)) = self.latest.replace((*key, wanted)) {
            self.others.insert(key, previous);
        }
        Some(())
    }

    fn remember(&mut self, key: K, destination: Destination<S>) {
        self.others.remove(&key);
        if let Some((previous_key, previous)) = self.latest.take()
            && previous_key != key
            && previous.is_current()
        {
            if self.others.len() >= DESTINATIONS_MAX {
                self.others.clear();
            }
            self.others.insert(previous_key, previous);
        }
        self.latest = Some((key, destination));
    }

    fn forget(&mut self) {
        self.latest = None;
        self.others.clear();
    }
}

/// What a socket's options say of headers, of each version, as far as they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownHeaders {
    v4: Option<HeaderOptions>,
    v6: Option<HeaderOptions>,
}

impl KnownHeaders {
    fn towards(&mut self, fd: libc::c_int, destination: IpAddr) -> Option<HeaderOptions> {
        let known = match destination {
            IpAddr::V4(_) => &mut self.v4,
            IpAddr::V6(_) => &mut self.v6,
        };
        if known.is_none() {
            *known = HeaderOptions::read(fd, destination);
        }
        *known
    }
}

/// What a socket's options say of datagrams to groups.
#[derive(Clone, Copy, Debug)]
struct GroupOptions {
    /// `IP_MULTICAST_TTL` or `IPV6_MULTICAST_HOPS`
    ttl: u8,
    is_looped: bool,
    /// The address that was given with `IP_MULTICAST_IF`.
    source: Option<Ipv4Addr>,
    /// `IPV6_MULTICAST_IF`: index of the interface, or 0.
    interface: u32,
}

impl GroupOptions {
    fn read(fd: libc::c_int, group: IpAddr) -> Option<Self> {
        let v4 = |name| sys::option_int(fd, libc::IPPROTO_IP, name).ok();
        let v6 = |name| sys::option_int(fd, libc::IPPROTO_IPV6, name).ok();
        let is_looped = is_looped(fd)?;
        Some(match group {
            IpAddr::V4(_) => {
                // The address as it lies in memory.
                let source = Ipv4Addr::from(v4(libc::IP_MULTICAST_IF)?.to_ne_bytes());
                Self {
                    ttl: u8::try_from(v4(libc::IP_MULTICAST_TTL)?).unwrap_or(1),
                    is_looped,
                    source: Some(source).filter(|source| !source.is_unspecified()),
                    interface: 0,
                }
            }
            IpAddr::V6(_) => Self {
                ttl: u8::try_from(v6(libc::IPV6_MULTICAST_HOPS)?).unwrap_or(1),
                is_looped,
                source: None,
                interface: v6(libc::IPV6_MULTICAST_IF)?.cast_unsigned(),
            },
        })
    }
}
