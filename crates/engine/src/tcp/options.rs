//! Options of TCP sockets. The kernel's socket has them first, and says what is wrong with them;
//! the connection follows.

pub(super) mod effect;

use std::time::Duration;

use links::family::Family;
use links::reason::Reason;

use ::tcp::{CongestionAlgorithm, Options, SocketOption};
use libc::c_int;
use sys::streams;
use vma_config::DeviceTimes;

use crate::sockets::host::Host;
use crate::sockets::option_names::OptionName;
use crate::sockets::options::SO_BUF_LOCK;
use crate::sockets::stack::Stack;
use crate::sockets::stamps::{wants_hardware_stamps, wants_sending_times};
use crate::tcp::clock::now;
use crate::tcp::egress::Headers;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::defaults::Defaults;
use crate::tcp::sysctl;
pub(super) use effect::TCP_INQ;
pub(crate) use effect::takes_over_connection;
use effect::{Effect, SO_MAX_PACING_RATE, effect};

/// What the kernel says of `TCP_MAXSEG` before a connection, if it was not set (`TCP_MSS_DEFAULT`).
const MSS_DEFAULT: c_int = 536;

/// What the kernel's socket says of an option of the connection. `None`: nothing that there is a
/// value for.
fn read(fd: c_int, level: c_int, name: c_int) -> Option<SocketOption> {
    let int = || sys::option_int(fd, level, name).ok();
    let flag = || int().map(|value| value != 0);
    let number = || u32::try_from(int()?).ok();
    let secs = || Some(Duration::from_secs(number()?.into()));
    Some(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => SocketOption::KeepAlive(flag()?),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => SocketOption::OobInline(flag()?),
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => SocketOption::ReceiveLowWater(number()?),
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
            let size = sys::option_int(fd, level, libc::SO_RCVBUF).ok()?;
            SocketOption::ReceiveBuffer(u32::try_from(size).ok()?)
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            let size = sys::option_int(fd, level, libc::SO_SNDBUF).ok()?;
            SocketOption::SendBuffer(u32::try_from(size).ok()?)
        }
        (libc::IPPROTO_IP, libc::IP_RECVERR) => SocketOption::ReportErrors(flag()?),
        // A socket of IPv4 has no such option.
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            SocketOption::ReportErrorsOfIpv6(flag().unwrap_or(false))
        }
        (libc::SOL_SOCKET, SO_MAX_PACING_RATE) => {
            let mut bytes = [0; 8];
            match streams::option_bytes(fd, level, name, &mut bytes).ok()? {
                8 => SocketOption::MaxPacingRate(u64::from_ne_bytes(bytes)),
                _ => match number()? {
                    u32::MAX => SocketOption::MaxPacingRate(u64::MAX),
                    rate => SocketOption::MaxPacingRate(rate.into()),
                },
            }
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => SocketOption::NoDelay(flag()?),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => SocketOption::Cork(flag()?),
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => SocketOption::QuickAck(flag()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => SocketOption::KeepIdle(secs()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => SocketOption::KeepInterval(secs()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => {
            SocketOption::KeepCount(u8::try_from(number()?).ok()?)
        }
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
            SocketOption::UserTimeout(Duration::from_millis(number()?.into()))
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
            SocketOption::MaxSegment(u16::try_from(number()?).ok()?)
        }
        (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) => SocketOption::WindowClamp(number()?),
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => {
            SocketOption::NotSentLowWater(int()?.cast_unsigned())
        }
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => {
            SocketOption::SynCount(u8::try_from(number()?).ok()?)
        }
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) => {
            let time = |secs: c_int| u64::try_from(secs).ok().map(Duration::from_secs);
            SocketOption::Linger2(time(int()?))
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let mut name_bytes = [0; 16];
            let len = streams::option_bytes(fd, level, name, &mut name_bytes).ok()?;
            let text = name_bytes.get(..len)?.split(|byte| *byte == 0).next()?;
            let text = std::str::from_utf8(text).ok()?;
            // Where the program has not chosen one, the engine's own does as well as the system's.
            let own = || sysctl::is_default_congestion(text).then(CongestionAlgorithm::default);
            SocketOption::Congestion(sysctl::algorithm(text).or_else(own)?)
        }
        _ => return None,
    })
}

/// Flags that a value says all of, so that the kernel need not be asked: servers set them with each
/// answer.
fn told(level: c_int, name: c_int, value: c_int) -> Option<SocketOption> {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(SocketOption::NoDelay(value != 0)),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(SocketOption::Cork(value != 0)),
        _ => None,
    }
}

/// What `SO_BUF_LOCK` says.
const SEND_IS_LOCKED: c_int = 1;
const RECEIVE_IS_LOCKED: c_int = 2;

/// Options of a connection that a socket has before it is connected, but for those of its buffers.
const BEFORE_CONNECTION: [(c_int, c_int); 18] = [
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, SO_MAX_PACING_RATE),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
];

/// The options of a connection that begins, as the kernel's socket has them before it is connected.
/// `None`: there is one that the engine does not have.
fn of_kernel(fd: c_int) -> Option<Options> {
    let mut options = Options::default();
    let locks = sys::option_int(fd, libc::SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
    for (name, lock) in [
        (libc::SO_RCVBUF, RECEIVE_IS_LOCKED),
        (libc::SO_SNDBUF, SEND_IS_LOCKED),
    ] {
        if locks & lock != 0 {
            options.set(read(fd, libc::SOL_SOCKET, name)?).ok()?;
        }
    }
    for (level, name) in BEFORE_CONNECTION {
        follow(&mut options, fd, level, name)?;
    }
    Some(options)
}

/// Takes over an option of the kernel's socket. `None`: the engine does not have it.
fn follow(options: &mut Options, fd: c_int, level: c_int, name: c_int) -> Option<()> {
    let option = read(fd, level, name)?;
    match option {
        // What the kernel says if these were not set is another value than none.
        SocketOption::MaxSegment(bytes) if c_int::from(bytes) == MSS_DEFAULT => {}
        SocketOption::QuickAck(true) => {}
        option => options.set(option).ok()?,
    }
    Some(())
}

/// For how long they count.
const DEFAULTS_LAST: Duration = Duration::from_secs(1);

impl<S: Stack> TcpSocket<S> {
    /// The options of a connection that begins, and of its packets' headers: those of the kernel's
    /// socket, and what the user wants where the program wants nothing else. `None`: there is one
    /// that the engine does not have.
    pub(super) fn options_before_connection(&self) -> Option<(Options, Headers)> {
        let (mut options, headers) = self.options_of_kernel()?;
        if let Some(algorithm) = self.globals.congestion()
            && !self.has_set(libc::IPPROTO_TCP, libc::TCP_CONGESTION)
        {
            options.set(SocketOption::Congestion(algorithm)).ok()?;
        }
        Some((options, headers))
    }

    /// The kernel is asked for what the program has set, and now and then for the rest.
    fn options_of_kernel(&self) -> Option<(Options, Headers)> {
        let fd = self.fd();
        let set = self.options_set();
        let now = now();
        let mut known = self.globals.defaults();
        let fresh = known
            .as_ref()
            .filter(|known| now.saturating_since(known.at) < DEFAULTS_LAST);
        let Some(defaults) = fresh else {
            let (options, headers) = (of_kernel(fd)?, Headers::read(fd, &set)?);
            if set.is_empty() {
                *known = Some(Defaults {
                    options: options.clone(),
                    headers,
                    at: now,
                });
            }
            return Some((options, headers));
        };
        let (mut options, mut headers) = (defaults.options.clone(), defaults.headers);
        drop(known);
        let mut header_is_set = false;
        for (level, name) in &*set {
            match effect(*level, *name) {
                Effect::Headers => header_is_set = true,
                Effect::Connection if (*level, *name) != WINDOW_CLAMP => {
                    follow(&mut options, fd, *level, *name)?;
                }
                _ => {}
            }
        }
        if header_is_set {
            headers = Headers::read(fd, &set)?;
        }
        Some((options, headers))
    }

    /// The same later: what the program has set since has come to them.
    pub(super) fn options_since(&self, mut options: Options) -> Option<(Options, Headers)> {
        let fd = self.fd();
        let set = self.options_set();
        for (level, name) in &*set {
            if effect(*level, *name) == Effect::Connection && (*level, *name) != WINDOW_CLAMP {
                follow(&mut options, fd, *level, *name)?;
            }
        }
        Some((options, Headers::read(fd, &set)?))
    }

    /// In a descendant: what was set before the fork. `None`: at the fork another thread was at it.
    pub(crate) fn options_at_fork(&self) -> Option<Vec<(c_int, c_int)>> {
        self.options_set.try_lock().ok().map(|set| set.clone())
    }

    /// Takes note that the kernel's socket has an option that may not be as the system has it.
    pub(crate) fn option_is_set(&self, level: c_int, name: c_int) {
        let mut set = self.options_set();
        if !set.contains(&(level, name)) {
            set.push((level, name));
        }
    }

    /// Whether the program has set an option on the socket, or on the listener that it is of.
    pub(super) fn has_set(&self, level: c_int, name: c_int) -> bool {
        self.options_set().contains(&(level, name))
    }
}

/// What a socket has for which `SIGURG` may be raised.
pub(super) const OWNER: &str = "F_SETOWN";

/// Not among those that a connection begins with.
const WINDOW_CLAMP: (c_int, c_int) = (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);

/// `TCP_DEFER_ACCEPT`: for how many seconds a listener waits for data, or 0.
pub(super) fn defer_accept(fd: c_int) -> u32 {
    let secs = sys::option_int(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    secs.map_or(0, |secs| u32::try_from(secs).unwrap_or(0))
}

impl<S: TcpStack> TcpSocket<S> {
    /// The kernel has accepted a `setsockopt(2)`, of this value if that is known.
    pub fn option_was_set(
        &'static self,
        host: &Host<S>,
        level: c_int,
        name: c_int,
        value: Option<c_int>,
    ) {
        let fd = self.fd();
        self.option_is_set(level, name);
        if self.waits_as_stream() {
            // It may be coming here in this moment, with the options that it had.
            Self::wait_for_hand_over(host);
        }
        if self.is_local() && !is_for_local(level, name) {
            host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name));
        }
        match effect(level, name) {
            Effect::None if (level, name) == (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                self.notes_reuse();
            }
            Effect::None => {}
            Effect::Timeout => self.kernel_socket.read_timeouts(),
            Effect::Connection => {
                let is_known = if self.is_stream() {
                    let told = value.and_then(|value| told(level, name, value));
                    let option = told.or_else(|| read(fd, level, name));
                    option.map(|option| self.change(host, option))
                } else {
                    self.change_of_listener(fd, level, name)
                };
                if is_known.is_none() {
                    host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name));
                }
            }
            Effect::Messages => self.wishes.read_unread(fd),
            Effect::Stamps => self.stamps_were_set(host, (level, name)),
            Effect::Hops => self.wishes.read_hops(fd),
            Effect::SavedSyn => {
                self.wishes.read_saves_syn(fd);
                self.globals.saved_syns.begin();
            }
            Effect::Listener => {
                if let Role::Listener(listening) = &mut *self.role.lock() {
                    listening.listener.set_defer_accept(defer_accept(fd));
                }
            }
            Effect::Headers => {
                let headers = Headers::read(fd, &self.options_set());
                let mut role = self.role.lock();
                match (&mut *role, headers) {
                    (Role::Stream(stream), Some(headers)) => {
                        stream.headers = headers;
                        stream.egress = None;
                        drop(role);
                        self.find_way(host);
                    }
                    (Role::Listener(listening), Some(headers)) => listening.headers = headers,
                    _ => {}
                }
            }
            Effect::Choice => {
                // Of a lone listener it says nothing about who else may come.
                let is_choice = name == libc::SO_REUSEPORT || self.may_share();
                if is_choice && (self.is_listener() || self.waits_to_listen()) {
                    host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name));
                }
            }
            Effect::Device => self.device_was_set(host, level, name),
            Effect::Family => self.set_family(Family::Inet),
            Effect::Kernel => {
                host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name));
            }
        }
    }

    fn stamps_were_set(&'static self, host: &Host<S>, (level, name): (c_int, c_int)) {
        let fd = self.fd();
        let hardware = || {
            host.settings().device_times != DeviceTimes::Off
                && wants_hardware_stamps(fd)
                && host.links.has_hardware_stamps()
        };
        if wants_sending_times(fd) || hardware() {
            host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name));
            return;
        }
        self.wishes.read_stamps(fd);
        self.follow_wish_for_stamps();
    }

    /// Has the devices note when segments come if the program is to be told. To be called when it
    /// asks or asks no longer, and when there are others.
    pub(super) fn follow_wish_for_stamps(&self) {
        let noted = self.wishes.stamps().noted();
        self.stamped
            .become_those(|| (noted, self.interfaces.iter()));
    }

    /// The kernel is about to be asked for an option that takes over the connection
    /// (`calls::SetOption`): it is to have that first.
    pub fn option_takes_over(&'static self, host: &Host<S>, level: c_int, name: c_int) {
        if self.is_stream() || self.is_listener() || self.is_local() {
            host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name));
        }
    }

    /// The kernel has accepted another owner (`F_SETOWN`): it raises `SIGURG` for what it sees. A
    /// connection that begins looks for one.
    pub fn owner_was_set(&'static self, host: &Host<S>) {
        if (self.is_stream() || self.is_local()) && sys::has_owner(self.fd()) {
            host.leave_to_kernel_about(self.into(), Reason::Option, OWNER);
        }
    }

    /// An option that the kernel's socket must not have while its connection is here: it would act
    /// by itself. `None`: another one.
    pub fn set_keep_alive(&'static self, host: &Host<S>, on: bool) -> Option<()> {
        if !self.is_stream() {
            return None;
        }
        self.option_is_set(libc::SOL_SOCKET, libc::SO_KEEPALIVE);
        self.change(host, SocketOption::KeepAlive(on));
        Some(())
    }

    /// Connections that a listener's peers open from here on have the option. `None`: the engine
    /// does not have it.
    fn change_of_listener(&self, fd: c_int, level: c_int, name: c_int) -> Option<()> {
        if (level, name) == WINDOW_CLAMP {
            return Some(());
        }
        match &mut *self.role.lock() {
            Role::Listener(listening) => follow(&mut listening.options, fd, level, name),
            _ => Some(()),
        }
    }

    fn change(&'static self, host: &Host<S>, option: SocketOption) {
        // The kernel has checked the range.
        self.change_stream(host, |stream, now| {
            let _ = stream.connection.set_option(now, option);
        });
    }

    /// Whether a connection of the socket is in user space.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        matches!(&*self.role.lock(), Role::Stream(_))
    }
}

/// Whether an option of a connection within this host is no matter of its octets, or one of the
/// kernel's socket alone.
fn is_for_local(level: c_int, name: c_int) -> bool {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT | libc::SO_OOBINLINE) => false,
        _ => matches!(
            effect(level, name),
            Effect::None
                | Effect::Connection
                | Effect::Timeout
                | Effect::Listener
                | Effect::Headers
                | Effect::SavedSyn
                | Effect::Choice
        ),
    }
}

/// Whether a connection with these options may share memory with its peer.
pub(super) fn may_be_local(set: &[(c_int, c_int)]) -> bool {
    set.iter().all(|(level, name)| is_for_local(*level, *name))
}

fn text(level: c_int, name: c_int) -> String {
    OptionName { level, name }.to_string()
}
