//! Taking flows away from a socket.

use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

impl<S: Stack> SocketCore<S> {
    /// Has the kernel serve the socket's groups, and all their receivers.
    pub(crate) fn leave_group_flows(&self) {
        self.leave_any(true);
        let flows = std::mem::take(&mut self.attachment().groups.flows);
        for (_, address, interface) in flows.into_places() {
            interface.leave_group(address, self.identity());
        }
    }

    /// Takes the socket from those who receive from every group. `gets_more`: the kernel would
    /// still give it what comes.
    pub(crate) fn leave_any(&self, gets_more: bool) {
        let any = std::mem::take(&mut self.attachment().groups.any);
        for it in any {
            it.interface.leave_any(it.port, self.identity(), gets_more);
        }
    }

    /// Takes every flow away from the socket.
    pub(crate) fn drop_flows(&self) {
        let flows = std::mem::take(&mut self.attachment().flows);
        for (interface, flow) in flows {
            interface.leave_flow(&flow, self.identity());
        }
        self.leave_group_flows();
        drop(self.end_receiving());
        self.stamped.clear();
    }
}
