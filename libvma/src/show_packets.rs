//! Shows what comes to a function of the program's, in the thread of the program's that receives or
//! waits. The library is left meanwhile: the function may use sockets, close them, and take its
//! time.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{Engine, Shown, Sockaddr, Verdict, timespec_of_nsec};
use libc::{iovec, sockaddr_in};
use vma_api::abi::{Info, RecvCallback, VMA_PACKET_DROP, VMA_PACKET_HOLD};

use crate::guard::{contained, errno, set_errno};
use crate::process_state::Device;

/// Packets that are shown before the call goes on that has found them.
const PACKETS_MAX: usize = 64;

/// A run of a function that has not come back, and where the stack was.
#[derive(Clone, Copy)]
struct Run {
    shown: Shown<Device>,
    stack: usize,
}

/// Those of a thread, each within the one before it. Functions need not come back: one may leave
/// with `longjmp(3)`, or end the thread. What was shown then is received.
struct Runs(RefCell<Vec<Run>>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.end_all(usize::MAX);
    }
}

impl Runs {
    /// Ends those that were not begun further out in the stack than `here`.
    fn end_all(&self, here: usize) {
        let last = |runs: &mut Vec<Run>| runs.pop_if(|run| run.stack <= here);
        while let Some(run) = last(&mut self.0.borrow_mut()) {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            if let Some(engine) = crate::process_state::engine() {
                let _ = contained(|| engine.settle(&run.shown, Verdict::Receive));
            }
        }
    }
}

/// How many there are, of all threads.
static OPEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static RUNS: Runs = const { Runs(RefCell::new(Vec::new())) };
}

/// Shows what waits for that, if anything does. At the beginning of a call, and whenever an attempt
/// says so.
#[inline]
pub(crate) fn show_unseen(engine: &'static Engine<Device>) {
    if engine.has_unseen() || OPEN.load(Ordering::Relaxed) != 0 {
        show_some(engine);
    }
}

/// Nothing with a destructor lives while the function runs.
#[cold]
#[inline(never)]
fn show_some(engine: &'static Engine<Device>) {
    let here = (&raw const engine).addr();
    let _ = RUNS.try_with(|runs| runs.end_all(here));
    let saved = errno();
    let mut seen = None;
    for _ in 0..PACKETS_MAX {
        let next = contained(|| {
            if let Some((shown, verdict)) = seen.take() {
                settle(engine, &shown, verdict);
            }
            let shown = engine.next_unseen()?;
            let run = Run { shown, stack: here };
            RUNS.try_with(|runs| runs.0.borrow_mut().push(run)).ok()?;
            OPEN.fetch_add(1, Ordering::Relaxed);
            Some(shown)
        });
        let Ok(Some(shown)) = next else {
            break;
        };
        seen = Some((shown, show(&shown)));
    }
    if let Some((shown, verdict)) = seen {
        let _ = contained(|| settle(engine, &shown, verdict));
    }
    set_errno(saved);
}

fn settle(engine: &'static Engine<Device>, shown: &Shown<Device>, verdict: Verdict) {
    if let Ok(Some(_)) = RUNS.try_with(|runs| runs.0.borrow_mut().pop()) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
    engine.settle(shown, verdict);
}

fn show(shown: &Shown<Device>) -> Verdict {
    let (source, destination) = (name(shown.source), name(shown.destination));
    let mut part = iovec {
        iov_base: shown.data.cast_mut().cast(),
        iov_len: shown.len,
    };
    let mut info = Info {
        struct_sz: size_of::<Info>(),
        packet_id: ptr::without_provenance_mut(shown.id),
        src: source.as_bytes().as_ptr().cast_mut().cast::<sockaddr_in>(),
        dst: destination
            .as_bytes()
            .as_ptr()
            .cast_mut()
            .cast::<sockaddr_in>(),
        payload_sz: shown.len,
        socket_ready_queue_pkt_count: shown.ready_packets,
        socket_ready_queue_byte_count: shown.ready_bytes,
        hw_timestamp: timespec_of_nsec(shown.device_nsec),
        sw_timestamp: timespec_of_nsec(shown.stamp_nsec),
    };
    let context = ptr::with_exposed_provenance_mut(shown.callback.context);
    let function = ptr::with_exposed_provenance::<()>(shown.callback.function);
    // SAFETY: it was made of one in `register_recv_callback`.
    let function: RecvCallback = unsafe { std::mem::transmute(function) };
    // SAFETY: the program's own function; what it gets is valid while it runs.
    let verdict = unsafe { function(shown.fd, 1, &raw mut part, &raw mut info, context) };
    match verdict {
        VMA_PACKET_DROP => Verdict::Drop,
        VMA_PACKET_HOLD => Verdict::Hold,
        _ => Verdict::Receive,
    }
}

fn name(address: SocketAddr) -> Sockaddr {
    Sockaddr::from(address)
}
