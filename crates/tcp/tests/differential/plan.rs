//! What is to be done: calls, segments and pauses.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use packetdrill::sysctl::Setting;
use packetdrill::{Call, Segment, Setup};

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Call(Call),
    /// Its timestamp's echo counts from the last one that was sent.
    Inject(Segment),
    Unreachable {
        code: u8,
        mtu: u16,
        seq: u32,
    },
    Wait,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Since the step before.
    pub(crate) gap: Duration,
    pub(crate) action: Action,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) is_passive: bool,
    pub(crate) remote_isn: u32,
    pub(crate) sysctls: Vec<Setting>,
    pub(crate) steps: Vec<Step>,
    /// How many steps are not to be left out.
    pub(crate) fixed: usize,
    pub(crate) port: u16,
}

impl Plan {
    /// Local and remote port; a local one that is not known yet is 0.
    pub(crate) fn ports(&self) -> (u16, u16) {
        if self.is_passive {
            (self.port, self.port)
        } else {
            (0, self.port)
        }
    }

    pub(crate) fn connection_fd(&self) -> i32 {
        if self.is_passive { 4 } else { 3 }
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup {
            sysctls: self.sysctls.clone(),
            mtu: 1500,
            bind_port: self.port,
            connect_port: self.port,
            segment_len: None,
            is_ipv6: false,
            local: Ipv4Addr::new(192, 168, 0, 1),
            remote: self.remote(),
        }
    }

    /// One of its own: paths are remembered by address.
    fn remote(&self) -> Ipv4Addr {
        let [high, low] = self.port.to_be_bytes();
        Ipv4Addr::new(10, 9, high, low)
    }

    /// Another, so that connections of the past do not matter.
    pub(crate) fn with_new_port(&self) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let mut plan = self.clone();
        plan.port = 1024 + NEXT.fetch_add(1, Ordering::Relaxed) % 31_000;
        plan
    }
}
