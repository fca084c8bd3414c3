//! The back-ends: AF_XDP, and the verbs of RDMA NICs. Which one has an interface is known when it
//! is opened; from there on each of its parts is matched once a call.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use dev_core::{
    Admission, Backend, Carrier, ClockSample, Flow, Frame, FramePool, Kick, KickOutcome, LinkSpec,
    Noted, OpenError, Port, ReceivingSide, RingsMax, RxRing, RxWatch, Segmented, Segmenter,
    Steering, TxRing,
};
use dev_verbs::{
    VerbsBackend, VerbsKick, VerbsRx, VerbsSegmenter, VerbsSteering, VerbsTx, VerbsWatch,
};
use dev_xdp::{XdpBackend, XdpKick, XdpRx, XdpSegmenter, XdpSteering, XdpTx, XdpWatch};
use vma_config::DeviceChoice;

/// Both back-ends.
#[derive(Debug)]
pub(crate) struct Devices {
    pub(crate) choice: DeviceChoice,
    pub(crate) xdp: XdpBackend,
    pub(crate) verbs: VerbsBackend,
}

/// A part of an interface's device.
#[derive(Debug)]
pub(crate) enum OneOf<X, V> {
    Xdp(X),
    Verbs(V),
}

/// Evaluates to the same expression of whichever it is.
macro_rules! of_either {
    ($either:expr, $it:ident => $value:expr) => {
        match $either {
            OneOf::Xdp($it) => $value,
            OneOf::Verbs($it) => $value,
        }
    };
}

/// The port of one of the back-ends as one of both.
macro_rules! port {
    ($port:expr, $kind:ident) => {{
        let port = $port;
        let receiver = |side: ReceivingSide<_>| ReceivingSide {
            rx: OneOf::$kind(side.rx),
            watch: OneOf::$kind(side.watch),
            wait_fds: side.wait_fds,
            queues: side.queues,
        };
        let sender = |(tx, kick)| (OneOf::$kind(tx), OneOf::$kind(kick));
        Port {
            receivers: port.receivers.into_iter().map(receiver).collect(),
            senders: port.senders.into_iter().map(sender).collect(),
            steering: OneOf::$kind(port.steering),
            segmenter: port.segmenter.map(OneOf::$kind),
            partial_checksums: port.partial_checksums,
            description: port.description,
            mtu_max: port.mtu_max,
            merging: port.merging,
            note: port.note,
            queues: port.queues,
            set_option: port.set_option,
            raw_sockets: port.raw_sockets,
        }
    }};
}

fn of_xdp(port: Port<XdpBackend>) -> Port<Devices> {
    port!(port, Xdp)
}

impl Devices {
    /// `None`: the interface is AF_XDP's.
    fn open_verbs(
        &self,
        link: &LinkSpec,
        pool: &'static FramePool,
        rings: RingsMax,
    ) -> Option<Result<Port<Self>, OpenError>> {
        let open = || {
            let port = self.verbs.open(link, pool, rings)?;
            Ok(port!(port, Verbs))
        };
        match self.choice {
            DeviceChoice::Xdp => None,
            DeviceChoice::Verbs => Some(open()),
            DeviceChoice::Auto if self.verbs.has_devices() => open()
                .inspect_err(|error| log::debug!("{}: not by verbs: {}", link.name, error.what))
                .ok()
                .map(Ok),
            DeviceChoice::Auto => None,
        }
    }
}

impl Backend for Devices {
    type Rx = OneOf<XdpRx, VerbsRx>;
    type Watch = OneOf<XdpWatch, VerbsWatch>;
    type Tx = OneOf<XdpTx, VerbsTx>;
    type Kick = OneOf<XdpKick, VerbsKick>;
    type Steering = OneOf<XdpSteering, VerbsSteering>;
    type Segmenter = OneOf<XdpSegmenter, VerbsSegmenter>;

    fn open(
        &self,
        link: &LinkSpec,
        pool: &'static FramePool,
        rings: RingsMax,
    ) -> Result<Port<Self>, OpenError> {
        match self.open_verbs(link, pool, rings) {
            Some(opened) => opened,
            None => self.xdp.open(link, pool, rings).map(of_xdp),
        }
    }

    fn join(
        &self,
        link: &LinkSpec,
        pool: &'static FramePool,
        rings: RingsMax,
    ) -> Option<Result<Port<Self>, OpenError>> {
        if self.choice == DeviceChoice::Verbs {
            // Each process has the device without a broker.
            return None;
        }
        let joined = self.xdp.join(link, pool, rings)?;
        Some(joined.map(of_xdp))
    }

    fn has_broker(&self) -> bool {
        self.choice != DeviceChoice::Verbs && self.xdp.has_broker()
    }

    fn reserve_places(&self, count: usize) -> bool {
        self.choice != DeviceChoice::Verbs && self.xdp.reserve_places(count)
    }

    fn threads(&self) -> u32 {
        self.xdp.threads()
    }

    fn end_thread(&self) -> Option<libc::pid_t> {
        self.xdp.end_thread()
    }

    fn has_clock(&self, link: &LinkSpec) -> bool {
        self.xdp.has_clock(link)
    }

    fn may_show_clock(&self, link: &LinkSpec) -> bool {
        self.choice != DeviceChoice::Verbs
            && !(self.choice == DeviceChoice::Auto && self.verbs.has_devices())
            && self.xdp.may_show_clock(link)
    }

    fn admission(&self) -> io::Result<Box<dyn Admission>> {
        self.xdp.admission()
    }
}

impl RxRing for OneOf<XdpRx, VerbsRx> {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, sink: impl FnMut(Frame)) -> usize {
        of_either!(self, it => it.poll(pool, budget, sink))
    }

    fn drain(&mut self, pool: &FramePool, sink: impl FnMut(Frame)) -> usize {
        of_either!(self, it => it.drain(pool, sink))
    }

    fn expect_bursts(&mut self, expected: bool) {
        of_either!(self, it => it.expect_bursts(expected));
    }
}

impl Segmenter for OneOf<XdpSegmenter, VerbsSegmenter> {
    fn send<'a>(
        &self,
        headers: &[u8],
        parts: impl Iterator<Item = &'a [u8]>,
        segment_len: u16,
    ) -> Segmented {
        of_either!(self, it => it.send(headers, parts, segment_len))
    }
}

impl RxWatch for OneOf<XdpWatch, VerbsWatch> {
    #[inline]
    fn waiting(&self) -> Option<u32> {
        of_either!(self, it => it.waiting())
    }
}

impl TxRing for OneOf<XdpTx, VerbsTx> {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        of_either!(self, it => it.frame(pool))
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        of_either!(self, it => it.push(pool, frame));
    }

    fn cancel(&mut self, frame: Frame) {
        of_either!(self, it => it.cancel(frame));
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        of_either!(self, it => it.needs_kick())
    }
}

impl Kick for OneOf<XdpKick, VerbsKick> {
    #[inline]
    fn kick(&self) -> KickOutcome {
        of_either!(self, it => it.kick())
    }
}

impl Steering for OneOf<XdpSteering, VerbsSteering> {
    fn add(&self, flow: &Flow) -> io::Result<()> {
        of_either!(self, it => it.add(flow))
    }

    fn join(&self, flow: &Flow, socket: BorrowedFd<'_>) -> io::Result<()> {
        of_either!(self, it => it.join(flow, socket))
    }

    fn is_joint(&self) -> bool {
        of_either!(self, it => it.is_joint())
    }

    fn have_joined(&self, flow: &Flow, inodes: &[u64]) -> bool {
        of_either!(self, it => it.have_joined(flow, inodes))
    }

    fn settle(&self) {
        of_either!(self, it => it.settle());
    }

    fn bring(&self, flow: &Flow, receiver: usize) -> io::Result<()> {
        of_either!(self, it => it.bring(flow, receiver))
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        of_either!(self, it => it.remove(flow))
    }

    fn set_addresses(&self, addresses: &[IpAddr]) -> io::Result<()> {
        of_either!(self, it => it.set_addresses(addresses))
    }

    fn exempt(&self, flow: &Flow) -> io::Result<bool> {
        of_either!(self, it => it.exempt(flow))
    }

    fn exemptions(&self) -> usize {
        of_either!(self, it => it.exemptions())
    }

    fn end_exemption(&self, flow: &Flow) -> io::Result<()> {
        of_either!(self, it => it.end_exemption(flow))
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        of_either!(self, it => it.set_mac(mac))
    }

    fn follow_carriers(&self, carriers: &[Carrier]) {
        of_either!(self, it => it.follow_carriers(carriers));
    }

    fn rest_if_unused(&self) {
        of_either!(self, it => it.rest_if_unused());
    }

    fn stamp_arrivals(&self, noted: Noted) -> io::Result<()> {
        of_either!(self, it => it.stamp_arrivals(noted))
    }

    fn clock_sample(&self) -> io::Result<ClockSample> {
        of_either!(self, it => it.clock_sample())
    }

    fn is_resting(&self) -> bool {
        of_either!(self, it => it.is_resting())
    }

    fn has_flows(&self) -> bool {
        of_either!(self, it => it.has_flows())
    }

    fn is_taken_away(&self) -> bool {
        of_either!(self, it => it.is_taken_away())
    }

    fn give_back(&self) {
        of_either!(self, it => it.give_back());
    }

    fn close_if_unused(&self) -> io::Result<bool> {
        of_either!(self, it => it.close_if_unused())
    }

    fn let_go(&self) -> io::Result<()> {
        of_either!(self, it => it.let_go())
    }

    fn process_ends(&self) {
        of_either!(self, it => it.process_ends());
    }

    fn dropped(&self) -> u64 {
        of_either!(self, it => it.dropped())
    }
}
