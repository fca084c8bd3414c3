//! Options of TCP sockets. The kernel's socket has them first, and says what is wrong with them; the connection follows.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::tcp::{CongestionAlgorithm, Options, SocketOption};
use libc::c_int;

use crate::sockets::host::Host;
use crate::sockets::option_names::OptionName;
use crate::sockets::reason::Reason;
use crate::sys::{self, streams};
use crate::tcp::common::now;
use crate::tcp::socket::Role;
use crate::tcp::sysctl;
use crate::tcp::way::HeaderOptions;
use crate::tcp::{TcpSocket, TcpStack};

/// What an option means in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing, or something that the kernel's socket does for both.
    None,
    /// Something that the connection does.
    Connection,
    /// How long calls wait.
    Timeout,
    /// Something that a listener does.
    Listener,
    /// What the headers of packets say.
    Headers,
    /// Something that only the kernel does.
    Kernel,
}

const SO_RCVTIMEO_OLD: c_int = 20;
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_OLD: c_int = 21;
const SO_SNDTIMEO_NEW: c_int = 67;

fn effect(level: c_int, name: c_int) -> Effect {
    match (level, name) {
        (
            libc::SOL_SOCKET,
            SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW | SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW,
        ) => Effect::Timeout,
        (
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE
            | libc::SO_RCVBUF
            | libc::SO_RCVBUFFORCE
            | libc::SO_SNDBUF
            | libc::SO_SNDBUFFORCE
            | libc::SO_RCVLOWAT
            | libc::SO_OOBINLINE
            | SO_MAX_PACING_RATE,
        ) => Effect::Connection,
        (
            libc::SOL_SOCKET,
            libc::SO_DEBUG
            | libc::SO_REUSEADDR
            | libc::SO_BROADCAST
            | libc::SO_LINGER
            | libc::SO_BUSY_POLL
            | libc::SO_PREFER_BUSY_POLL
            | libc::SO_BUSY_POLL_BUDGET
            | libc::SO_INCOMING_CPU,
        ) => Effect::None,
        (libc::IPPROTO_IP, libc::IP_TTL | libc::IP_TOS | libc::IP_MTU_DISCOVER) => Effect::Headers,
        (
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY
            | libc::TCP_CORK
            | libc::TCP_QUICKACK
            | libc::TCP_KEEPIDLE
            | libc::TCP_KEEPINTVL
            | libc::TCP_KEEPCNT
            | libc::TCP_USER_TIMEOUT
            | libc::TCP_MAXSEG
            | libc::TCP_WINDOW_CLAMP
            | libc::TCP_NOTSENT_LOWAT
            | libc::TCP_SYNCNT
            | libc::TCP_LINGER2
            | libc::TCP_CONGESTION,
        ) => Effect::Connection,
        // Of a listener's shadow.
        (libc::SOL_SOCKET, libc::SO_PRIORITY) => Effect::None,
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => Effect::Listener,
        _ => Effect::Kernel,
    }
}

const SO_MAX_PACING_RATE: c_int = 47;
/// What the kernel says of `TCP_MAXSEG` before a connection, if it was not set (`TCP_MSS_DEFAULT`).
const MSS_DEFAULT: c_int = 536;

/// What the kernel's socket says of an option of the connection. `None`: nothing that there is a value for.
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

/// Which buffers the program has chosen (`SO_BUF_LOCK`).
const SO_BUF_LOCK: c_int = 72;
const SEND_IS_LOCKED: c_int = 1;
const RECEIVE_IS_LOCKED: c_int = 2;

/// The options of a connection that begins, as the kernel's socket has them before it is connected. `None`: there is one that the
/// engine does not have.
fn of_kernel(fd: c_int) -> Option<Options> {
    let mut options = Options::default();
    let locks = sys::option_int(fd, libc::SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
    let sockets: [(c_int, bool); 6] = [
        (libc::SO_KEEPALIVE, true),
        (libc::SO_OOBINLINE, true),
        (libc::SO_RCVLOWAT, true),
        (libc::SO_RCVBUF, locks & RECEIVE_IS_LOCKED != 0),
        (libc::SO_SNDBUF, locks & SEND_IS_LOCKED != 0),
        (SO_MAX_PACING_RATE, true),
    ];
    for (name, _) in sockets.into_iter().filter(|(_, is_meant)| *is_meant) {
        options.set(read(fd, libc::SOL_SOCKET, name)?).ok()?;
    }
    for name in [
        libc::TCP_NODELAY,
        libc::TCP_CORK,
        libc::TCP_KEEPIDLE,
        libc::TCP_KEEPINTVL,
        libc::TCP_KEEPCNT,
        libc::TCP_USER_TIMEOUT,
        libc::TCP_SYNCNT,
        libc::TCP_LINGER2,
        libc::TCP_NOTSENT_LOWAT,
        libc::TCP_CONGESTION,
    ] {
        options.set(read(fd, libc::IPPROTO_TCP, name)?).ok()?;
    }
    let segment = sys::option_int(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG).ok()?;
    if segment != MSS_DEFAULT {
        let segment = u16::try_from(segment).ok()?;
        options.set(SocketOption::MaxSegment(segment)).ok()?;
    }
    // What the kernel says if it was not set is another value than none.
    let quick = sys::option_int(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK);
    if quick == Ok(0) {
        options.set(SocketOption::QuickAck(false)).ok()?;
    }
    Some(options)
}

/// `TCP_DEFER_ACCEPT`: for how many seconds a listener waits for data, or 0.
pub(super) fn defer_accept(fd: c_int) -> u32 {
    let secs = sys::option_int(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    secs.map_or(0, |secs| u32::try_from(secs).unwrap_or(0))
}

impl<S: TcpStack> TcpSocket<S> {
    /// What a connection begins with, or those of a listener: the options of the kernel's socket, and what the user wants for
    /// programs that want nothing else. `None`: there is one that the engine does not have.
    pub(super) fn options_of_kernel(&self, fd: c_int) -> Option<Options> {
        let mut options = of_kernel(fd)?;
        let is_chosen = self
            .options_set()
            .contains(&(libc::IPPROTO_TCP, libc::TCP_CONGESTION));
        if let Some(algorithm) = self.common.congestion().filter(|_| !is_chosen) {
            options.set(SocketOption::Congestion(algorithm)).ok()?;
        }
        Some(options)
    }

    /// The kernel has accepted a `setsockopt(2)`.
    pub fn option_was_set(&'static self, host: &Host<S>, level: c_int, name: c_int) {
        let fd = self.fd();
        if !self.is_stream() {
            self.options_set().push((level, name));
        }
        match effect(level, name) {
            Effect::None if (level, name) == (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                self.notes_reuse();
            }
            Effect::None => {}
            Effect::Timeout => {
                let shadow = &self.shadow;
                let timeout = |name| sys::option_timeout_nsec(fd, name).unwrap_or(0);
                let (receive, send) = (timeout(libc::SO_RCVTIMEO), timeout(libc::SO_SNDTIMEO));
                shadow
                    .receive_timeout_nsec
                    .store(receive, Ordering::Relaxed);
                shadow.send_timeout_nsec.store(send, Ordering::Relaxed);
            }
            Effect::Connection => {
                if !self.is_stream() {
                    return;
                }
                match read(fd, level, name) {
                    Some(option) => self.change(host, option),
                    None => {
                        host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name))
                    }
                }
            }
            Effect::Listener => {
                if let Role::Listener(listening) = &mut *self.role.lock() {
                    listening.listener.set_defer_accept(defer_accept(fd));
                }
            }
            Effect::Headers => {
                let headers = HeaderOptions::read(fd);
                let mut role = self.role.lock();
                if let (Role::Stream(stream), Some(headers)) = (&mut *role, headers) {
                    stream.headers = headers;
                    stream.way = None;
                    drop(role);
                    self.find_way(host);
                }
            }
            Effect::Kernel => {
                host.leave_to_kernel_about(self.into(), Reason::Option, &text(level, name));
            }
        }
    }

    /// An option that the kernel's socket must not have while its connection is here: it would act by itself. `None`: another one.
    pub fn set_keep_alive(&'static self, host: &Host<S>, on: bool) -> Option<()> {
        if !self.is_stream() {
            return None;
        }
        self.change(host, SocketOption::KeepAlive(on));
        Some(())
    }

    fn change(&'static self, host: &Host<S>, option: SocketOption) {
        let now = now();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        // The kernel has checked the range.
        let _ = stream.connection.set_option(now, option);
        let outcome = stream.settle(&self.core, now);
        let interface = stream.way.as_ref().map(|way| way.interface);
        drop(role);
        self.after(host, &outcome, interface);
    }

    /// Whether a connection of the socket is in user space.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        matches!(&*self.role.lock(), Role::Stream(_))
    }
}

fn text(level: c_int, name: c_int) -> String {
    OptionName { level, name }.to_string()
}
