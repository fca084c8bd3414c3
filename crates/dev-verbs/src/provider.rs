//! Queues by the calls of a device's provider: one for each list of requests.

mod receive;
mod send;

pub(crate) use receive::ReceiveQueue;
pub(crate) use send::SendQueue;

/// How many of the first `count` requests of a list the device has taken: all, or those before the
/// `bad` one.
fn taken<T>(list: &[T], count: usize, failed: i32, bad: *const T) -> usize {
    match failed {
        0 => count,
        _ => list[..count]
            .iter()
            .position(|it| std::ptr::eq(it, bad))
            .unwrap_or(0),
    }
}
