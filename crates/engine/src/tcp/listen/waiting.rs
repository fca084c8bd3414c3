//! Listeners at an interface that another process has, or that is being opened: the kernel's until
//! that is free and open, and then here from the next connection on. Those that the kernel has by
//! then stay with it, without a detour.

use std::net::SocketAddr;

use libc::c_int;
use links::family::Addresses;
use links::reason::Reason;

use crate::sockets::hand_over;
use crate::sockets::hand_over::in_parentheses;
use crate::sockets::host::Host;
use crate::sockets::stack::MayOpen;
use crate::tcp::listen::begin::{Beginning, backlog_in_kernel};
use crate::tcp::listen::shared::detail_of;
use crate::tcp::socket::{TcpSocket, TcpStack};

impl<S: TcpStack> TcpSocket<S> {
    /// Whether it listens in the kernel until an interface is free.
    pub fn waits_to_listen(&self) -> bool {
        self.is_held() && !self.waiting.is_waiting() && !self.is_local()
    }

    /// Its interface is another process's or not open yet, as the reason says: it is the kernel's,
    /// and may be here at any moment. No lock may be held.
    pub(super) fn wait_for_interface(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        (local, does_share): (SocketAddr, bool),
        reason: Reason,
    ) {
        // Its descriptor is opened while the program expects any.
        self.globals.exempt.prepare(host.network());
        let detail = whom_it_waits_for(host, local, reason);
        let control = host.control();
        let is_new = host.is_behind(fd, self) && self.reason() == Reason::NotBound;
        if !is_new || !self.set_reason_about(reason, None, &detail) {
            return;
        }
        // They go over together.
        self.notes_sharing(local, does_share);
        host.count_reason(reason);
        let about = in_parentheses(&detail);
        let text = format!("listens at {local}, {}{about}", reason.text());
        log::debug!("fd {fd}: {text}");
        host.socket_event(reason, fd, &text);
        self.interfaces_changed();
        // It may have become free, or open, before anybody knew that somebody waits.
        if reason == Reason::Opening {
            self.listens_at_last(host, MayOpen::No);
            return;
        }
        drop(control);
        host.addresses_changed(self);
    }

    /// Interfaces may be free. Returns those that are to be opened first, without a lock. Under the
    /// control lock.
    pub(in crate::tcp) fn listens_at_last(
        &'static self,
        host: &Host<S>,
        may_open: MayOpen,
    ) -> Vec<u32> {
        let fd = self.fd();
        // The kernel gets connections first that waited here.
        if self.is_returning() || !sys::streams::listens(fd) {
            return Vec::new();
        }
        let Ok(Some(addresses)) = Addresses::of(fd) else {
            return Vec::new();
        };
        let (places, closed) = self.open_places_at(host, &addresses);
        if may_open == MayOpen::Yes && !closed.is_empty() {
            return closed;
        }
        let begun = places.and_then(|places| {
            let sharing = self.shares_address(host, &addresses)?;
            sharing.check(&places)?;
            let beginning = Beginning {
                local: addresses.local,
                does_share: sharing.does_share,
                backlog: backlog_in_kernel(fd).cast_unsigned(),
                kernel_listens: true,
            };
            self.begin_listening(host, fd, &beginning, places)
        });
        match begun {
            Ok(()) => {}
            // The next time.
            Err(reason) if reason.passes() => {
                if reason != self.reason() {
                    let detail = whom_it_waits_for(host, addresses.local, reason);
                    self.set_reason_about(reason, None, &detail);
                }
            }
            Err(reason) => {
                hand_over::hand_over(host, self.into(), reason, detail_of(reason, fd));
                self.others_leave(host, fd);
            }
        }
        Vec::new()
    }
}

/// Who has its interface, if that is what it waits for.
fn whom_it_waits_for<S: TcpStack>(host: &Host<S>, local: SocketAddr, reason: Reason) -> String {
    match reason {
        Reason::Held => host.links.holders_of(local.ip(), &host.links.facts()),
        _ => String::new(),
    }
}
