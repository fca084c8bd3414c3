//! Connections that are the kernel's although all segments to their port come past it, to a
//! listener. The program that steers them leaves those of such a connection to the kernel, from the
//! moment on at which it has the connection until it answers for it no more: its socket is gone,
//! and TIME-WAIT over. Without that they would take the way through the library, as
//! [unmatched](crate::tcp::state::unmatched::UnmatchedSegment).
//!
//! A segment that opens a connection is for the listener all the same: so what is exempt too long,
//! as the kernel need not tell in time, is in nobody's way. If the kernel has the very connection
//! still, it is to judge of that segment, as for its own listeners.

use links::delivery;
use links::interface::Interface;
use links::network::KernelConnections;
use wire::tcp::Segment;

use crate::sockets::host::Host;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::exempt::Exempt;
use crate::tcp::state::origin::Origin;
use crate::tcp::state::unmatched::UnmatchedSegment;
use crate::tcp::to_kernel::hand_over::send_on;

impl<S: TcpStack> Exempt<S> {
    /// In the internal thread: has segments judged that open connections.
    pub(in crate::tcp) fn decide_openings(&self, host: &Host<S>) {
        for opening in self.take_openings() {
            let (segment, origin) = (&opening.segment, opening.origin);
            let ends = delivery::ends(segment, origin.link_index);
            let find = |it: &dyn KernelConnections| it.find(ends.0, ends.1, origin.link_index);
            let found = self.kernels().map(find);
            let lives = found
                .and_then(Result::ok)
                .flatten()
                .is_some_and(|found| found.waits.is_none());
            if lives {
                if let Some(raw) = host.return_socket() {
                    send_on(
                        raw,
                        &UnmatchedSegment::new(segment, origin.link_index, None),
                    );
                }
                continue;
            }
            let control = host.control();
            self.end(ends);
            drop(control);
            let listener = opening.listener.as_tcp();
            if let Some(listener) = listener.filter(|it| it.generation() == opening.generation) {
                listener.take_opening(segment, origin);
            }
        }
    }
}

impl<S: TcpStack> TcpSocket<S> {
    pub(in crate::tcp) fn take_opening(&'static self, segment: &Segment, origin: Origin) {
        self.take(segment, origin, None);
        let interfaces: Vec<_> = match &*self.role.lock() {
            Role::Listener(listening) => listening.interfaces().collect(),
            _ => return,
        };
        interfaces.into_iter().for_each(Interface::start_segments);
    }
}
