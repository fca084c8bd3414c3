//! The profiles of `VMA_SPEC` and what they preset.

use crate::level::LogLevel;
use crate::params::ParameterId;
use crate::value::Value;

/// A profile of `VMA_SPEC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spec {
    /// No profile.
    None,
    /// The lowest latency for one thread, with the kernel's descriptors looked at rarely or never.
    UltraLatency,
    /// Low latency for one thread, with the kernel's descriptors looked at often.
    Latency,
    /// For 29West's (Informatica's) LBM.
    TwentyNineWest,
    /// For Wombat's (NYSE Technologies') feed handlers.
    WombatFeedHandler,
    /// For memcached, with a ring for each core.
    Memcached,
    /// For memcached, sleeping instead of polling.
    MemcachedInterrupt,
    /// For RTI's middleware.
    Rti,
    /// Low latency for 7750 systems, with many sockets.
    LowLatency7750,
    /// Low latency for two threads, one sending and one receiving.
    MultiRingLatency,
}

impl Spec {
    /// Every profile.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::UltraLatency,
        Self::Latency,
        Self::TwentyNineWest,
        Self::WombatFeedHandler,
        Self::Memcached,
        Self::MemcachedInterrupt,
        Self::Rti,
        Self::LowLatency7750,
        Self::MultiRingLatency,
    ];

    /// The names under which the profile can be asked for, compared without regard to case. The
    /// first is the one to use.
    pub const fn accepted_names(self) -> &'static [&'static str] {
        match self {
            Self::None => &["none", "0"],
            Self::UltraLatency => &["ultra-latency", "10"],
            Self::Latency => &["latency", "15"],
            Self::TwentyNineWest => &["29west", "29"],
            Self::WombatFeedHandler => &["wombat_fh", "554"],
            Self::Memcached => &["mcd", "623"],
            Self::MemcachedInterrupt => &["mcd-irq", "624"],
            Self::Rti => &["rti", "784"],
            Self::LowLatency7750 => &["7750"],
            Self::MultiRingLatency => &["multi_ring_latency"],
        }
    }

    /// The name under which to ask for the profile.
    pub const fn name(self) -> &'static str {
        self.accepted_names()[0]
    }

    /// The name that the banner prints.
    pub const fn display_name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::UltraLatency => "Ultra Latency",
            Self::Latency => "Latency",
            Self::TwentyNineWest => "29West LBM Logic",
            Self::WombatFeedHandler => "Wombat FH LBM Logic",
            Self::Memcached => "Memcached Logic",
            Self::MemcachedInterrupt => "Memcached Interrupt Mode",
            Self::Rti => "RTI Logic",
            Self::LowLatency7750 => "7750 Low Latency Profile",
            Self::MultiRingLatency => "Multi Ring Latency Profile",
        }
    }

    /// Finds the profile that has `text` among its [accepted names](Self::accepted_names).
    /// Blanks around the name are ignored.
    pub fn from_name(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|spec| {
            spec.accepted_names()
                .iter()
                .any(|name| name.eq_ignore_ascii_case(text))
        })
    }

    /// What the profile presets.
    pub fn presets(self) -> &'static [Preset] {
        PRESETS
            .iter()
            .find(|(spec, _)| *spec == self)
            .map_or(&[], |(_, presets)| presets)
    }

    /// Whether the profile uses `VMA_SPEC_PARAM1` and `VMA_SPEC_PARAM2`.
    pub(crate) const fn has_parameters(self) -> bool {
        matches!(self, Self::TwentyNineWest | Self::WombatFeedHandler)
    }
}

/// One value that a profile presets.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The parameter.
    pub parameter: ParameterId,
    value: Constant,
}

impl Preset {
    /// The value it is preset to.
    pub fn value(&self) -> Value {
        match self.value {
            Constant::Bool(value) => Value::Bool(value),
            Constant::Number(value) => Value::Number(value),
            Constant::Level(value) => Value::Level(value),
            Constant::Text(value) => Value::Text(value.into()),
        }
    }
}

/// A [`Value`] that can stand in a constant.
#[derive(Clone, Copy, Debug)]
enum Constant {
    Bool(bool),
    Number(i64),
    Level(LogLevel),
    Text(&'static str),
}

const fn set(name: &str, value: i64) -> Preset {
    Preset {
        parameter: ParameterId::of(name),
        value: Constant::Number(value),
    }
}

const fn on(name: &str) -> Preset {
    Preset {
        parameter: ParameterId::of(name),
        value: Constant::Bool(true),
    }
}

const fn off(name: &str) -> Preset {
    Preset {
        parameter: ParameterId::of(name),
        value: Constant::Bool(false),
    }
}

const fn text(name: &str, value: &'static str) -> Preset {
    Preset {
        parameter: ParameterId::of(name),
        value: Constant::Text(value),
    }
}

const fn level(name: &str, value: LogLevel) -> Preset {
    Preset {
        parameter: ParameterId::of(name),
        value: Constant::Level(value),
    }
}

/// What each profile presets. A profile that is not listed presets nothing.
pub static PRESETS: &[(Spec, &[Preset])] = &[
    (
        Spec::UltraLatency,
        &[
            set("VMA_RING_DEV_MEM_TX", 16_384),
            set("VMA_TX_SEGS_TCP", 512),
            set("VMA_TX_BUFS", 512),
            set("VMA_TX_WRE", 256),
            set("VMA_TX_WRE_BATCHING", 4),
            set("VMA_TX_PREFETCH_BYTES", 256),
            set("VMA_RX_BUFS", 1024),
            set("VMA_RX_WRE", 256),
            set("VMA_RX_WRE_BATCHING", 4),
            set("VMA_RX_POLL", -1),
            set("VMA_RX_UDP_POLL_OS_RATIO", 0),
            set("VMA_RX_PREFETCH_BYTES", 256),
            set("VMA_RX_PREFETCH_BYTES_BEFORE_POLL", 256),
            set("VMA_GRO_STREAMS_MAX", 0),
            set("VMA_SELECT_POLL", -1),
            set("VMA_SELECT_POLL_OS_RATIO", 0),
            set("VMA_SELECT_SKIP_OS", 0),
            set("VMA_PROGRESS_ENGINE_INTERVAL", 0),
            off("VMA_CQ_KEEP_QP_FULL"),
            on("VMA_TCP_NODELAY"),
            on("VMA_AVOID_SYS_CALLS_ON_TCP_FD"),
            text("VMA_INTERNAL_THREAD_AFFINITY", "0"),
            set("VMA_THREAD_MODE", 0),
            set("VMA_MEM_ALLOC_TYPE", 2),
        ],
    ),
    (
        Spec::Latency,
        &[
            set("VMA_RING_DEV_MEM_TX", 16_384),
            set("VMA_TX_WRE", 256),
            set("VMA_TX_WRE_BATCHING", 4),
            set("VMA_RX_WRE", 256),
            set("VMA_RX_WRE_BATCHING", 4),
            set("VMA_RX_POLL", -1),
            set("VMA_RX_PREFETCH_BYTES_BEFORE_POLL", 256),
            set("VMA_GRO_STREAMS_MAX", 0),
            set("VMA_SELECT_POLL", -1),
            set("VMA_SELECT_POLL_OS_RATIO", 1),
            set("VMA_SELECT_SKIP_OS", 1),
            set("VMA_PROGRESS_ENGINE_INTERVAL", 100),
            off("VMA_CQ_KEEP_QP_FULL"),
            on("VMA_TCP_NODELAY"),
            on("VMA_AVOID_SYS_CALLS_ON_TCP_FD"),
            text("VMA_INTERNAL_THREAD_AFFINITY", "0"),
            set("VMA_THREAD_MODE", 0),
            set("VMA_MEM_ALLOC_TYPE", 2),
        ],
    ),
    (
        Spec::TwentyNineWest,
        &[
            set("VMA_SPEC_PARAM1", 5000),
            set("VMA_SPEC_PARAM2", 50),
            set("VMA_RX_POLL", 0),
            set("VMA_RX_UDP_POLL_OS_RATIO", 100),
            set("VMA_SELECT_POLL", 100_000),
            set("VMA_SELECT_POLL_OS_RATIO", 100),
            set("VMA_SELECT_SKIP_OS", 50),
        ],
    ),
    (
        Spec::WombatFeedHandler,
        &[
            set("VMA_SPEC_PARAM1", 5000),
            set("VMA_SPEC_PARAM2", 50),
            set("VMA_RX_POLL", 0),
            set("VMA_RX_UDP_POLL_OS_RATIO", 100),
            set("VMA_SELECT_POLL", 0),
            set("VMA_SELECT_SKIP_OS", 20),
        ],
    ),
    (
        Spec::Memcached,
        &[
            set("VMA_RING_ALLOCATION_LOGIC_TX", 31),
            set("VMA_RING_ALLOCATION_LOGIC_RX", 31),
        ],
    ),
    (
        Spec::MemcachedInterrupt,
        &[
            set("VMA_RING_ALLOCATION_LOGIC_TX", 31),
            set("VMA_RING_ALLOCATION_LOGIC_RX", 31),
            set("VMA_RX_POLL", 0),
            set("VMA_SELECT_POLL", 0),
            off("VMA_CQ_MODERATION_ENABLE"),
        ],
    ),
    (Spec::Rti, &[set("VMA_RX_POLL", -1)]),
    (
        Spec::LowLatency7750,
        &[
            level("VMA_TRACELEVEL", LogLevel::Warning),
            set("VMA_STATS_FD_NUM", 1024),
            set("VMA_TX_BUFS", 8192),
            set("VMA_RX_BUFS", 204_800),
            set("VMA_RX_POLL", -1),
            on("VMA_TCP_3T_RULES"),
            set("VMA_SELECT_POLL", -1),
            set("VMA_SELECT_POLL_OS_RATIO", 0),
            set("VMA_TCP_CTL_THREAD", 2),
            on("VMA_AVOID_SYS_CALLS_ON_TCP_FD"),
            text("VMA_INTERNAL_THREAD_AFFINITY", "0x3"),
            set("VMA_BUFFER_BATCHING_MODE", 0),
        ],
    ),
    (
        Spec::MultiRingLatency,
        &[
            set("VMA_RING_ALLOCATION_LOGIC_TX", 20),
            set("VMA_RING_ALLOCATION_LOGIC_RX", 20),
            set("VMA_RX_POLL", -1),
            set("VMA_SELECT_POLL", -1),
            set("VMA_SELECT_POLL_OS_RATIO", 0),
            set("VMA_SELECT_SKIP_OS", 0),
            set("VMA_MEM_ALLOC_TYPE", 2),
            on("VMA_RX_POLL_ON_TX_TCP"),
            on("VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME"),
        ],
    ),
];

/// What `VMA_SOCKETXTREME=1` presets, before the profile.
pub(crate) static SOCKETXTREME_PRESETS: &[Preset] = &[
    set("VMA_RX_WRE", 1024),
    set("VMA_GRO_STREAMS_MAX", 0),
    set("VMA_PROGRESS_ENGINE_INTERVAL", 0),
];
