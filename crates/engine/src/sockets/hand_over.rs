//! Leaving sockets to the kernel: for good, or for a while.

use std::sync::atomic::Ordering;

use links::reason::Reason;
use vma_config::rules::ProcessRule;

use crate::sockets::host::Host;
use crate::sockets::offload::NotOffloaded;
use crate::sockets::stack::Stack;

impl<S: Stack> Host<S> {
    /// Leaves a socket to the kernel for good.
    pub fn leave_to_kernel(&self, socket: impl Into<S>, reason: Reason) {
        self.leave_to_kernel_about(socket.into(), reason, "");
    }

    /// The same with what the reason is about.
    pub(crate) fn leave_to_kernel_about(&self, socket: S, reason: Reason, detail: &str) {
        socket.core().recall_from_descendants();
        let _control = self.control();
        hand_over(self, socket, reason, detail);
    }
}

/// Leaves a socket to the kernel for good. What the kernel cannot take of its queue stays to be
/// read. Under the control lock.
pub(crate) fn hand_over<S: Stack>(host: &Host<S>, socket: S, reason: Reason, detail: &str) {
    hand_over_about(host, socket, reason, None, detail);
}

/// The same with the rule behind the reason.
pub(crate) fn hand_over_about<S: Stack>(
    host: &Host<S>,
    socket: S,
    reason: Reason,
    rule: Option<&ProcessRule>,
    detail: &str,
) {
    let core = socket.core();
    if !core.commit() && core.reason() != Reason::ReceiverRule {
        return;
    }
    move_to_kernel(host, socket, NotOffloaded { reason, rule }, detail);
}

/// Under the control lock.
fn move_to_kernel<S: Stack>(host: &Host<S>, socket: S, outcome: NotOffloaded<'_>, detail: &str) {
    let NotOffloaded { reason, rule } = outcome;
    let core = socket.core();
    socket.prepare_hand_over(host);
    core.drop_flows();
    socket.hand_over_queue(host);
    core.release();
    let fd = core.kernel_socket.fd.load(Ordering::Relaxed);
    let about = in_parentheses(detail);
    log::debug!("fd {fd}: back to the kernel: {}{about}", reason.text());
    // Of those that have always been the kernel's their reasons tell: thousands in a second would
    // leave no room for events that something follows from.
    if core.was_offloaded() {
        let text = format!("back to the kernel: {}{about}", reason.text());
        host.socket_event(reason, fd, &text);
    }
    host.count_reason(reason);
    core.set_reason_about(reason, rule, detail);
    core.interfaces_changed();
}

/// Leaves a socket that was just opened to the kernel for good. Under the control lock.
pub(crate) fn hand_over_by_rule<S: Stack>(host: &Host<S>, socket: S, rule: &ProcessRule) {
    let core = socket.core();
    core.commit();
    let (reason, rule) = (Reason::Rule, Some(rule));
    let fd = core.kernel_socket.fd.load(Ordering::Relaxed);
    log::debug!("fd {fd}: {}", NotOffloaded { reason, rule });
    host.count_reason(reason);
    core.set_reason_about(reason, rule, "");
}

/// Leaves a socket to the kernel until it follows the kernel again. Under the control lock.
pub(crate) fn hand_over_for_now<S: Stack>(host: &Host<S>, socket: S, reason: Reason) {
    move_to_kernel(host, socket, reason.into(), "");
}

/// A detail behind the words of a log line.
pub(crate) fn in_parentheses(detail: &str) -> String {
    if detail.is_empty() {
        String::new()
    } else {
        format!(" ({detail})")
    }
}
