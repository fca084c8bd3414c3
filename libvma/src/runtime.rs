//! The library's life in a process: started by the first socket that it could accelerate.

use std::ffi::CStr;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use dev_xdp::XdpBackend;
use engine::monitor::Monitor;
use engine::{Engine, EpollSet, NetconfNetwork, Object, Settings, UdpSocket};
use libc::{c_int, c_uint};
use stats::{Capacity, Identity, Segment, Setting};
use vma_config::{BannerFacts, Config, ExceptionHandling, LogLevel, Parsed, SystemFacts};

use crate::environment;
use crate::guard;
use crate::life;
pub(crate) use crate::life::has_ancestors;
use crate::log_sink;
use crate::real;
use crate::rules_file;
use crate::signals;

/// The back-end of this library.
pub(crate) type Device = XdpBackend;

/// Rings that the statistics have room for: one an interface.
const RINGS_MAX: u32 = 16;

/// Rules of `libvma.conf` that the statistics have room for.
const RULES_MAX: u32 = 64;

/// The engine, if it runs in this process.
#[inline]
pub(crate) fn engine() -> Option<&'static Engine<Device>> {
    life::engine()
}

/// The UDP socket behind a descriptor that is about to be used, if it is one of ours. One that ancestors have in user space
/// comes back to the kernel.
#[inline]
pub(crate) fn udp(fd: c_int) -> Option<(&'static Engine<Device>, &'static UdpSocket<Device>)> {
    let found = udp_to_send(fd);
    if found.is_none() {
        recall(fd);
    }
    found
}

/// The same for sending, which the kernel can do for a descendant while its ancestor receives.
#[inline]
pub(crate) fn udp_to_send(
    fd: c_int,
) -> Option<(&'static Engine<Device>, &'static UdpSocket<Device>)> {
    let engine = engine()?;
    engine.udp(fd).map(|socket| (engine, socket))
}

/// The engine, if a descriptor stands for something of ours.
#[inline]
pub(crate) fn look_up(fd: c_int) -> Option<&'static Engine<Device>> {
    engine().filter(|engine| engine.look_up(fd).is_some())
}

/// The epoll set behind a descriptor that is about to be used, if sockets of ours are in it.
#[inline]
pub(crate) fn epoll(fd: c_int) -> Option<(&'static Engine<Device>, &'static EpollSet<Device>)> {
    if let Some(engine) = engine()
        && let Some(object) = engine.look_up(fd)
    {
        return match object {
            Object::Epoll(set) => Some((engine, set)),
            Object::Udp(_) => None,
        };
    }
    recall(fd);
    None
}

/// A descriptor is about to be used: what an ancestor of this process has in user space of it comes back to the kernel first.
#[inline]
pub(crate) fn recall(fd: c_int) {
    if has_ancestors() {
        recall_from_ancestors(fd);
    }
}

#[cold]
fn recall_from_ancestors(fd: c_int) {
    for engine in life::ancestors().filter(|engine| engine.look_up(fd).is_some()) {
        let _ = guard::contained(|| engine.inherited_is_used(fd));
    }
}

/// A socket has got an address. If others may share its port, ancestors of this process look whether it is one of theirs.
#[inline]
pub(crate) fn port_is_bound(fd: c_int) {
    if has_ancestors() {
        tell_ancestors_of_port(fd);
    }
}

#[cold]
fn tell_ancestors_of_port(fd: c_int) {
    let option = |name: c_int| {
        let (mut value, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
        let (at, room) = (&raw mut value, &raw mut len);
        // SAFETY: the kernel writes at most `len` bytes to `value`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_getsockopt,
                fd,
                libc::SOL_SOCKET,
                name,
                at.cast::<c_int>(),
                room,
            )
        };
        (result == 0).then_some(value)
    };
    let saved = guard::errno();
    let shares = option(libc::SO_TYPE) == Some(libc::SOCK_DGRAM)
        && option(libc::SO_REUSEADDR) == Some(1)
        && !life::is_vfork_child();
    if shares {
        for engine in life::ancestors() {
            let _ = guard::contained(|| engine.inherited_port_is_bound());
        }
    }
    guard::set_errno(saved);
}

/// The same for all of several.
#[inline]
pub(crate) fn recall_all(fds: impl Iterator<Item = c_int>) {
    if has_ancestors() {
        fds.for_each(recall_from_ancestors);
    }
}

/// Descriptors from `first` to `last` are about to be closed, which ancestors need not know of.
#[inline]
pub(crate) fn forget_inherited(first: c_uint, last: c_uint) {
    if has_ancestors() {
        forget_ancestors(first, last);
    }
}

#[cold]
fn forget_ancestors(first: c_uint, last: c_uint) {
    for engine in life::ancestors().filter(|engine| engine.has_any(first, last)) {
        if !life::is_vfork_child() {
            engine.inherited_close(first, last);
        }
    }
}

/// Starts the library, once. `None`: it cannot run here, and the log has said why.
pub(crate) fn start() -> Option<&'static Engine<Device>> {
    begin();
    life::start(make);
    engine()
}

/// At the process's beginning: in the constructor, or in a hook that another library's constructor calls before.
fn begin() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    life::begin();
    guard::prepare();
    real::resolve_all();
    environment::process_starts();
    log_sink::process_starts();
}

/// The parameters.
fn configuration() -> Parsed {
    Config::parse(environment::variables(), std::process::id())
}

fn make() -> Option<(Engine<Device>, NetconfNetwork)> {
    let Parsed { config, warnings } = configuration();
    // Of a process that started the library before, with or without success. Its log is this one's, too.
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
    let backend = XdpBackend::new(config.xdp_mode, config.rx_prefetch_bytes as usize);
    let engine = Engine::new(
        settings(&config),
        backend,
        Box::new(network.clone()),
        segment(&config),
    );
    match engine {
        Ok(engine) => {
            engine.follow_rules(rules_file::load(&config));
            engine.list_earlier_sockets();
            // A child may find the interface in its parent's hands.
            let needs_interface =
                config.exception_handling == ExceptionHandling::ExitOnFailedStart && !is_child;
            NEEDS_INTERFACE.store(needs_interface, Ordering::Relaxed);
            if !is_child {
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

/// Ends the process if the library could not start and `VMA_EXCEPTION_HANDLING=-2` asks for that. To be called outside of the
/// library, as the process's exit handlers run.
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

/// What the standard library gives a thread, too.
const INTERNAL_STACK_BYTES: usize = 2 << 20;

/// Starts the internal thread if an interface is open, or to be taken over, and the thread does not run yet.
pub(crate) fn watch_network(engine: &'static Engine<Device>) {
    if !engine.has_open_interface() && !engine.waits_for_interface() {
        return;
    }
    let Some(network) = life::network().filter(|_| life::is_first_watcher()) else {
        return;
    };
    let monitor = Monitor::prepare(engine, log_sink::CONTROLS);
    let mut all = SignalSet::all();
    all.remove(libc::SIGBUS);
    all.swap_with_current();
    let thread = std::thread::Builder::new()
        .name("vma-internal".to_owned())
        // Else the standard library looks for a size in the environment, which another thread may be changing.
        .stack_size(INTERNAL_STACK_BYTES)
        .spawn(move || {
            guard::enter_for_good();
            monitor.run(engine, network);
        });
    all.swap_with_current();
    match thread {
        Ok(_) => engine.internal_thread_started(),
        Err(error) => {
            log::error!("changes of the network configuration are not followed: no thread: {error}")
        }
    }
}

/// A signal mask that changes places with the thread's.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// Every signal.
    pub(crate) fn all() -> Self {
        // SAFETY: sigset_t is a plain array of integers, for which all-zero is a value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is writable.
        unsafe { libc::sigfillset(&raw mut set) };
        Self(set)
    }

    /// That of a system call.
    pub(crate) fn of(signals: u64) -> Self {
        // SAFETY: sigset_t is a plain array of integers, for which all-zero is a value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set has at least 64 bits, the first of which are the kernel's.
        unsafe { (&raw mut set).cast::<u64>().write_unaligned(signals) };
        Self(set)
    }

    /// Without one of them.
    pub(crate) fn remove(&mut self, signal: c_int) {
        // SAFETY: the set is writable.
        unsafe { libc::sigdelset(&raw mut self.0, signal) };
    }

    /// Makes this the thread's mask, and the thread's mask this.
    pub(crate) fn swap_with_current(&mut self) {
        let new = self.0;
        // SAFETY: both sets are valid for the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const new, &raw mut self.0) };
    }
}

fn settings(config: &Config) -> Settings {
    Settings {
        offloaded_sockets: config.offloaded_sockets,
        exceptions: config.exception_handling,
        thread_mode: config.thread_mode,
        rx_poll: config.rx_poll,
        rx_poll_yield: config.rx_poll_yield,
        poll_shared_cpu: config.poll_shared_cpu,
        rx_udp_poll_os_ratio: config.rx_udp_poll_os_ratio,
        select_poll_usec: config.select_poll_usec,
        select_poll_os_ratio: config.select_poll_os_ratio,
        select_skip_os: config.select_skip_os,
        poll_batch_max: config.cq_poll_batch_max as usize,
        pool_frames: config.xdp_pool_frames,
        memory: config.memory,
        memory_is_asked_for: config.memory_is_set,
    }
}

fn segment(config: &Config) -> Segment {
    let identity = Identity::of_this_process(env!("CARGO_PKG_VERSION"));
    let capacity = Capacity {
        sockets: config.stats_fd_num,
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

fn print_banner(config: &Config) {
    let argument = |argument: std::ffi::OsString| argument.to_string_lossy().into_owned();
    let facts = BannerFacts {
        version: concat!(env!("CARGO_PKG_VERSION"), "-1").to_owned(),
        build_date: env!("VMA_BUILD_DATE").to_owned(),
        is_development_snapshot: false,
        is_debug_build: cfg!(debug_assertions),
        git: option_env!("VMA_BUILD_GIT").map(str::to_owned),
        command_line: std::env::args_os()
            .map(argument)
            .collect::<Vec<_>>()
            .join(" "),
        pid: std::process::id(),
        current_time: current_time(),
        // Asking takes a program of its own; a preloaded library starts none.
        ofed_version: None,
        system: system_facts(),
    };
    for (level, line) in vma_config::banner(config, &facts) {
        if level <= LogLevel::MAX {
            log_sink::line(level, &line);
        }
    }
}

/// The local time as ctime(3) writes it.
fn current_time() -> Option<String> {
    // SAFETY: time takes a null pointer.
    let now = unsafe { libc::time(ptr::null_mut()) };
    // SAFETY: all-zero is a value of this struct of integers and a pointer that may be null.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call.
    let known = unsafe { libc::localtime_r(&raw const now, &raw mut parts) };
    // Not by strftime(3), which looks at TZ, where another thread may be in setenv(3).
    let name = |names: &[&'static str], number: c_int| {
        let number = usize::try_from(number).ok()?;
        names.get(number).copied()
    };
    let (day, month) = (name(&DAYS, parts.tm_wday)?, name(&MONTHS, parts.tm_mon)?);
    let (hour, minute, second) = (parts.tm_hour, parts.tm_min, parts.tm_sec);
    let year = parts.tm_year.saturating_add(1900);
    let text = format!(
        "{day} {month} {:>2} {hour:02}:{minute:02}:{second:02} {year}",
        parts.tm_mday
    );
    (!known.is_null()).then_some(text)
}

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

fn system_facts() -> Option<SystemFacts> {
    // SAFETY: all-zero is a value of this struct of characters.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the struct is writable.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return None;
    }
    // SAFETY: the kernel ends each of its texts with a null byte.
    let text = |field: &[libc::c_char]| unsafe { CStr::from_ptr(field.as_ptr()) };
    Some(SystemFacts {
        release: text(&names.release).to_string_lossy().into_owned(),
        machine: text(&names.machine).to_string_lossy().into_owned(),
        node: text(&names.nodename).to_string_lossy().into_owned(),
    })
}

/// The process ends: vma_stats need not see it any more, and what descendants have of it goes on.
pub(crate) fn process_ends() {
    if let Some(engine) = engine() {
        let _ = guard::contained(|| engine.process_ends());
    }
}

fn end_process_orderly() {
    extern "C" fn at_exit() {
        process_ends();
    }
    // SAFETY: the function lives as long as the library, which is never unloaded once its hooks are in use.
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
