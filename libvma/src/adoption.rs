//! What this process has inherited and is the one to use: it takes it past the kernel.

use engine::{Engine, RightsChange, UdpSocket};
use libc::c_int;

use crate::process_state::{self, Device};
use crate::runtime::{comes_back, has_ancestors, look_up, own_udp, recall, udp};
use crate::{guard, internal_thread, start};

/// The UDP socket behind a descriptor that is about to be received from, which the only process to
/// do so can do past the kernel.
#[inline]
pub(crate) fn udp_to_receive(
    fd: c_int,
) -> Option<(&'static Engine<Device>, &'static UdpSocket<Device>)> {
    let found = own_udp(fd);
    if found.is_none() && has_ancestors() {
        adopt_inherited(fd);
        return udp(fd);
    }
    found
}

/// A socket is about to be accepted from, received from, or waited for. If it was inherited, this
/// process may be the one that has it past the kernel.
#[inline]
pub(crate) fn adopt_inherited(fd: c_int) {
    if has_ancestors() && process_state::ancestors().any(|engine| engine.look_up(fd).is_some()) {
        adopt(fd);
    }
}

#[cold]
fn adopt(fd: c_int) {
    if process_state::is_vfork_child() || look_up(fd).is_some() {
        return;
    }
    comes_back(fd);
    let saved = guard::errno();
    let _ = guard::contained(|| {
        let inherited = process_state::ancestors().find_map(|engine| engine.inherited(fd));
        if let Some(inherited) = inherited
            && let Some(engine) = start::start()
        {
            engine.adopt(fd, inherited);
            internal_thread::start_when_needed(engine);
        }
    });
    guard::set_errno(saved);
}

/// The process gives up rights before it has used what it has inherited, or has a socket.
pub(crate) fn before_rights_change(change: &RightsChange) {
    if process_state::is_vfork_child() {
        return;
    }
    let saved = guard::errno();
    let _ = guard::contained(|| {
        if !engine::goes_with(change, false) {
            return;
        }
        if !process_state::ancestors().any(Engine::descendant_reserves_places) {
            start::reserve_places();
        }
    });
    guard::set_errno(saved);
}

/// Several are about to be waited for.
#[inline]
pub(crate) fn adopt_or_recall(fds: impl Iterator<Item = c_int>) {
    if has_ancestors() {
        fds.for_each(|fd| {
            adopt_inherited(fd);
            recall(fd);
        });
    }
}
