//! Connections to the broker that are made before they are needed: it knows a process by what that
//! was when it connected, and a worker of a server is about to give up its rights.

use std::mem;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use super::membership::Membership;

/// Programs have one broker.
static RESERVED: Mutex<Vec<Membership>> = Mutex::new(Vec::new());
/// A broker has no more than a few who say nothing.
const RESERVED_MAX: usize = 8;

/// Connects `count` times more, if somebody listens there. Returns whether there are any then.
pub(crate) fn reserve(path: &Path, count: usize) -> bool {
    let Some(mut reserved) = own() else {
        return false;
    };
    let count = count.min(RESERVED_MAX.saturating_sub(reserved.len()));
    reserved.extend((0..count).map_while(|_| Membership::connect(path).ok()));
    !reserved.is_empty()
}

/// One of them, if the broker still has it.
pub(crate) fn take() -> Option<Membership> {
    let mut reserved = own()?;
    std::iter::from_fn(|| reserved.pop()).find(Membership::is_waited_for)
}

/// Those of this process. `None`: another thread is at it, or was when this process was forked.
fn own() -> Option<MutexGuard<'static, Vec<Membership>>> {
    let mut reserved = RESERVED.try_lock().ok()?;
    // Here their descriptors are closed, and the numbers are others'.
    reserved
        .extract_if(.., |it| !it.is_this_process_s())
        .for_each(mem::forget);
    Some(reserved)
}
