//! The configuration of a process, read from its environment.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::devices::{DeviceChoice, DeviceTimes, VerbsSettings, XdpMode};
use crate::environment::parse_environment;
use crate::level::LogLevel;
use crate::params::{Parameter, ParameterId};
use crate::parse;
use crate::preset::Spec;
use crate::settings::{Origin, Settings};
use crate::value::Value;
use crate::warning::Warning;

/// The configuration of a process: a field for each parameter that this release acts on, and the
/// value of every parameter through [`Self::effective`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `VMA_SPEC`: the profile whose presets were applied.
    pub spec: Spec,
    /// `VMA_TRACELEVEL`: log lines up to this level are written; at most [`LogLevel::MAX`].
    pub log_level: LogLevel,
    /// `VMA_LOG_DETAILS`: what log lines begin with, 0..3.
    pub log_details: u8,
    /// `VMA_LOG_COLORS`: colour log lines if they go to a terminal.
    pub log_colors: bool,
    /// `VMA_LOG_FILE`: where log lines go; `None` is standard error.
    pub log_file: Option<PathBuf>,
    /// `VMA_STATS_FILE`: where each socket's statistics are appended when it is closed.
    pub stats_file: Option<PathBuf>,
    /// `VMA_STATS_SHMEM_DIR`: the directory of the statistics segment; `None` publishes none.
    pub stats_shmem_dir: Option<PathBuf>,
    /// `VMA_STATS_FD_NUM`: how many sockets the statistics have room for, 0..1024.
    pub stats_fd_num: u32,
    /// `VMA_CONFIG_FILE`: the file with the rules; `None` reads none.
    pub config_file: Option<PathBuf>,
    /// Whether a variable names the file: then it is expected to be there.
    pub config_file_is_named: bool,
    /// `VMA_APPLICATION_ID`: whose rules to follow.
    pub application_id: String,
    /// `VMA_GUARDIAN`: another process tells peers when this one is killed.
    pub guardian: bool,
    /// `VMA_BROKER`: the socket of a broker that opens interfaces; `None` uses none.
    pub broker: Option<PathBuf>,
    /// `VMA_HANDLE_SIGINTR`: `SIGINT` ends every call that waits.
    pub handle_sigintr: bool,
    /// `VMA_HANDLE_SIGSEGV`: a crash logs where it happened.
    pub handle_sigsegv: bool,
    /// `VMA_RX_POLL`: how often a blocking receive polls in vain before it sleeps. -1 is for ever,
    /// otherwise 1..100000000.
    pub rx_poll: i32,
    /// `VMA_RX_BYTES_MIN`
    pub rx_bytes_min: u32,
    /// `VMA_RX_CQ_DRAIN_RATE_NSEC`: nanoseconds between polls of receive calls that find data
    /// waiting; 0 is never.
    pub rx_drain_nsec: u32,
    /// `VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME`
    pub getsockname_dummy_send: bool,
    /// `VMA_HW_TS_CONVERSION`
    pub device_times: DeviceTimes,
    /// `VMA_TX_NONBLOCKED_EAGAINS`
    pub tx_nonblocked_eagains: bool,
    /// `VMA_RX_POLL_YIELD`: after how many polls in vain a blocking receive offers its processor to
    /// others; 0 is never.
    pub rx_poll_yield: u32,
    /// `VMA_SHM`: connections within the host go through memory that both processes share.
    pub shares_memory: bool,
    /// `VMA_POLL_SHARED_CPU`: poll on a CPU that other threads need, too.
    pub poll_shared_cpu: bool,
    /// `VMA_TCP_NODELAY`
    pub tcp_nodelay: bool,
    /// `VMA_RX_POLL_ON_TX_TCP`
    pub tcp_sends_poll: bool,
    /// `VMA_TCP_MAX_SYN_RATE`
    pub tcp_max_syn_rate: u32,
    /// `VMA_TX_MC_LOOPBACK`
    pub tx_mc_loopback: bool,
    /// `VMA_CPU_USAGE_STATS`
    pub cpu_usage_stats: bool,
    /// `VMA_PROGRESS_ENGINE_INTERVAL`: how often rings that nobody polls are looked at; 0 is never.
    pub progress_interval_msec: u32,
    /// `VMA_PROGRESS_ENGINE_WCE_MAX`: the most packets taken from one of them at a time; 0 is none.
    pub progress_packets_max: u32,
    /// `VMA_INTERNAL_THREAD_ARM_CQ`
    pub internal_thread_receives: bool,
    /// `VMA_OPEN_WAIT_MSEC`: how long a call waits at most for an interface that is being opened.
    pub open_wait_msec: u32,
    /// `VMA_WAIT_AFTER_JOIN_MSEC`
    pub wait_after_join_msec: u32,
    /// `VMA_INTERNAL_THREAD_AFFINITY`: the processors of the internal thread; `None` leaves it to
    /// the kernel.
    pub internal_thread_cpus: Option<Vec<u32>>,
    /// Whether a variable names them: then it is expected that they can be had.
    pub internal_thread_cpus_are_set: bool,
    /// `VMA_INTERNAL_THREAD_CPUSET`: the directory of the cpuset that the internal thread goes
    /// into.
    pub internal_thread_cpuset: Option<PathBuf>,
    /// `VMA_MTU`: the largest packet of TCP, 0 for the interface's.
    pub tcp_mtu: u32,
    /// `VMA_MSS`, 0 for the path's.
    pub tcp_mss: u32,
    /// `VMA_TCP_QUICKACK`
    pub tcp_quickack: bool,
    /// `VMA_TCP_TIMESTAMP_OPTION`, if the environment says on or off.
    pub tcp_timestamps: Option<bool>,
    /// `VMA_TCP_CC_ALGO`, 0..2, if the environment says so.
    pub tcp_cc_algo: Option<u32>,
    /// `VMA_RX_UDP_POLL_OS_RATIO`: polls of the ring for each look into the kernel's socket; 0 is
    /// never.
    pub rx_udp_poll_os_ratio: u32,
    /// `VMA_RX_PREFETCH_BYTES`: bytes of a received packet that go into the cache at once, 32..2044.
    pub rx_prefetch_bytes: u32,
    /// `VMA_SELECT_POLL`: how long select() and its relatives poll before they sleep. -1 is for
    /// ever, otherwise 0..100000000 microseconds.
    pub select_poll_usec: i32,
    /// `VMA_SELECT_POLL_OS_RATIO`: polls of the rings for each question to the kernel; 0 is only
    /// before sleeping.
    pub select_poll_os_ratio: u32,
    /// `VMA_SELECT_SKIP_OS`: after how many calls that find an accelerated socket ready at once the
    /// kernel is asked, too; 0 is never.
    pub select_skip_os: u32,
    /// `VMA_CQ_POLL_BATCH_MAX`: the most packets that one poll takes from a ring, 1..128.
    pub cq_poll_batch_max: u32,
    /// `VMA_CQ_MODERATION_PERIOD_USEC`: how long a thread that sleeps leaves the packets of a
    /// stream alone; 0 if `VMA_CQ_MODERATION_ENABLE` is off.
    pub moderation_period_usec: u32,
    /// `VMA_CQ_MODERATION_COUNT`: until about so many wait.
    pub moderation_packets: u32,
    /// `VMA_OFFLOADED_SOCKETS`: whether new sockets are accelerated.
    pub offloaded_sockets: bool,
    /// `VMA_SOCKETXTREME`
    pub socketxtreme: bool,
    /// `VMA_EXCEPTION_HANDLING`: what is done when a program asks for what is not supported.
    pub exception_handling: ExceptionHandling,
    /// `VMA_THREAD_MODE`: how sockets are protected against concurrent use.
    pub thread_mode: ThreadMode,
    /// `VMA_MEM_ALLOC_TYPE`: what the frames' memory is made of.
    pub memory: MemoryKind,
    /// Whether the environment says so.
    pub memory_is_set: bool,
    /// `VMA_RING_ALLOCATION_LOGIC_TX`: which sockets share a ring for sending.
    pub ring_logic_tx: RingLogic,
    /// `VMA_RING_MIGRATION_RATIO_TX`: after how many sends it is looked whether a socket is another
    /// thread's or core's by now; 0 is never.
    pub ring_migration_ratio_tx: u32,
    /// `VMA_RING_ALLOCATION_LOGIC_RX`: which sockets share a ring for receiving.
    pub ring_logic_rx: RingLogic,
    /// `VMA_RING_MIGRATION_RATIO_RX`: after how many receive calls it is looked whether a socket is
    /// another thread's or core's by now; 0 is never.
    pub ring_migration_ratio_rx: u32,
    /// `VMA_RING_LIMIT_PER_INTERFACE`: the most rings of an interface; 0 is no limit.
    pub ring_limit_per_interface: u32,
    /// `VMA_DEVICE`: by what packets pass the kernel.
    pub device: DeviceChoice,
    /// How RDMA devices are used.
    pub verbs: VerbsSettings,
    /// `VMA_XDP_MODE`: where the XDP program runs.
    pub xdp_mode: XdpMode,
    /// `VMA_XDP_POOL_FRAMES`: how many frames all rings share, a power of two in 1024..1048576.
    pub xdp_pool_frames: u32,
    settings: Settings,
}

/// What is done when a program asks for what is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptionHandling {
    /// As [`LogDebug`](Self::LogDebug); and a process in which the library cannot start ends.
    ExitOnFailedStart,
    /// It is logged at level DEBUG, and the kernel does it.
    LogDebug,
    /// It is logged at level DEBUG, and the socket goes back to the kernel.
    LogDebugAndUnoffload,
    /// It is logged at level ERROR, and the socket goes back to the kernel.
    LogErrorAndUnoffload,
    /// It is logged at level ERROR, and the call fails.
    ReturnError,
    /// It is logged at level ERROR, and the process aborts.
    Abort,
}

/// Which sockets share a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingLogic {
    /// All.
    PerInterface,
    /// Those with one local address.
    PerAddress,
    /// None.
    PerSocket,
    /// Those of one thread.
    PerThread,
    /// Those used on one core.
    PerCore,
    /// The same, and each thread stays on the core on which it first had to do with a ring.
    PerCoreAttached,
}

/// How accelerated sockets are protected against use by several threads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadMode {
    /// Not at all: the program uses sockets from one thread only.
    Single,
    /// With spin locks.
    SpinLock,
    /// With mutexes.
    MutexLock,
    /// With spin locks that yield the processor.
    MoreThreadsThanCores,
}

/// What frames' memory is made of. Huge pages that are not to be had are replaced by ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Huge pages from the system's reserve.
    HugePages,
    /// Large pages where the kernel finds some.
    Contiguous,
    /// Ordinary pages.
    Ordinary,
}

const INTERNAL_THREAD_AFFINITY: ParameterId = ParameterId::of("VMA_INTERNAL_THREAD_AFFINITY");
const TIMESTAMPS: ParameterId = ParameterId::of("VMA_TCP_TIMESTAMP_OPTION");
const CONGESTION: ParameterId = ParameterId::of("VMA_TCP_CC_ALGO");
const MEMORY: ParameterId = ParameterId::of("VMA_MEM_ALLOC_TYPE");
const MODERATION: ParameterId = ParameterId::of("VMA_CQ_MODERATION_ENABLE");
const EXCEPTIONS: ParameterId = ParameterId::of("VMA_EXCEPTION_HANDLING");
const RING_LIMIT: ParameterId = ParameterId::of("VMA_RING_LIMIT_PER_INTERFACE");

/// An environment's configuration and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The configuration; every value is within its range.
    pub config: Config,
    /// Remarks about variables, in the order in which they were found.
    pub warnings: Vec<Warning>,
}

/// The value that one parameter has in a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective<'a> {
    /// The parameter.
    pub id: ParameterId,
    /// Its value.
    pub value: &'a Value,
    /// What gave it this value.
    pub origin: Origin,
    /// Whether the value equals the parameter's default, whatever gave it.
    pub is_default: bool,
}

impl Effective<'_> {
    /// The parameter's table entry.
    pub fn parameter(&self) -> &'static Parameter {
        self.id.parameter()
    }
}

impl Default for Config {
    /// The configuration of an empty environment.
    fn default() -> Self {
        Self::from_settings(Settings::defaults())
    }
}

impl Config {
    /// Reads the variables of an environment that begin with `VMA_`; when a name occurs twice, the
    /// first counts, as with `getenv`. `pid` replaces the first `%d` in names of files.
    ///
    /// Each parameter gets its default, then what `VMA_SOCKETXTREME` and the profile of `VMA_SPEC`
    /// preset, then what an older name of it says, then its own variable. Finally parameters that
    /// depend on each other are made to agree. A variable that cannot be used counts as not set.
    ///
    /// Reads nothing but its arguments and never panics.
    pub fn parse(environment: impl IntoIterator<Item = (OsString, OsString)>, pid: u32) -> Parsed {
        let (settings, warnings) = parse_environment(environment, pid);
        Parsed {
            config: Self::from_settings(settings),
            warnings,
        }
    }

    /// The value of every parameter, in banner order.
    pub fn effective(&self) -> impl ExactSizeIterator<Item = Effective<'_>> {
        ParameterId::all().map(|id| {
            let value = self.settings.value(id);
            let is_default = *value == id.parameter().default_value();
            Effective {
                id,
                value,
                origin: self.settings.origin(id),
                is_default,
            }
        })
    }

    /// The value of the parameter named `name`, if there is one.
    pub fn value(&self, name: &str) -> Option<&Value> {
        ParameterId::find(name).map(|id| self.settings.value(id))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn from_settings(settings: Settings) -> Self {
        // The table keeps every number within the type of its field, so nothing is ever lost here;
        // a test sets each parameter to the ends of its range.
        let unsigned = |id| u32::try_from(settings.number(id)).unwrap_or_default();
        let signed = |id| i32::try_from(settings.number(id)).unwrap_or_default();
        let ring_logic = |id| match settings.number(id) {
            1 => RingLogic::PerAddress,
            10 => RingLogic::PerSocket,
            20 => RingLogic::PerThread,
            30 => RingLogic::PerCore,
            31 => RingLogic::PerCoreAttached,
            _ => RingLogic::PerInterface,
        };
        let path = |id| match settings.value(id) {
            Value::Text(text) if !text.is_empty() => Some(PathBuf::from(text)),
            _ => None,
        };
        Self {
            spec: settings.spec(),
            log_level: match *settings.value(const { ParameterId::of("VMA_TRACELEVEL") }) {
                Value::Level(level) => level,
                _ => LogLevel::Info,
            },
            log_details: u8::try_from(
                settings.number(const { ParameterId::of("VMA_LOG_DETAILS") }),
            )
            .unwrap_or_default(),
            log_colors: settings.is_on(const { ParameterId::of("VMA_LOG_COLORS") }),
            log_file: path(const { ParameterId::of("VMA_LOG_FILE") }),
            stats_file: path(const { ParameterId::of("VMA_STATS_FILE") }),
            stats_shmem_dir: path(const { ParameterId::of("VMA_STATS_SHMEM_DIR") }),
            stats_fd_num: unsigned(const { ParameterId::of("VMA_STATS_FD_NUM") }),
            config_file: path(const { ParameterId::of("VMA_CONFIG_FILE") }),
            config_file_is_named: settings
                .is_from_environment(const { ParameterId::of("VMA_CONFIG_FILE") }),
            application_id: match settings.value(const { ParameterId::of("VMA_APPLICATION_ID") }) {
                Value::Text(text) => text.to_string_lossy().into_owned(),
                _ => String::new(),
            },
            guardian: settings.is_on(const { ParameterId::of("VMA_GUARDIAN") }),
            broker: path(const { ParameterId::of("VMA_BROKER") }),
            handle_sigintr: settings.is_on(const { ParameterId::of("VMA_HANDLE_SIGINTR") }),
            handle_sigsegv: settings.is_on(const { ParameterId::of("VMA_HANDLE_SIGSEGV") }),
            rx_bytes_min: unsigned(const { ParameterId::of("VMA_RX_BYTES_MIN") }),
            rx_drain_nsec: unsigned(const { ParameterId::of("VMA_RX_CQ_DRAIN_RATE_NSEC") }),
            getsockname_dummy_send: settings
                .is_on(const { ParameterId::of("VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME") }),
            device_times: DeviceTimes::of(&settings),
            tx_nonblocked_eagains: settings
                .is_on(const { ParameterId::of("VMA_TX_NONBLOCKED_EAGAINS") }),
            rx_poll_yield: unsigned(const { ParameterId::of("VMA_RX_POLL_YIELD") }),
            shares_memory: settings.is_on(const { ParameterId::of("VMA_SHM") }),
            poll_shared_cpu: settings.is_on(const { ParameterId::of("VMA_POLL_SHARED_CPU") }),
            tx_mc_loopback: settings.is_on(const { ParameterId::of("VMA_TX_MC_LOOPBACK") }),
            cpu_usage_stats: settings.is_on(const { ParameterId::of("VMA_CPU_USAGE_STATS") }),
            progress_interval_msec: unsigned(
                const { ParameterId::of("VMA_PROGRESS_ENGINE_INTERVAL") },
            ),
            progress_packets_max: unsigned(
                const { ParameterId::of("VMA_PROGRESS_ENGINE_WCE_MAX") },
            ),
            internal_thread_receives: settings
                .is_on(const { ParameterId::of("VMA_INTERNAL_THREAD_ARM_CQ") }),
            open_wait_msec: unsigned(const { ParameterId::of("VMA_OPEN_WAIT_MSEC") }),
            wait_after_join_msec: unsigned(const { ParameterId::of("VMA_WAIT_AFTER_JOIN_MSEC") }),
            internal_thread_cpus: match settings.value(INTERNAL_THREAD_AFFINITY) {
                Value::Text(text) => text.to_str().and_then(parse::cpus),
                _ => None,
            },
            internal_thread_cpus_are_set: settings.is_from_environment(INTERNAL_THREAD_AFFINITY),
            internal_thread_cpuset: path(const { ParameterId::of("VMA_INTERNAL_THREAD_CPUSET") }),
            tcp_nodelay: settings.is_on(const { ParameterId::of("VMA_TCP_NODELAY") }),
            tcp_mtu: unsigned(const { ParameterId::of("VMA_MTU") }),
            tcp_mss: unsigned(const { ParameterId::of("VMA_MSS") }),
            tcp_quickack: settings.is_on(const { ParameterId::of("VMA_TCP_QUICKACK") }),
            tcp_timestamps: match settings.number(TIMESTAMPS) {
                number @ (0 | 1) if settings.is_from_environment(TIMESTAMPS) => Some(number == 1),
                _ => None,
            },
            tcp_cc_algo: settings
                .is_from_environment(CONGESTION)
                .then(|| unsigned(CONGESTION)),
            tcp_sends_poll: settings.is_on(const { ParameterId::of("VMA_RX_POLL_ON_TX_TCP") }),
            tcp_max_syn_rate: unsigned(const { ParameterId::of("VMA_TCP_MAX_SYN_RATE") }),
            rx_poll: signed(const { ParameterId::of("VMA_RX_POLL") }),
            rx_udp_poll_os_ratio: unsigned(const { ParameterId::of("VMA_RX_UDP_POLL_OS_RATIO") }),
            rx_prefetch_bytes: unsigned(const { ParameterId::of("VMA_RX_PREFETCH_BYTES") }),
            select_poll_usec: signed(const { ParameterId::of("VMA_SELECT_POLL") }),
            select_poll_os_ratio: unsigned(const { ParameterId::of("VMA_SELECT_POLL_OS_RATIO") }),
            select_skip_os: unsigned(const { ParameterId::of("VMA_SELECT_SKIP_OS") }),
            cq_poll_batch_max: unsigned(const { ParameterId::of("VMA_CQ_POLL_BATCH_MAX") }),
            moderation_period_usec: match settings.is_on(MODERATION) {
                true => unsigned(const { ParameterId::of("VMA_CQ_MODERATION_PERIOD_USEC") }),
                false => 0,
            },
            moderation_packets: unsigned(const { ParameterId::of("VMA_CQ_MODERATION_COUNT") }),
            offloaded_sockets: settings.is_on(const { ParameterId::of("VMA_OFFLOADED_SOCKETS") }),
            socketxtreme: settings.is_on(const { ParameterId::of("VMA_SOCKETXTREME") }),
            exception_handling: match settings.number(EXCEPTIONS) {
                -2 => ExceptionHandling::ExitOnFailedStart,
                0 => ExceptionHandling::LogDebugAndUnoffload,
                1 => ExceptionHandling::LogErrorAndUnoffload,
                2 => ExceptionHandling::ReturnError,
                3 => ExceptionHandling::Abort,
                _ => ExceptionHandling::LogDebug,
            },
            thread_mode: match settings.number(const { ParameterId::of("VMA_THREAD_MODE") }) {
                0 => ThreadMode::Single,
                2 => ThreadMode::MutexLock,
                3 => ThreadMode::MoreThreadsThanCores,
                _ => ThreadMode::SpinLock,
            },
            memory: match settings.number(MEMORY) {
                2 => MemoryKind::HugePages,
                1 | 3 => MemoryKind::Contiguous,
                _ => MemoryKind::Ordinary,
            },
            memory_is_set: settings.is_from_environment(MEMORY),
            ring_logic_tx: ring_logic(const { ParameterId::of("VMA_RING_ALLOCATION_LOGIC_TX") }),
            ring_logic_rx: ring_logic(const { ParameterId::of("VMA_RING_ALLOCATION_LOGIC_RX") }),
            ring_migration_ratio_tx: unsigned(
                const { ParameterId::of("VMA_RING_MIGRATION_RATIO_TX") },
            ),
            ring_migration_ratio_rx: unsigned(
                const { ParameterId::of("VMA_RING_MIGRATION_RATIO_RX") },
            ),
            ring_limit_per_interface: unsigned(RING_LIMIT),
            device: match *settings.value(const { ParameterId::of("VMA_DEVICE") }) {
                Value::Word("xdp") => DeviceChoice::Xdp,
                Value::Word("verbs") => DeviceChoice::Verbs,
                _ => DeviceChoice::Auto,
            },
            verbs: VerbsSettings::of(&settings),
            xdp_mode: match *settings.value(const { ParameterId::of("VMA_XDP_MODE") }) {
                Value::Word("native") => XdpMode::Native,
                Value::Word("generic") => XdpMode::Generic,
                _ => XdpMode::Auto,
            },
            xdp_pool_frames: unsigned(const { ParameterId::of("VMA_XDP_POOL_FRAMES") }),
            settings,
        }
    }
}
