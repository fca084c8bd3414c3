//! The library's beginning in a process: started by the first socket that it could
//! accelerate.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use dev_core::Backend;
use dev_verbs::{QueueSizes, VerbsBackend};
use dev_xdp::XdpBackend;
use engine::monitor::ThreadPlace;
use engine::{Engine, Moderation, NetconfNetwork, RingPolicy, Settings};
use stats::{Capacity, Identity, Segment, Setting};
use vma_config::{Config, ExceptionHandling, LogLevel, Parsed};

use crate::banner::print_banner;
use crate::devices::Devices;
use crate::extra::program_memory;
use crate::extra::thread_offload::offloads_by_thread;
use crate::process_state::{self, Device, engine};
use crate::{
    environment, filters, guard, guardian, internal_thread, log_sink, process_end, real,
    rules_file, signals, started_with, stats_file,
};

/// Rings that the statistics have room for: one an interface, and those that sockets send by.
const RINGS_MAX: u32 = 64;
/// Connections that can be shown, so that vmad can reset all of them. Those there are take 320
/// bytes each.
const CONNECTIONS_MAX: u32 = 16_384;

/// Rules of `libvma.conf` that the statistics have room for.
const RULES_MAX: u32 = 64;

/// Starts the library, once. `None`: it cannot run here, and the log has said why.
pub(crate) fn start() -> Option<&'static Engine<Device>> {
    begin();
    if filters::is_out() {
        return None;
    }
    process_state::start(make);
    engine()
}

/// At the process's beginning: in the constructor, or in a hook that another library's constructor
/// calls before.
fn begin() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    process_state::begin();
    guard::prepare();
    real::resolve_all();
    environment::process_starts();
    log_sink::process_starts();
    started_with::look();
    #[cfg(target_arch = "x86_64")]
    crate::own_code::look();
}

/// Whether TCP sockets of this program may be accelerated. Looked up once, without a word: where
/// rules leave all of them to the kernel, the library stays out of the way of programs that have no
/// others.
pub(crate) fn may_accelerate_streams() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    begin();
    if filters::is_out() {
        return false;
    }
    if offloads_by_thread() {
        return true;
    }
    let known = ANSWER.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known == YES;
    }
    let config = configuration().config;
    let may = config.offloaded_sockets && rules_file::may_accelerate_streams(&config);
    ANSWER.store(if may { YES } else { NO }, Ordering::Relaxed);
    may
}

/// The program gives up rights before it has opened a socket: a broker is to know it as it is now.
pub(crate) fn reserve_places() {
    begin();
    let config = configuration().config;
    if config.offloaded_sockets && !filters::is_out() {
        devices(&config).reserve_places(PLACES_RESERVED);
    }
}

/// Of how many interfaces: more than most programs receive by.
const PLACES_RESERVED: usize = 2;

/// The parameters.
fn configuration() -> Parsed {
    Config::parse(environment::variables(), std::process::id())
}

fn make() -> Option<(Box<Engine<Device>>, NetconfNetwork)> {
    dev_core::threads_begin_with(guard::enter_for_good);
    let Parsed { config, warnings } = configuration();
    // Of a process that started the library before, with or without success. Its log is this one's,
    // too.
    static STARTED: AtomicBool = AtomicBool::new(false);
    let is_child = STARTED.swap(true, Ordering::Relaxed);
    if is_child {
        log_sink::continue_in_child(&config);
        log::debug!("a child opens sockets of its own");
    } else {
        log_sink::start(&config);
        print_banner(&config);
        for warning in warnings {
            log_sink::line(warning.severity, &warning.message);
        }
        if config.log_level >= LogLevel::Debug {
            engine::warn_in_a_box(&[
                "VMA is currently configured with high log level".to_owned(),
                "That is for finding faults, and slows the program down: VMA_TRACELEVEL=3"
                    .to_owned(),
            ]);
        }
        std::panic::set_hook(Box::new(|panic| {
            log::error!("internal error, contained: {panic}")
        }));
    }
    if !filters::may_start() {
        return None;
    }
    let network = match NetconfNetwork::open() {
        Ok(network) => network,
        Err(error) => {
            start_failed(
                &config,
                &format_args!("the network configuration cannot be read: {error}"),
            );
            return None;
        }
    };
    let engine = Engine::new(
        settings(&config),
        devices(&config),
        Box::new(network.clone()),
        segment(&config),
    );
    match engine {
        Ok(engine) => {
            internal_thread::runs_at(ThreadPlace {
                cpus: config.internal_thread_cpus.clone(),
                cpus_are_asked_for: config.internal_thread_cpus_are_set,
                cpuset: config.internal_thread_cpuset.clone(),
            });
            engine.open_beside(internal_thread::run_beside);
            engine.follow_rules(rules_file::load(&config));
            engine.list_earlier_sockets(is_child);
            // A child may find the interface in its parent's hands.
            let needs_interface =
                config.exception_handling == ExceptionHandling::ExitOnFailedStart && !is_child;
            NEEDS_INTERFACE.store(needs_interface, Ordering::Relaxed);
            if !is_child {
                if let Some(directory) = &config.stats_shmem_dir {
                    stats::remove_leftovers(directory);
                }
                end_process_orderly();
                if config.handle_sigintr {
                    signals::end_calls_on_sigint();
                }
            }
            Some((engine, network))
        }
        Err(error) => {
            start_failed(&config, &format_args!("no memory for frames: {error}"));
            None
        }
    }
}

fn devices(config: &Config) -> Devices {
    let verbs = config.verbs;
    let sizes = QueueSizes {
        receive: verbs.rx_wre,
        receive_batch: verbs.rx_wre_batching,
        send: verbs.tx_wre,
        send_batch: verbs.tx_wre_batching,
        inline_max: verbs.tx_max_inline,
        blueflame: verbs.blueflame,
    };
    Devices {
        choice: config.device,
        xdp: XdpBackend::new(config.xdp_mode, config.rx_prefetch_bytes as usize)
            .remembered_in(config.stats_shmem_dir.clone())
            .with_broker(config.broker.clone()),
        verbs: VerbsBackend::new(sizes, verbs.fork),
    }
}

fn start_failed(config: &Config, cause: &dyn fmt::Display) {
    if config.exception_handling == ExceptionHandling::ExitOnFailedStart {
        log::error!("vma failed to start: {cause}");
        START_FAILED.store(true, Ordering::Relaxed);
    } else {
        log::warn!("nothing is accelerated: {cause}");
    }
}

/// The library could not start, and the process is to end for it.
static START_FAILED: AtomicBool = AtomicBool::new(false);
/// The process is to end if no interface can be opened.
static NEEDS_INTERFACE: AtomicBool = AtomicBool::new(false);

/// Ends the process if the library could not start and `VMA_EXCEPTION_HANDLING=-2` asks for that.
/// To be called outside of the library, as the process's exit handlers run.
pub(crate) fn end_if_start_failed() {
    let mut failed = START_FAILED.load(Ordering::Relaxed);
    if NEEDS_INTERFACE.load(Ordering::Relaxed) && engine().is_some_and(Engine::has_failed_to_open) {
        log::error!("vma failed to start: no interface could be opened");
        failed = true;
    }
    if failed {
        // As the original's exit(-1), which runs the program's exit handlers.
        // SAFETY: no lock of ours is held, and nothing that is dropped later.
        unsafe { libc::exit(-1) };
    }
}

/// Longer than any interface takes.
const OPEN_WAIT_MAX: Duration = Duration::from_secs(60);

fn settings(config: &Config) -> Settings {
    Settings {
        offloaded_sockets: config.offloaded_sockets,
        socketxtreme: config.socketxtreme,
        exceptions: config.exception_handling,
        thread_mode: config.thread_mode,
        rx_poll: config.rx_poll,
        receive_bytes_min: config.rx_bytes_min as usize,
        full_ring_fails: config.tx_nonblocked_eagains,
        rx_poll_yield: config.rx_poll_yield,
        rx_drain_nsec: config.rx_drain_nsec.into(),
        getsockname_dummy_send: config.getsockname_dummy_send,
        shares_memory: config.shares_memory,
        poll_shared_cpu: config.poll_shared_cpu,
        measures_polling: config.cpu_usage_stats,
        progress_interval: Duration::from_millis(config.progress_interval_msec.into()),
        progress_packets_max: config.progress_packets_max as usize,
        internal_thread_receives: config.internal_thread_receives,
        // Whether the process has to end for want of an interface is known when it was tried.
        open_wait: match config.exception_handling {
            ExceptionHandling::ExitOnFailedStart => OPEN_WAIT_MAX,
            // Programs ask for the rings of a socket as soon as it has an address.
            _ if config.socketxtreme => OPEN_WAIT_MAX,
            _ => Duration::from_millis(config.open_wait_msec.into()),
        },
        wait_after_join: Duration::from_millis(config.wait_after_join_msec.into()),
        device_times: config.device_times,
        tx_mc_loopback: config.tx_mc_loopback,
        tcp_nodelay: config.tcp_nodelay,
        tcp_mtu: config.tcp_mtu,
        tcp_mss: config.tcp_mss,
        tcp_quickack: config.tcp_quickack,
        tcp_timestamps: config.tcp_timestamps,
        tcp_sends_poll: config.tcp_sends_poll,
        tcp_max_syn_rate: config.tcp_max_syn_rate,
        tcp_cc_algo: config.tcp_cc_algo,
        rx_udp_poll_os_ratio: config.rx_udp_poll_os_ratio,
        select_poll_usec: config.select_poll_usec,
        select_poll_os_ratio: config.select_poll_os_ratio,
        select_skip_os: config.select_skip_os,
        poll_batch_max: config.cq_poll_batch_max as usize,
        rings_tx: RingPolicy::new(
            config.ring_logic_tx,
            config.ring_migration_ratio_tx,
            config.ring_limit_per_interface,
        ),
        rings_rx: RingPolicy::new(
            config.ring_logic_rx,
            config.ring_migration_ratio_rx,
            config.ring_limit_per_interface,
        ),
        moderation: Moderation {
            period: Duration::from_micros(config.moderation_period_usec.into()),
            packets: config.moderation_packets,
        },
        pool_frames: config.xdp_pool_frames,
        memory: config.memory,
        memory_is_asked_for: config.memory_is_set,
        program_memory: program_memory(),
    }
}

fn segment(config: &Config) -> Segment {
    let segment = publish(config);
    stats_file::start(config, &segment);
    segment
}

fn publish(config: &Config) -> Segment {
    let identity = Identity::of_this_process(env!("CARGO_PKG_VERSION"));
    let connections = match config.stats_fd_num {
        0 => 0,
        asked => asked.max(CONNECTIONS_MAX),
    };
    let capacity = Capacity {
        sockets: config.stats_fd_num,
        connections,
        rings: RINGS_MAX,
        pools: 1,
        reasons: engine::Reason::ALL.len() as u32,
        settings: vma_config::PARAMETERS.len() as u32,
        rules: RULES_MAX,
    };
    let Some(directory) = &config.stats_shmem_dir else {
        return Segment::private(&identity, capacity);
    };
    match Segment::create(directory, &identity, capacity) {
        Ok(segment) => {
            if config.guardian {
                guardian::reads(directory);
            }
            publish_settings(&segment, config);
            signals::survive_truncated_statistics();
            segment
        }
        Err(error) => {
            log::warn!(
                "no statistics for vma_stats: {}: {error}",
                directory.display()
            );
            Segment::private(&identity, capacity)
        }
    }
}

fn publish_settings(segment: &Segment, config: &Config) {
    let values: Vec<_> = config
        .effective()
        .map(|setting| setting.value.to_environment())
        .collect();
    let settings = config.effective().zip(&values);
    segment.settings(settings.map(|(setting, value)| Setting {
        name: setting.parameter().name,
        value,
        origin: setting.origin.name(),
    }));
}

fn end_process_orderly() {
    extern "C" fn at_exit() {
        process_end::process_ends();
    }
    // SAFETY: the function lives as long as the library, which is never unloaded once its hooks are
    // in use.
    unsafe { libc::atexit(at_exit) };
}

/// Runs before the program's own constructors and `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn constructor() {
        begin();
        // Not yet known to the C library if the beginning was before any constructor.
        environment::process_starts();
        // A crash may come before the first socket.
        if environment::has("VMA_HANDLE_SIGSEGV") && configuration().config.handle_sigsegv {
            signals::log_backtraces();
        }
    }
    constructor
};
