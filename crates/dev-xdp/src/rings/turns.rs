//! The queues of a receiving side take turns.

/// Has each queue `take` what is left of the budget, another one first each time, so that a busy
/// one does not keep the others waiting. `first` is that of the next time. Returns how many were
/// taken.
#[inline]
pub(crate) fn take_in_turns<Q>(
    queues: &mut [Q],
    first: &mut usize,
    budget: usize,
    mut take: impl FnMut(&mut Q, usize) -> usize,
) -> usize {
    let mut total = 0;
    let (later, earlier) = queues.split_at_mut(*first);
    if !later.is_empty() || earlier.len() > 1 {
        *first = if earlier.len() > 1 { *first + 1 } else { 0 };
    }
    for queue in earlier.iter_mut().chain(later) {
        total += take(queue, budget.saturating_sub(total));
    }
    total
}
