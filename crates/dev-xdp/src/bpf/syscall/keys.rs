//! What is in a map.

use super::{Map, bpf};

/// <linux/bpf.h>
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;

impl<const KEY: usize, const VALUE: usize> Map<KEY, VALUE> {
    /// The keys, at most so many. Programs may change the map meanwhile: then some may be missing,
    /// or be there twice.
    pub(in crate::bpf) fn keys(&self, max: u32) -> Vec<[u8; KEY]> {
        let mut keys: Vec<[u8; KEY]> = Vec::new();
        while keys.len() < max as usize {
            let mut next = [0; KEY];
            let (first, last) = ([0; KEY], keys.last());
            let mut attributes = self.element(
                last.unwrap_or(&first),
                next.as_mut_ptr().expose_provenance(),
            );
            if last.is_none() {
                attributes.key = 0;
            }
            // SAFETY: the kernel reads KEY bytes, or from no address, and writes as many, which the
            // arrays have.
            if unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &mut attributes) }.is_err() {
                break;
            }
            keys.push(next);
        }
        keys
    }
}
