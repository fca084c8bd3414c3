//! Socket options of one connection, with the ranges and the errors of Linux (`do_tcp_setsockopt`).

use core::time::Duration;

use crate::{Config, mss};

/// One option and its value, as `set_option` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `TCP_NODELAY`: no Nagle. Setting it also sends what Nagle holds back.
    NoDelay(bool),
    /// `TCP_CORK`: full segments only. Clearing it sends the rest.
    Cork(bool),
    /// `TCP_QUICKACK`.
    QuickAck(bool),
    /// `SO_KEEPALIVE`.
    KeepAlive(bool),
    /// `TCP_KEEPIDLE`: 1 to 32767 s.
    KeepIdle(Duration),
    /// `TCP_KEEPINTVL`: 1 to 32767 s.
    KeepInterval(Duration),
    /// `TCP_KEEPCNT`: 1 to 127.
    KeepCount(u8),
    /// `TCP_USER_TIMEOUT` in whole milliseconds; zero for the default.
    UserTimeout(Duration),
    /// `TCP_MAXSEG`: 88 to 32767 octets, 0 for the path's. Before the handshake.
    MaxSegment(u16),
    /// `TCP_WINDOW_CLAMP` in octets.
    WindowClamp(u32),
    /// `SO_SNDBUF` as it takes effect (twice what was asked for); ends auto-tuning.
    SendBuffer(u32),
    /// `SO_RCVBUF` as it takes effect (twice what was asked for); ends auto-tuning.
    ReceiveBuffer(u32),
    /// `SO_RCVLOWAT` in octets.
    ReceiveLowWater(u32),
    /// `TCP_NOTSENT_LOWAT` in octets; 0 for the default, which is no limit.
    NotSentLowWater(u32),
    /// `TCP_SYNCNT`: 1 to 127.
    SynCount(u8),
    /// `TCP_LINGER2`: how long an orphan stays in FIN-WAIT-2; `None` for not at all.
    Linger2(Option<Duration>),
    /// `SO_MAX_PACING_RATE` in octets a second; `u64::MAX` for none.
    MaxPacingRate(u64),
    /// `TCP_CONGESTION`.
    Congestion(CongestionAlgorithm),
    /// `SO_OOBINLINE`: urgent data stays in the stream.
    OobInline(bool),
    /// `IP_RECVERR`: what ICMP says of a connection over IPv4 is told at once, and once; it goes
    /// on.
    ReportErrors(bool),
    /// `IPV6_RECVERR`: the same over IPv6.
    ReportErrorsOfIpv6(bool),
}

/// Why an option was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// Outside the option's range (`EINVAL`).
    Invalid,
}

/// The options of a socket. They exist before its connection, which takes them over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub(crate) max_pacing_rate: u64,
    pub(crate) keep_idle_secs: u16,
    pub(crate) keep_interval_secs: u16,
    pub(crate) user_timeout_ms: u32,
    /// `None`: stays for the configured time.
    pub(crate) linger2_secs: Linger2,
    pub(crate) window_clamp: u32,
    /// In octets, as is the receive buffer; both are the configured ones until the application
    /// chooses.
    pub(crate) send_buffer: u32,
    pub(crate) receive_buffer: u32,
    pub(crate) receive_low_water: u32,
    pub(crate) not_sent_low_water: u32,
    pub(crate) max_segment: u16,
    pub(crate) keep_count: u8,
    /// 0 for the configured number.
    pub(crate) syn_count: u8,
    pub(crate) congestion: CongestionAlgorithm,
    pub(crate) is_no_delay: bool,
    pub(crate) is_cork: bool,
    /// `TCP_QUICKACK` was turned off.
    pub(crate) is_interactive: bool,
    pub(crate) is_keep_alive: bool,
    pub(crate) is_oob_inline: bool,
    pub(crate) reports_errors: bool,
    pub(crate) reports_errors_of_ipv6: bool,
    /// Auto-tuning of the send buffer is over: the application chose.
    pub(crate) is_send_buffer_locked: bool,
    pub(crate) is_receive_buffer_locked: bool,
}

/// `TCP_LINGER2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linger2 {
    Configured,
    Never,
    Secs(u32),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_pacing_rate: u64::MAX,
            keep_idle_secs: 7200,
            keep_interval_secs: 75,
            user_timeout_ms: 0,
            linger2_secs: Linger2::Configured,
            window_clamp: 0,
            send_buffer: 0,
            receive_buffer: 0,
            receive_low_water: 1,
            not_sent_low_water: NOT_SENT_LOW_WATER,
            max_segment: 0,
            keep_count: 9,
            syn_count: 0,
            congestion: CongestionAlgorithm::default(),
            is_no_delay: false,
            is_cork: false,
            is_interactive: false,
            is_keep_alive: false,
            is_oob_inline: false,
            reports_errors: false,
            reports_errors_of_ipv6: false,
            is_send_buffer_locked: false,
            is_receive_buffer_locked: false,
        }
    }
}

impl Options {
    /// Changes one.
    ///
    /// # Errors
    /// The value is outside the option's range.
    pub fn set(&mut self, option: SocketOption) -> Result<(), OptionError> {
        match option {
            SocketOption::NoDelay(on) => self.is_no_delay = on,
            SocketOption::Cork(on) => self.is_cork = on,
            SocketOption::QuickAck(on) => self.is_interactive = !on,
            SocketOption::KeepAlive(on) => self.is_keep_alive = on,
            SocketOption::KeepIdle(time) => self.keep_idle_secs = keep_alive_secs(time)?,
            SocketOption::KeepInterval(time) => self.keep_interval_secs = keep_alive_secs(time)?,
            SocketOption::KeepCount(count) => self.keep_count = in_range(count, 1, MAX_COUNT)?,
            SocketOption::UserTimeout(time) => {
                self.user_timeout_ms =
                    u32::try_from(time.as_millis()).map_err(|_| OptionError::Invalid)?;
            }
            SocketOption::MaxSegment(0) => self.max_segment = 0,
            SocketOption::MaxSegment(mss) => {
                self.max_segment = in_range(mss, mss::MIN_ANNOUNCED, MAX_MSS)?;
            }
            SocketOption::WindowClamp(clamp) => self.window_clamp = clamp,
            SocketOption::SendBuffer(octets) => {
                self.send_buffer = octets.max(MIN_SEND_BUFFER);
                self.is_send_buffer_locked = true;
            }
            SocketOption::ReceiveBuffer(octets) => {
                self.receive_buffer = octets.max(MIN_RECEIVE_BUFFER);
                self.is_receive_buffer_locked = true;
            }
            SocketOption::ReceiveLowWater(octets) => self.receive_low_water = octets.max(1),
            SocketOption::NotSentLowWater(0) => self.not_sent_low_water = NOT_SENT_LOW_WATER,
            SocketOption::NotSentLowWater(octets) => self.not_sent_low_water = octets,
            SocketOption::SynCount(count) => self.syn_count = in_range(count, 1, MAX_COUNT)?,
            SocketOption::Linger2(None) => self.linger2_secs = Linger2::Never,
            SocketOption::Linger2(Some(time)) => {
                self.linger2_secs = match u32::try_from(time.as_secs()) {
                    Ok(0) => Linger2::Configured,
                    Ok(secs) => Linger2::Secs(secs),
                    Err(_) => return Err(OptionError::Invalid),
                };
            }
            SocketOption::MaxPacingRate(rate) => self.max_pacing_rate = rate,
            SocketOption::Congestion(algorithm) => self.congestion = algorithm,
            SocketOption::OobInline(on) => self.is_oob_inline = on,
            SocketOption::ReportErrors(on) => self.reports_errors = on,
            SocketOption::ReportErrorsOfIpv6(on) => self.reports_errors_of_ipv6 = on,
        }
        Ok(())
    }

    /// Fills in what the application did not choose.
    pub(crate) fn with_defaults(mut self, config: &Config) -> Self {
        if !self.is_send_buffer_locked {
            self.send_buffer = config.send_buffer_default;
        }
        if !self.is_receive_buffer_locked {
            self.receive_buffer = config.receive_buffer_default;
        }
        self
    }
}

/// The values, for `getsockopt(2)`; units as in [`SocketOption`].
impl Options {
    pub fn no_delay(&self) -> bool {
        self.is_no_delay
    }

    pub fn cork(&self) -> bool {
        self.is_cork
    }

    pub fn keep_alive(&self) -> bool {
        self.is_keep_alive
    }

    pub fn keep_idle(&self) -> Duration {
        Duration::from_secs(u64::from(self.keep_idle_secs))
    }

    pub fn keep_interval(&self) -> Duration {
        Duration::from_secs(u64::from(self.keep_interval_secs))
    }

    pub fn keep_count(&self) -> u8 {
        self.keep_count
    }

    pub fn user_timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.user_timeout_ms))
    }

    /// What the application asked for; the one in use is [`Info::snd_mss`](crate::Info::snd_mss).
    pub fn max_segment(&self) -> u16 {
        self.max_segment
    }

    pub fn window_clamp(&self) -> u32 {
        self.window_clamp
    }

    pub fn send_buffer(&self) -> u32 {
        self.send_buffer
    }

    /// What the application asked for; auto-tuning may have gone beyond it
    /// ([`Connection::receive_buffer`](crate::Connection::receive_buffer)).
    pub fn receive_buffer(&self) -> u32 {
        self.receive_buffer
    }

    pub fn receive_low_water(&self) -> u32 {
        self.receive_low_water
    }

    pub fn not_sent_low_water(&self) -> u32 {
        self.not_sent_low_water
    }

    /// `None` for the configured number.
    pub fn syn_count(&self) -> Option<u8> {
        (self.syn_count > 0).then_some(self.syn_count)
    }

    pub fn max_pacing_rate(&self) -> u64 {
        self.max_pacing_rate
    }

    pub fn congestion(&self) -> CongestionAlgorithm {
        self.congestion
    }

    pub fn oob_inline(&self) -> bool {
        self.is_oob_inline
    }

    /// `None` for not at all.
    pub fn linger2(&self, config: &Config) -> Option<Duration> {
        match self.linger2_secs {
            Linger2::Never => None,
            Linger2::Configured => Some(config.fin_timeout),
            Linger2::Secs(secs) => Some(Duration::from_secs(u64::from(secs))),
        }
    }
}

fn keep_alive_secs(time: Duration) -> Result<u16, OptionError> {
    let secs = u16::try_from(time.as_secs()).map_err(|_| OptionError::Invalid)?;
    in_range(secs, 1, MAX_KEEP_ALIVE_SECS)
}

fn in_range<T: PartialOrd>(value: T, min: T, max: T) -> Result<T, OptionError> {
    if min <= value && value <= max {
        Ok(value)
    } else {
        Err(OptionError::Invalid)
    }
}

/// `tcp_notsent_lowat`.
const NOT_SENT_LOW_WATER: u32 = u32::MAX;
/// `SOCK_MIN_SNDBUF`.
pub(crate) const MIN_SEND_BUFFER: u32 = 4608;
/// `SOCK_MIN_RCVBUF`.
const MIN_RECEIVE_BUFFER: u32 = 2304;
/// `MAX_TCP_WINDOW`.
const MAX_MSS: u16 = 32767;
/// `MAX_TCP_KEEPIDLE`.
const MAX_KEEP_ALIVE_SECS: u16 = 32767;
/// `MAX_TCP_KEEPCNT`, `MAX_TCP_SYNCNT`.
const MAX_COUNT: u8 = 127;

/// `TCP_CONGESTION`, `VMA_TCP_CC_ALGO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionAlgorithm {
    /// RFC 9438, with HyStart (as Linux, and RFC 9406).
    #[default]
    Cubic,
    /// RFC 5681, RFC 6582.
    NewReno,
    /// draft-ietf-ccwg-bbr: BBR version 3.
    Bbr,
    /// No control at all: closed networks only.
    None,
}
