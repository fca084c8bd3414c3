//! By how many receive queues packets come.

use dev_core::LinkSpec;

use crate::ethtool;

/// Those of the device; of a bond as many as of its parts, whose numbers its packets have.
pub(crate) fn rx_queues(link: &LinkSpec) -> u32 {
    let of_device = |name: &str| ethtool::rx_queues(name).unwrap_or(1);
    let queues = match &link.upper {
        None => of_device(&link.name),
        Some(upper) => {
            let of_parts = upper.parts.iter().map(|part| of_device(part)).max();
            of_parts.map_or(upper.queues, |count| count.min(upper.queues))
        }
    };
    queues.max(1)
}
