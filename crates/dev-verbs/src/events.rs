//! What befalls a device without a call of ours: `ibv_get_async_event(3)`.

use rdma_core_sys::{
    IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,
    IBV_EVENT_QP_FATAL, ibv_async_event,
};

use crate::opened::Device;

/// What is left of a device after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// All, whatever happened: netlink tells of links that go down and up.
    All(&'static str),
    /// Nothing: neither queues nor rules.
    Nothing(&'static str),
}

fn left(event_type: u32) -> Left {
    match event_type {
        IBV_EVENT_DEVICE_FATAL => Left::Nothing("the device has failed"),
        // Any of them has flows, or may have the next one.
        IBV_EVENT_QP_FATAL => Left::Nothing("its queue pair has failed"),
        IBV_EVENT_CQ_ERR => Left::Nothing("a completion queue was overrun"),
        IBV_EVENT_PORT_ERR => Left::All("its port is down"),
        IBV_EVENT_PORT_ACTIVE => Left::All("its port is up"),
        _ => Left::All("an event without consequences here"),
    }
}

/// The next event, if there is one. Costs a system call.
pub(crate) fn take(device: &Device) -> Option<Left> {
    device.refresh_numbers();
    let mut event = ibv_async_event {
        element: std::ptr::null_mut(),
        event_type: 0,
    };
    // SAFETY: the context is live; its descriptor of events does not block.
    let none = unsafe { (device.verbs.ibv_get_async_event)(device.context, &raw mut event) };
    if none != 0 {
        return None;
    }
    // SAFETY: just taken.
    unsafe { (device.verbs.ibv_ack_async_event)(&raw mut event) };
    Some(left(event.event_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_the_queues_is_the_end() {
        for fatal in [IBV_EVENT_DEVICE_FATAL, IBV_EVENT_QP_FATAL, IBV_EVENT_CQ_ERR] {
            assert!(matches!(left(fatal), Left::Nothing(_)), "{fatal}");
        }
        for other in [IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, 18, u32::MAX] {
            assert!(matches!(left(other), Left::All(_)), "{other}");
        }
    }
}
