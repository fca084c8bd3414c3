//! The writer: makes a segment, hands out entries, takes the file away at the end.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::capture::{AREA_BYTES, CaptureRing};
use crate::control::{self, ControlSocket};
use crate::error::CreateError;
use crate::layout::{Header, SectionRow};
use crate::listing;
use crate::mapping::{Region, sys};
use crate::names;
use crate::plan::{Capacity, Plan};
use crate::reader::Reader;
use crate::schema::SocketStats;

mod file;
mod identity;
mod open_rings;
mod sections;
mod told;

use file::{during, file_path, make_file, unguessable};
pub use identity::Identity;
use identity::write_header;
pub use open_rings::OpenRing;
pub(crate) use sections::Owner;
use sections::Sections;
use told::Note;
pub use told::{OpenSockets, Setting};

/// The statistics of this process.
///
/// A process makes one and keeps it. The memory behind it is never given back, so slots stay valid
/// after the segment is dropped; dropping it takes the file away (see [`unlink`](Self::unlink)).
///
/// After `fork` the child shares the memory of a published segment with its parent. The child's
/// claims get private memory and its releases and reason counts do nothing; counters of slots that
/// it inherited are its parent's, and not for it to write. It makes a segment of its own.
pub struct Segment {
    core: &'static Core,
}

/// What a part of a file that is mapped alone begins at a multiple of, on every system.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// Everything behind a segment; leaked with the memory it describes, so that slots can refer to it.
struct Core {
    owner: Owner,
    /// Set while the file exists.
    published: AtomicBool,
    file: Option<(CString, sys::FileId)>,
    /// Where packets go that somebody wants to see.
    capture: Option<CaptureRing>,
    /// Where requests arrive, if anybody takes them.
    control_path: Option<CString>,
    sections: Sections,
    closed_count: AtomicU64,
    events: Mutex<u64>,
    noted: Mutex<Vec<Note>>,
    /// Who is told of sockets that end.
    told_of_end: OnceLock<fn(&SocketStats)>,
}

impl Segment {
    /// Publishes `<dir>/vmastat.<pid>`. A file of that name, left behind by an earlier process with
    /// this id, is removed first; anything else in its place is an error and stays untouched, and
    /// so does the file of a process that has this id in another PID namespace. What belongs to
    /// another user and cannot be removed leaves the name to him: the file is then
    /// `<dir>/vmastat.<pid>.<16 hexadecimal digits>`.
    ///
    /// A relative `dir` counts from the working directory of this moment. The descriptor is closed
    /// again before the call returns. May change errno.
    pub fn create(
        dir: &Path,
        identity: &Identity,
        capacity: Capacity,
    ) -> Result<Self, CreateError> {
        let mut plan = Plan::new(capacity)?;
        if !sys::can_populate() {
            plan.allocate_all();
        }
        let pid = sys::process_id().cast_unsigned();
        let path = file_path(dir, pid)?;
        let limit = sys::file_size_limit().map_err(during("reading RLIMIT_FSIZE"))?;
        let bytes = plan.total_bytes as u64;
        if bytes > limit {
            return Err(CreateError::FileSizeLimit { bytes, limit });
        }
        let (path, fd) = match make_file(&path) {
            Ok(fd) => (path, fd),
            // Anybody can take a name beforehand where everybody can make files, and only its owner
            // give it back.
            Err(error) if sys::is_of_another_user(&path) => {
                // Those of programs that this process ran before.
                for left in names::other_segment_paths(dir, pid) {
                    let left = CString::new(left.into_os_string().into_vec());
                    let left = left.iter().filter(|left| !sys::is_of_another_user(left));
                    left.for_each(|left| drop(sys::unlink(left)));
                }
                let path = unguessable(&path).ok_or(error)?;
                let fd = make_file(&path)?;
                (path, fd)
            }
            Err(error) => return Err(error),
        };
        let mapped = || -> Result<_, CreateError> {
            sys::lock(&fd);
            sys::set_mode(fd.number(), 0o400).map_err(during("fchmod"))?;
            sys::allocate(&fd, plan.allocated_bytes).map_err(during("allocation"))?;
            let capture_at = plan.total_bytes.next_multiple_of(PAGE_BYTES_MAX);
            let with_capture = capture_at + AREA_BYTES;
            let has_capture =
                with_capture as u64 <= limit && sys::set_size(&fd, with_capture).is_ok();
            if !has_capture {
                sys::set_size(&fd, plan.total_bytes).map_err(during("ftruncate"))?;
            }
            let id = sys::file_id(&fd).map_err(during("fstat"))?;
            let region = Region::of_file(&fd, plan.total_bytes).map_err(during("mmap"))?;
            let capture = || CaptureRing::reserve(&fd, capture_at).ok();
            Ok((region, id, has_capture.then(capture).flatten()))
        };
        match mapped() {
            Ok((region, id, capture)) => {
                let file = Some((path, id));
                Ok(Self::build(region, &plan, pid, identity, file, capture))
            }
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
            None,
        )
    }

    fn build(
        region: Region,
        plan: &Plan,
        pid: u32,
        identity: &Identity,
        file: Option<(CString, sys::FileId)>,
        capture: Option<CaptureRing>,
    ) -> Self {
        let rows: &'static [SectionRow] = region
            .slice(plan.table_offset as usize, plan.places.len())
            .unwrap_or_default();
        for (row, place) in rows.iter().zip(&plan.places) {
            row.kind.store(place.kind as u32, Ordering::Relaxed);
            row.entry_bytes.store(place.entry_bytes, Ordering::Relaxed);
            row.entries.store(place.entries, Ordering::Relaxed);
            row.allocated.store(place.allocated, Ordering::Relaxed);
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
            capture,
            control_path,
            sections: Sections::new(&region, plan, rows),
            closed_count: AtomicU64::new(0),
            events: Mutex::new(0),
            noted: Mutex::new(Vec::new()),
            told_of_end: OnceLock::new(),
            owner: Owner::new(pid),
            published: AtomicBool::new(file.is_some()),
            file,
        };
        Self {
            core: Box::leak(Box::new(core)),
        }
    }

    /// Lets all counters and peaks begin anew, while other threads count.
    pub fn zero(&self) {
        if self.core.owner.is_this_process() {
            self.core.sections.zero();
        }
    }

    /// Where packets go that somebody wants to see. `None`: no reader would find them.
    pub fn capture(&self) -> Option<&'static CaptureRing> {
        let ring = self.core.capture.as_ref();
        ring.filter(|_| self.core.owner.has_this_memory())
    }

    /// Makes the socket through which a process of the same user, or root, can ask for something;
    /// `None` without a file, or where none can be made. `move_away` gives its descriptor a final
    /// number. Its name goes away with the file.
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

    /// The processes that have published in the same directory, by the names of their files: some
    /// may be gone.
    pub fn publishers(&self) -> Vec<u32> {
        self.directory().map_or_else(Vec::new, listing::publishers)
    }

    /// What a process of [`publishers`](Self::publishers) shows. `None`: it does not, or may not be
    /// believed.
    pub fn reader_of(&self, publisher: u32) -> Option<Reader> {
        Reader::open(self.directory()?, publisher).ok()
    }

    fn directory(&self) -> Option<&Path> {
        let (path, _) = self.core.file.as_ref()?;
        Path::new(OsStr::from_bytes(path.as_bytes())).parent()
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
