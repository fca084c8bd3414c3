//! Where the frames' memory comes from: `VMA_MEM_ALLOC_TYPE`.

use std::io;

use ring::{FramePool, HUGE_PAGE_BYTES, Pages};

use crate::engine::Settings;
use crate::notice::warn_in_a_box;

/// Makes the pool of the pages that are asked for, or of ordinary ones. Who asked for huge pages is told if there are none.
pub(crate) fn make_pool(settings: &Settings, frame_bytes: u16) -> io::Result<FramePool> {
    let make = |pages| {
        FramePool::with_pages(
            settings.pool_frames,
            frame_bytes,
            settings.thread_mode,
            pages,
        )
    };
    if settings.pages != Pages::Huge {
        return make(settings.pages);
    }
    make(Pages::Huge).or_else(|error| {
        let needed =
            (settings.pool_frames as usize * usize::from(frame_bytes)).div_ceil(HUGE_PAGE_BYTES);
        if settings.pages_are_asked_for {
            warn_in_a_box(&no_huge_pages(needed));
        } else {
            log::debug!("frames are in ordinary memory: {needed} huge pages of 2 MiB: {error}");
        }
        make(Pages::Ordinary)
    })
}

fn no_huge_pages(needed: usize) -> [String; 5] {
    [
        "NO IMMEDIATE ACTION NEEDED!".to_owned(),
        "Not enough hugepage resources for VMA memory allocation.".to_owned(),
        "VMA will continue working with regular memory allocation.".to_owned(),
        format!("Each process takes {needed} pages of 2 MiB: raise /proc/sys/vm/nr_hugepages,"),
        "or choose another kind of memory with VMA_MEM_ALLOC_TYPE.".to_owned(),
    ]
}
