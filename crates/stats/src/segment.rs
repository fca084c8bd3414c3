//! The writer: makes a segment, hands out entries, takes the file away at the end.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::FILE_PREFIX;
use crate::control::{self, ControlSocket};
use crate::error::CreateError;
use crate::layout::{
    Capacity, Header, LAYOUT_MAJOR, LAYOUT_MINOR, MAGIC, Placement, Plan, SectionRow, bytes_of,
};
use crate::lease::Leases;
use crate::mapping::{Region, Shared, sys};
use crate::process;
use crate::schema::{
    Entry, EventStats, GroupStats, KernelSocketStats, MultiplexerStats, NoteStats, PoolStats,
    QueueStats, ReasonStats, RingStats, RuleStats, SettingStats, SocketStats, TcpStats,
};
use crate::sections::{SECTIONS, with_sections};
use crate::slot::{
    GroupSlot, KernelSocketSlot, MultiplexerSlot, NoteSlot, Place, PoolSlot, QueueSlot, RingSlot,
    Slot, SocketSlot, TcpSlot,
};

/// What the header says about the process, beside its id and start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Version of the library, at most 64 bytes of it are kept.
    pub library_version: String,
    /// Name of the program, at most 64 bytes of it are kept.
    pub program: String,
}

impl Identity {
    /// With the file name of the running executable as the program's name, or an empty one where
    /// /proc is not mounted.
    pub fn of_this_process(library_version: &str) -> Self {
        let mut buffer = [0; libc::PATH_MAX as usize];
        let path = sys::read_link(c"/proc/self/exe", &mut buffer).unwrap_or_default();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        Self {
            library_version: library_version.to_owned(),
            program: String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// The value of one parameter, as [`Segment::settings`] stores it.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Name of the variable, at most 64 bytes of it are kept.
    pub name: &'a str,
    /// As one would write it into the environment, at most 128 bytes of it are kept.
    pub value: &'a str,
    /// What gave it this value, at most 16 bytes of it are kept.
    pub origin: &'a str,
}

/// The statistics of this process.
///
/// A process makes one and keeps it. The memory behind it is never given back, so slots stay valid
/// after the segment is dropped; dropping it takes the file away (see [`unlink`](Self::unlink)).
///
/// After `fork` the child shares the memory of a published segment with its parent. The child's
/// claims get private memory and its releases and reason counts do nothing; counters of slots that it
/// inherited are its parent's, and not for it to write. It makes a segment of its own.
pub struct Segment {
    core: &'static Core,
}

/// The process that may change the segment.
#[derive(Debug)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn is_this_process(&self) -> bool {
        self.0 == sys::process_id().cast_unsigned()
    }
}

/// Everything behind a segment; leaked with the memory it describes, so that slots can refer to it.
struct Core {
    owner: Owner,
    /// Set while the file exists.
    published: AtomicBool,
    file: Option<(CString, sys::FileId)>,
    /// Where requests arrive, if anybody takes them.
    control_path: Option<CString>,
    sections: Sections,
    closed_count: AtomicU64,
    events: Mutex<u64>,
    noted: Mutex<Vec<Note>>,
}

macro_rules! written_sections {
    ($( $kind:ident = $number:literal, $name:ident: $stats:ident => $snapshot:ident, $mode:ident,
        $entries:expr, $told:expr, $order:expr, $help:literal; )*) => {
        struct Sections {
            $( $name: Section<$stats>, )*
        }

        impl Sections {
            /// `rows`: those of the section table, in the order of the places.
            fn new(region: &Region, plan: &Plan, rows: &'static [SectionRow]) -> Self {
                let mut places = plan.places.iter().zip(rows);
                $( let $name = Section::new(region, places.next()); )*
                Self { $( $name, )* }
            }

            /// Counters and peaks of everything that is in use begin anew.
            fn zero(&self) {
                $( self.$name.zero(stringify!($mode) == "described"); )*
            }
        }
    };
}

with_sections!(written_sections);

/// A note that readers see.
struct Note {
    subject: String,
    topic: String,
    text: String,
    _slot: NoteSlot,
}

struct Section<E: 'static> {
    entries: &'static [E],
    row: Option<&'static SectionRow>,
    leases: Leases,
}

impl Segment {
    /// Publishes `<dir>/vmastat.<pid>`. A file of that name, left behind by an earlier process with
    /// this id, is removed first; anything else in its place is an error and stays untouched, and so
    /// does the file of a process that has this id in another PID namespace.
    ///
    /// A relative `dir` counts from the working directory of this moment. The descriptor is closed
    /// again before the call returns. May change errno.
    pub fn create(
        dir: &Path,
        identity: &Identity,
        capacity: Capacity,
    ) -> Result<Self, CreateError> {
        let plan = Plan::new(capacity)?;
        let pid = sys::process_id().cast_unsigned();
        let path = file_path(dir, pid)?;
        let limit = sys::file_size_limit().map_err(during("reading RLIMIT_FSIZE"))?;
        let bytes = plan.total_bytes as u64;
        if bytes > limit {
            return Err(CreateError::FileSizeLimit { bytes, limit });
        }
        if sys::is_locked(&path) {
            return Err(CreateError::InUse);
        }
        match sys::unlink(&path) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                return Err(during("removal of the old file of this process id")(error));
            }
            _ => {}
        }
        let fd = sys::create_new(&path).map_err(during("creation"))?;
        let mapped = || -> Result<_, CreateError> {
            sys::lock(&fd);
            sys::set_mode(fd.number(), 0o444).map_err(during("fchmod"))?;
            sys::allocate(&fd, plan.total_bytes).map_err(during("allocation"))?;
            let id = sys::file_id(&fd).map_err(during("fstat"))?;
            Ok((
                Region::of_file(&fd, plan.total_bytes).map_err(during("mmap"))?,
                id,
            ))
        };
        match mapped() {
            Ok((region, id)) => Ok(Self::build(region, &plan, pid, identity, Some((path, id)))),
            Err(error) => {
                let _ = sys::unlink(&path);
                Err(error)
            }
        }
    }

    /// The same in memory that no reader sees, for when [`create`](Self::create) failed or is not
    /// wanted. Capacities beyond [`MAX_ENTRIES`](crate::MAX_ENTRIES) are lowered to it.
    pub fn private(identity: &Identity, capacity: Capacity) -> Self {
        let plan = Plan::at_most(capacity);
        Self::build(
            Region::private(plan.total_bytes),
            &plan,
            sys::process_id().cast_unsigned(),
            identity,
            None,
        )
    }

    fn build(
        region: Region,
        plan: &Plan,
        pid: u32,
        identity: &Identity,
        file: Option<(CString, sys::FileId)>,
    ) -> Self {
        let rows: &'static [SectionRow] = region
            .slice(plan.table_offset as usize, plan.places.len())
            .unwrap_or_default();
        for (row, place) in rows.iter().zip(&plan.places) {
            row.kind.store(place.kind as u32, Ordering::Relaxed);
            row.entry_bytes.store(place.entry_bytes, Ordering::Relaxed);
            row.entries.store(place.entries, Ordering::Relaxed);
            row.offset.store(place.offset as u64, Ordering::Relaxed);
        }
        let header: Option<&Header> = region.slice(0, 1).unwrap_or_default().first();
        if let Some(header) = header {
            write_header(header, plan, pid, identity);
        }
        let control_path = file
            .as_ref()
            .and_then(|(path, _)| control::control_path(path));
        let core = Core {
            control_path,
            sections: Sections::new(&region, plan, rows),
            closed_count: AtomicU64::new(0),
            events: Mutex::new(0),
            noted: Mutex::new(Vec::new()),
            owner: Owner(pid),
            published: AtomicBool::new(file.is_some()),
            file,
        };
        Self {
            core: Box::leak(Box::new(core)),
        }
    }

    pub fn claim_socket(&self) -> SocketSlot {
        self.core.sections.sockets.claim(&self.core.owner)
    }

    pub fn claim_ring(&self) -> RingSlot {
        self.core.sections.rings.claim(&self.core.owner)
    }

    pub fn claim_pool(&self) -> PoolSlot {
        self.core.sections.pools.claim(&self.core.owner)
    }

    pub fn claim_kernel_socket(&self) -> KernelSocketSlot {
        self.core.sections.kernel_sockets.claim(&self.core.owner)
    }

    pub fn claim_tcp_connection(&self) -> TcpSlot {
        self.core.sections.tcp_connections.claim(&self.core.owner)
    }

    pub fn claim_multiplexer(&self) -> MultiplexerSlot {
        self.core.sections.multiplexers.claim(&self.core.owner)
    }

    pub fn claim_queue(&self) -> QueueSlot {
        self.core.sections.queues.claim(&self.core.owner)
    }

    pub fn claim_group(&self) -> GroupSlot {
        self.core.sections.groups.claim(&self.core.owner)
    }

    /// Takes note of something that has happened outside of the data path: its kind in a word, what it happened to, and what it
    /// is. The last [`EVENTS`](crate::EVENTS) are kept. Subjects are cut at 16 bytes, texts at 128. From any thread.
    pub fn event(&self, kind: &str, subject: &str, text: &str) {
        let core = self.core;
        if !core.owner.is_this_process() {
            return;
        }
        let mut count = core.events.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = next_of_ring(core.sections.events.entries, *count);
        *count += 1;
        let Some(entry) = entry else {
            return;
        };
        entry.reset();
        entry.order.set(*count);
        entry.time_nsec.set(sys::now_nsec());
        entry.kind.set(kind);
        entry.subject.set(subject);
        entry.text.set(text);
        entry.head().open();
    }

    /// Lets all counters and peaks begin anew, while other threads count.
    pub fn zero(&self) {
        if self.core.owner.is_this_process() {
            self.core.sections.zero();
        }
    }

    /// Keeps what a socket was and did, for readers who come after its end: the last
    /// [`CLOSED_SOCKETS`](crate::CLOSED_SOCKETS) of them. One thread at a time.
    pub fn remember_closed(&self, socket: &SocketStats) {
        let core = self.core;
        if !core.owner.is_this_process() {
            return;
        }
        let order = core.closed_count.fetch_add(1, Ordering::Relaxed);
        let Some(entry) = next_of_ring(core.sections.closed_sockets.entries, order) else {
            return;
        };
        entry.copy_from(socket);
        entry.closed.set(order + 1);
        entry.head().open();
    }

    /// Tells readers something about an interface, or about the process if `subject` is empty. A subject has one note for
    /// each topic: a later text takes the place of an earlier one, and an empty text takes the note away. Subjects and topics
    /// are cut at 16 bytes, texts at 256.
    pub fn note(&self, subject: &str, topic: &str, text: &str) {
        if !self.core.owner.is_this_process() {
            return;
        }
        let mut noted = self
            .core
            .noted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_it = |note: &Note| note.subject == subject && note.topic == topic;
        if noted.iter().any(|note| is_it(note) && note.text == text) {
            return;
        }
        noted.retain(|note| !is_it(note));
        if text.is_empty() {
            return;
        }
        let slot = self.core.sections.notes.claim(&self.core.owner);
        if slot.is_published() {
            slot.subject.set(subject);
            slot.topic.set(topic);
            // Last: readers leave out notes without a text.
            slot.text.set(text);
            noted.push(Note {
                subject: subject.to_owned(),
                topic: topic.to_owned(),
                text: text.to_owned(),
                _slot: slot,
            });
        }
    }

    /// Stores what the reason codes mean: the text at index `n` is that of code `n`. To be called
    /// once, before sockets refer to the codes. Texts are cut at 64 bytes.
    pub fn reason_names(&self, names: &[&str]) {
        let reasons = &self.core.sections.reasons;
        if !self.core.owner.is_this_process() {
            return;
        }
        for (entry, name) in reasons.entries.iter().zip(names) {
            entry.name.set(name);
        }
        for _ in names.iter().skip(reasons.entries.len()) {
            reasons.count_overflow();
        }
    }

    /// Stores what can be done about each reason, in the order of the codes. Texts are cut at 192 bytes.
    pub fn reason_advice(&self, advice: &[&str]) {
        if self.core.owner.is_this_process() {
            let entries = self.core.sections.reasons.entries;
            for (entry, advice) in entries.iter().zip(advice) {
                entry.advice.set(advice);
            }
        }
    }

    /// Counts one socket that is left to the kernel for the reason `code`. From any thread.
    pub fn count_reason(&self, code: u32) {
        if !self.core.owner.is_this_process() {
            return;
        }
        match self.core.sections.reasons.entries.get(code as usize) {
            Some(entry) => entry.count.add_contended(1),
            None => self.core.sections.reasons.count_overflow(),
        }
    }

    /// Stores the value of every parameter, in the order in which readers show them. To be called once.
    pub fn settings<'a>(&self, settings: impl Iterator<Item = Setting<'a>>) {
        let section = &self.core.sections.settings;
        if !self.core.owner.is_this_process() {
            return;
        }
        for (index, setting) in settings.enumerate() {
            match section.entries.get(index) {
                Some(entry) => {
                    entry.origin.set(setting.origin);
                    entry.value.set(setting.value);
                    // Last: readers leave out entries without a name.
                    entry.name.set(setting.name);
                }
                None => section.count_overflow(),
            }
        }
    }

    /// Stores what [`SocketStats::rule`] means: the rule `number`, counted from 1, and where it stands. Texts are cut at
    /// 128 bytes.
    pub fn describe_rule(&self, number: u32, rule: &str, origin: &str) {
        let section = &self.core.sections.rules;
        if !self.core.owner.is_this_process() {
            return;
        }
        let index = number.checked_sub(1);
        match index.and_then(|index| section.entries.get(index as usize)) {
            Some(entry) => {
                entry.origin.set(origin);
                // Last: readers leave out entries without a rule.
                entry.rule.set(rule);
            }
            None => section.count_overflow(),
        }
    }

    /// Makes the socket through which a process of the same user, or root, can ask for something; `None` without a file, or where
    /// none can be made. `move_away` gives its descriptor a final number. Its name goes away with the file.
    pub fn control_socket<F: AsFd>(
        &self,
        own: impl FnOnce(OwnedFd) -> F,
    ) -> Option<ControlSocket<F>> {
        let path = self
            .core
            .control_path
            .as_ref()
            .filter(|_| self.is_published())?;
        ControlSocket::create(path, own).ok()
    }

    /// Removes the file if this process made it and it is still the one at its path. Processes that
    /// have it open keep their view. Further calls do nothing.
    pub fn unlink(&self) {
        let Some((path, id)) = &self.core.file else {
            return;
        };
        if self.core.owner.is_this_process()
            && self.core.published.swap(false, Ordering::Relaxed)
            && sys::file_id_at(path).is_ok_and(|found| found == *id)
        {
            let _ = sys::unlink(path);
            if let Some(control) = &self.core.control_path {
                let _ = sys::unlink(control);
            }
        }
    }

    /// The processes that have published in the same directory, by the names of their files: some may be gone.
    pub fn publishers(&self) -> Vec<u32> {
        let path = self.core.file.as_ref().map(|(path, _)| path.as_bytes());
        let directory = path.and_then(|path| Path::new(OsStr::from_bytes(path)).parent());
        directory.map_or_else(Vec::new, process::publishers)
    }

    /// Whether a file of this process exists for readers.
    pub fn is_published(&self) -> bool {
        self.core.owner.is_this_process() && self.core.published.load(Ordering::Relaxed)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.unlink();
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Segment")
            .field("file", &self.core.file)
            .finish_non_exhaustive()
    }
}

impl<E: Entry + Shared> Section<E> {
    fn new(region: &Region, place: Option<(&Placement, &'static SectionRow)>) -> Self {
        let slice =
            |(place, _): (&Placement, _)| region.slice(place.offset, place.entries as usize);
        let entries: Option<&'static [E]> = place.and_then(slice);
        debug_assert!(entries.is_some(), "the plan goes beyond the region");
        let entries = entries.unwrap_or_default();
        Self {
            entries,
            row: place.map(|(_, row)| row),
            leases: Leases::new(u32::try_from(entries.len()).unwrap_or(0)),
        }
    }

    /// `all`: also entries that are never claimed.
    fn zero(&self, all: bool) {
        let used = |entry: &&E| all || entry.head().is_open();
        self.entries.iter().filter(used).for_each(Entry::zero);
    }

    fn claim(&'static self, owner: &'static Owner) -> Slot<E> {
        if !owner.is_this_process() {
            return Slot::overflowed(E::default());
        }
        let Some(index) = self.leases.take() else {
            self.count_overflow();
            return Slot::overflowed(E::default());
        };
        let Some(entry) = self.entries.get(index as usize) else {
            return Slot::overflowed(E::default());
        };
        entry.reset();
        entry.head().open();
        Slot::published(
            entry,
            Place {
                head: entry.head(),
                leases: &self.leases,
                index,
                owner,
            },
        )
    }

    fn count_overflow(&self) {
        if let Some(row) = self.row {
            row.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_header(header: &Header, plan: &Plan, pid: u32, identity: &Identity) {
    header.major.store(LAYOUT_MAJOR, Ordering::Relaxed);
    header.minor.store(LAYOUT_MINOR, Ordering::Relaxed);
    header
        .total_bytes
        .store(plan.total_bytes as u64, Ordering::Relaxed);
    header.pid.store(pid, Ordering::Relaxed);
    let rows = u32::try_from(SECTIONS.len()).unwrap_or(0);
    header.table_rows.store(rows, Ordering::Relaxed);
    header
        .start_time_ticks
        .store(own_start_time_ticks().unwrap_or(0), Ordering::Relaxed);
    header
        .table_offset
        .store(plan.table_offset, Ordering::Relaxed);
    header
        .table_row_bytes
        .store(bytes_of::<SectionRow>(), Ordering::Relaxed);
    header.library_version.set(&identity.library_version);
    header.program.set(&identity.program);
    // Last: from here on readers accept the segment.
    header.magic.store(MAGIC, Ordering::Release);
}

fn own_start_time_ticks() -> Option<u64> {
    let fd = sys::open_for_reading(c"/proc/self/stat").ok()?;
    // The start time is the 22nd of some fifty numbers; the whole line is rarely 400 bytes.
    let mut buffer = [0; 2048];
    let status = process::parse_stat(sys::read(&fd, &mut buffer).ok()?)?;
    Some(status.start_time_ticks)
}

/// `<dir>/vmastat.<pid>`, absolute: the program may change its working directory before it ends.
fn file_path(dir: &Path, pid: u32) -> Result<CString, CreateError> {
    let dir = dir.as_os_str().as_bytes();
    if dir.is_empty() {
        return Err(CreateError::NoDirectory);
    }
    let mut path = Vec::new();
    if !dir.starts_with(b"/") {
        let mut buffer = [0; libc::PATH_MAX as usize];
        let here = sys::working_directory(&mut buffer).map_err(during("getcwd"))?;
        path.extend_from_slice(here);
        path.push(b'/');
    }
    path.extend_from_slice(dir);
    path.push(b'/');
    path.extend_from_slice(FILE_PREFIX.as_bytes());
    path.extend_from_slice(pid.to_string().as_bytes());
    if path.len() >= libc::PATH_MAX as usize {
        return Err(CreateError::BadDirectory);
    }
    CString::new(path).map_err(|_| CreateError::BadDirectory)
}

fn during(operation: &'static str) -> impl FnOnce(io::Error) -> CreateError {
    move |source| CreateError::System { operation, source }
}

/// The entry of a ring for what comes after `before` others: closed, so that it can be written. `None` if the ring has no entries.
fn next_of_ring<E: Entry>(entries: &[E], before: u64) -> Option<&E> {
    let place = usize::try_from(before).ok()?.checked_rem(entries.len())?;
    let entry = entries.get(place)?;
    if entry.head().is_open() {
        entry.head().close();
    }
    Some(entry)
}
