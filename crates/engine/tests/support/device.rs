//! A device that does as the test tells it: which interfaces open, which flows are refused, what a
//! kick answers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use descriptors::OwnDescriptor;
use dev_core::{
    Backend, ClockSample, Flow, Frame, FramePool, Kick, KickOutcome, LinkSpec, Merging,
    NoSegmenter, Noted, OpenError, Port, ReceivingSide, RingsMax, RxRing, RxWatch, Steering,
    TxRing,
};

/// What a frame of 2 KiB holds behind the kernel's part and the Ethernet header.
pub const MTU_MAX: u32 = 1778;

/// The back-end. Clones share everything.
#[derive(Clone, Default)]
pub struct Device {
    wires: Arc<Mutex<HashMap<u32, Arc<Wire>>>>,
    refused: Arc<Mutex<HashSet<u32>>>,
    opens: Arc<AtomicU64>,
    during_open: Arc<Mutex<Option<Action>>>,
    held: Arc<AtomicBool>,
    has_clock: Arc<AtomicBool>,
    shows_clock: Arc<AtomicBool>,
}

type Action = Box<dyn FnOnce() + Send>;

impl Device {
    /// Runs once, in the middle of the next attempt to open an interface.
    pub fn during_next_open(&self, action: impl FnOnce() + Send + 'static) {
        *self.during_open.lock().unwrap() = Some(Box::new(action));
    }

    /// The wire of an interface, opened or not.
    pub fn wire(&self, link: u32) -> Arc<Wire> {
        Arc::clone(self.wires.lock().unwrap().entry(link).or_default())
    }

    /// Whether opening the interface fails from here on.
    pub fn refuse_open(&self, link: u32, refuse: bool) {
        let mut refused = self.refused.lock().unwrap();
        if refuse {
            refused.insert(link);
        } else {
            refused.remove(&link);
        }
    }

    /// Whether interfaces that cannot be opened are held by another process.
    pub fn set_held(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// It notes when it receives packets.
    pub fn set_has_clock(&self) {
        self.has_clock.store(true, Ordering::Relaxed);
    }

    /// Its rings have that time, too: see [`DEVICE_NSEC`].
    pub fn set_shows_clock(&self) {
        self.shows_clock.store(true, Ordering::Relaxed);
    }

    /// How often an interface was tried to be opened.
    pub fn opens(&self) -> u64 {
        self.opens.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").finish_non_exhaustive()
    }
}

/// One interface: what comes in, what goes out, and the script of its misbehaviour.
pub struct Wire {
    /// Of each queue.
    arrivals: [Arrivals; QUEUES as usize],
    /// Comes by the first queue without end, behind what is in `incoming`.
    flood: Mutex<Option<Vec<u8>>>,
    /// Frames that the receiving ring keeps.
    held: AtomicUsize,
    /// In the sending ring, not kicked yet.
    queued: Mutex<Vec<(usize, Vec<u8>)>>,
    /// The queues that the frames in `sent` left by, in the same order.
    left_by: Mutex<VecDeque<usize>>,
    sent: Mutex<VecDeque<Vec<u8>>>,
    flows: Mutex<Vec<Flow>>,
    /// The receiving sides by which flows are to come.
    brought: Mutex<HashMap<Flow, usize>>,
    kicks: AtomicU64,
    outcomes: Mutex<VecDeque<KickOutcome>>,
    refuse_flows: AtomicBool,
    keep_flows: AtomicBool,
    given_back: AtomicU64,
    full: AtomicBool,
    dropped: AtomicU64,
    addresses: Mutex<Vec<IpAddr>>,
    macs: Mutex<Vec<[u8; 6]>>,
    sends_by_itself: AtomicBool,
    during_flow: Mutex<Option<Action>>,
}

/// What has come by a queue.
struct Arrivals {
    incoming: Mutex<VecDeque<Vec<u8>>>,
    /// Frames that have been delivered.
    taken: AtomicU32,
    /// Frames that are not delivered yet.
    waiting: AtomicU32,
    /// Readable while frames wait.
    arrival: Arc<OwnDescriptor>,
}

impl Default for Arrivals {
    fn default() -> Self {
        // SAFETY: eventfd takes integers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        Self {
            incoming: Mutex::default(),
            taken: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            // SAFETY: the descriptor is new and ours alone.
            arrival: Arc::new(OwnDescriptor::new(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }
}

impl Arrivals {
    fn tell(&self) {
        let one = 1u64;
        // SAFETY: the kernel reads the eight bytes of `one`.
        unsafe { libc::write(self.arrival.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn nothing_waits(&self) {
        let mut count = 0u64;
        // SAFETY: the kernel writes at most eight bytes to `count`.
        unsafe { libc::read(self.arrival.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            arrivals: Default::default(),
            flood: Mutex::default(),
            held: AtomicUsize::new(0),
            queued: Mutex::default(),
            left_by: Mutex::default(),
            sent: Mutex::default(),
            flows: Mutex::default(),
            brought: Mutex::default(),
            kicks: AtomicU64::new(0),
            outcomes: Mutex::default(),
            refuse_flows: AtomicBool::new(false),
            keep_flows: AtomicBool::new(false),
            given_back: AtomicU64::new(0),
            full: AtomicBool::new(false),
            addresses: Mutex::default(),
            dropped: AtomicU64::new(0),
            macs: Mutex::default(),
            sends_by_itself: AtomicBool::new(false),
            during_flow: Mutex::default(),
        }
    }
}

impl Wire {
    /// A frame arrives.
    pub fn inject(&self, frame: Vec<u8>) {
        self.inject_by(0, frame);
    }

    /// A frame arrives by a queue.
    pub fn inject_by(&self, queue: usize, frame: Vec<u8>) {
        let arrivals = &self.arrivals[queue];
        let mut incoming = arrivals.incoming.lock().unwrap();
        incoming.push_back(frame);
        arrivals.waiting.fetch_add(1, Ordering::Release);
        arrivals.tell();
    }

    /// From here on, or no more, this frame arrives faster than it can be taken: a poll finds as
    /// many as it may take.
    pub fn flood(&self, frame: Option<Vec<u8>>) {
        *self.flood.lock().unwrap() = frame;
        self.arrivals[0].tell();
    }

    /// How many empty frames the receiving ring keeps from the next poll on.
    pub fn hold_frames(&self, count: usize) {
        self.held.store(count, Ordering::Relaxed);
    }

    /// Frames that nobody has polled yet.
    pub fn waiting(&self) -> usize {
        let of = |arrivals: &Arrivals| arrivals.incoming.lock().unwrap().len();
        self.arrivals.iter().map(of).sum()
    }

    /// The oldest frame that the device has sent.
    pub fn sent(&self) -> Option<Vec<u8>> {
        self.left_by.lock().unwrap().pop_front();
        self.sent.lock().unwrap().pop_front()
    }

    /// The queue by which the oldest frame left that [`Self::sent`] has not returned yet.
    pub fn oldest_left_by(&self) -> Option<usize> {
        self.left_by.lock().unwrap().front().copied()
    }

    /// Frames in the ring that wait for a kick.
    pub fn queued(&self) -> usize {
        self.queued.lock().unwrap().len()
    }

    pub fn kicks(&self) -> u64 {
        self.kicks.load(Ordering::Relaxed)
    }

    /// What the next kicks answer; `Done` after that.
    pub fn script_kicks(&self, outcomes: impl IntoIterator<Item = KickOutcome>) {
        self.outcomes.lock().unwrap().extend(outcomes);
    }

    pub fn refuse_flows(&self, refuse: bool) {
        self.refuse_flows.store(refuse, Ordering::Relaxed);
    }

    /// Runs once, when the next flow is steered to us, before the engine learns that it is.
    pub fn during_next_flow(&self, action: impl FnOnce() + Send + 'static) {
        *self.during_flow.lock().unwrap() = Some(Box::new(action));
    }

    /// Flows cannot be taken back.
    pub fn keep_flows(&self) {
        self.keep_flows.store(true, Ordering::Relaxed);
    }

    /// How often the interface was given back to the kernel.
    pub fn given_back(&self) -> u64 {
        self.given_back.load(Ordering::Relaxed)
    }

    /// Whether the sending ring has no room.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// The hardware addresses that the device was told of after it had been opened.
    pub fn macs(&self) -> Vec<[u8; 6]> {
        self.macs.lock().unwrap().clone()
    }

    /// How many packets the device says that it has dropped.
    pub fn set_dropped(&self, count: u64) {
        self.dropped.store(count, Ordering::Relaxed);
    }

    /// Whether the device sends without being kicked.
    pub fn set_sends_by_itself(&self, value: bool) {
        self.sends_by_itself.store(value, Ordering::Relaxed);
    }

    /// The flows steered to us, in a fixed order.
    pub fn flows(&self) -> Vec<Flow> {
        let mut flows = self.flows.lock().unwrap().clone();
        flows.sort_by_key(|flow| (flow.local, flow.peer));
        flows
    }

    /// The addresses that packets to ports at any address may have, in order.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses = self.addresses.lock().unwrap().clone();
        addresses.sort_unstable();
        addresses
    }

    /// The receiving side by which what reaches this port was asked to come last, if it is steered
    /// to us.
    pub fn brought(&self, port: u16) -> Option<usize> {
        let brought = self.brought.lock().unwrap();
        let mut of_port = brought.iter().filter(|it| it.0.local.port() == port);
        of_port.next().map(|(_, ring)| *ring)
    }

    fn complete(&self, queue: usize) {
        let mut queued = self.queued.lock().unwrap();
        for (_, frame) in queued.extract_if(.., |(of, _)| *of == queue) {
            self.left_by.lock().unwrap().push_back(queue);
            self.sent.lock().unwrap().push_back(frame);
        }
    }
}

impl Backend for Device {
    type Rx = Rx;
    type Watch = Watch;
    type Tx = Tx;
    type Kick = Kicker;
    type Steering = Steerer;
    type Segmenter = NoSegmenter;

    fn has_clock(&self, _link: &LinkSpec) -> bool {
        self.has_clock.load(Ordering::Relaxed)
    }

    fn may_show_clock(&self, _link: &LinkSpec) -> bool {
        self.shows_clock.load(Ordering::Relaxed)
    }

    fn open(
        &self,
        link: &LinkSpec,
        _pool: &'static FramePool,
        rings: RingsMax,
    ) -> Result<Port<Self>, OpenError> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        let action = self.during_open.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        if self.refused.lock().unwrap().contains(&link.index) {
            return Err(OpenError {
                what: "the test says no".to_owned(),
                remedy: "ask the test",
                locked_memory: false,
                held: self.held.load(Ordering::Relaxed),
            });
        }
        let wire = self.wire(link.index);
        let receivers = rings.receivers.clamp(1, QUEUES) as usize;
        let receiver = |ring| {
            let queues: Vec<_> = (ring..QUEUES as usize).step_by(receivers).collect();
            let fd = |queue: &usize| Arc::clone(&wire.arrivals[*queue].arrival);
            ReceivingSide {
                wait_fds: queues.iter().map(fd).collect(),
                queues: queues.len() as u32,
                watch: Watch {
                    wire: Arc::clone(&wire),
                    queues: queues.clone(),
                },
                rx: Rx {
                    wire: Arc::clone(&wire),
                    queues,
                    held: Vec::new(),
                },
            }
        };
        Ok(Port {
            receivers: (0..receivers).map(receiver).collect(),
            senders: (0..rings.senders.clamp(1, QUEUES) as usize)
                .map(|queue| {
                    let tx = Tx {
                        wire: Arc::clone(&wire),
                        queue,
                        spare: None,
                    };
                    let wire = Arc::clone(&wire);
                    (tx, Kicker { wire, queue })
                })
                .collect(),
            steering: Steerer(wire, Arc::clone(&self.shows_clock)),
            segmenter: None,
            set_option: None,
            raw_sockets: Vec::new(),
            partial_checksums: false,
            description: "test".to_owned(),
            mtu_max: MTU_MAX,
            merging: Merging::InPieces,
            note: String::new(),
            queues: QUEUES,
        })
    }
}

/// When the device receives every frame, by its clock.
pub const DEVICE_NSEC: u64 = 7_000_000_123;
/// What the system's clock shows 5 ns before.
pub const SYSTEM_NSEC: u64 = 1_700_000_000_000_000_000;

/// Queues, for both directions.
pub const QUEUES: u32 = 4;

/// Frames that wait in the ring of a flooded wire.
const RING: usize = 100;

/// Sees what waits in some queues.
#[derive(Debug)]
pub struct Watch {
    wire: Arc<Wire>,
    queues: Vec<usize>,
}

impl RxWatch for Watch {
    fn waiting(&self) -> Option<u32> {
        let arrivals = || self.queues.iter().map(|queue| &self.wire.arrivals[*queue]);
        let waits = |it: &Arrivals| it.waiting.load(Ordering::Acquire) > 0;
        let taken = |it: &Arrivals| it.taken.load(Ordering::Relaxed);
        let floods = || self.wire.flood.lock().unwrap().is_some();
        (arrivals().any(waits) || floods()).then(|| arrivals().map(taken).sum())
    }
}

#[derive(Debug)]
pub struct Rx {
    wire: Arc<Wire>,
    queues: Vec<usize>,
    held: Vec<Frame>,
}

impl Rx {
    fn poll_queue(
        &mut self,
        queue: usize,
        pool: &FramePool,
        budget: usize,
        sink: &mut impl FnMut(Frame),
    ) -> usize {
        let mut batch = Vec::new();
        let arrivals = &self.wire.arrivals[queue];
        let mut incoming = arrivals.incoming.lock().unwrap();
        let flood = self.wire.flood.lock().unwrap().clone();
        let flood = flood.filter(|_| queue == 0);
        if incoming.is_empty() && flood.is_none() {
            return 0;
        }
        let mut taken = 0;
        while batch.len() < budget && (!incoming.is_empty() || flood.is_some()) {
            let Some(mut frame) = pool.take() else { break };
            taken += u32::from(!incoming.is_empty());
            let next = incoming.pop_front().or_else(|| flood.clone());
            let bytes = next.unwrap();
            let chunk = pool.chunk_mut(&mut frame);
            chunk[..bytes.len()].copy_from_slice(&bytes);
            pool.set_len(&mut frame, bytes.len());
            batch.push(frame);
        }
        if incoming.is_empty() && flood.is_none() {
            arrivals.nothing_waits();
        }
        let count = batch.len();
        drop(incoming);
        batch.into_iter().for_each(sink);
        arrivals.taken.fetch_add(taken, Ordering::Relaxed);
        arrivals.waiting.fetch_sub(taken, Ordering::Release);
        count
    }
}

impl RxRing for Rx {
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        let held = self.wire.held.load(Ordering::Relaxed);
        while self.held.len() > held
            && let Some(frame) = self.held.pop()
        {
            pool.give(frame);
        }
        pool.take_many(held - self.held.len(), |frame| self.held.push(frame));
        let queues = self.queues.clone();
        let mut count = 0;
        for queue in queues {
            count += self.poll_queue(queue, pool, budget - count, &mut sink);
        }
        count
    }

    fn arrived_nsec(_pool: &FramePool, _frame: &Frame) -> Option<u64> {
        Some(sys::now_nsec())
    }

    fn device_nsec(_pool: &FramePool, _frame: &Frame) -> Option<u64> {
        Some(DEVICE_NSEC)
    }

    fn drain(&mut self, pool: &FramePool, mut sink: impl FnMut(Frame)) -> usize {
        let flooded = self.wire.flood.lock().unwrap().is_some();
        let waiting = if flooded { RING } else { self.wire.waiting() };
        (0..waiting).map(|_| self.poll(pool, 1, &mut sink)).sum()
    }
}

#[derive(Debug)]
pub struct Tx {
    wire: Arc<Wire>,
    queue: usize,
    spare: Option<Frame>,
}

impl TxRing for Tx {
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        if self.wire.full.load(Ordering::Relaxed) {
            return None;
        }
        self.spare.take().or_else(|| pool.take())
    }

    fn push(&mut self, pool: &FramePool, frame: Frame) {
        let bytes = pool.data(&frame).to_vec();
        pool.give(frame);
        self.wire.queued.lock().unwrap().push((self.queue, bytes));
        if self.wire.sends_by_itself.load(Ordering::Relaxed) {
            self.wire.complete(self.queue);
        }
    }

    fn cancel(&mut self, frame: Frame) {
        assert!(self.spare.replace(frame).is_none(), "one frame is out");
    }

    fn needs_kick(&self) -> bool {
        !self.wire.sends_by_itself.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub struct Kicker {
    wire: Arc<Wire>,
    queue: usize,
}

impl Kick for Kicker {
    fn kick(&self) -> KickOutcome {
        self.wire.kicks.fetch_add(1, Ordering::Relaxed);
        let scripted = self.wire.outcomes.lock().unwrap().pop_front();
        let outcome = scripted.unwrap_or(KickOutcome::Done);
        if outcome == KickOutcome::Done {
            self.wire.complete(self.queue);
        }
        outcome
    }
}

#[derive(Debug)]
pub struct Steerer(Arc<Wire>, Arc<AtomicBool>);

impl Steering for Steerer {
    fn bring(&self, flow: &Flow, receiver: usize) -> io::Result<()> {
        assert!(self.0.flows.lock().unwrap().contains(flow));
        self.0.brought.lock().unwrap().insert(*flow, receiver);
        Ok(())
    }

    fn add(&self, flow: &Flow) -> io::Result<()> {
        if self.0.refuse_flows.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let mut flows = self.0.flows.lock().unwrap();
        assert!(!flows.contains(flow), "{flow:?} is steered twice");
        flows.push(*flow);
        drop(flows);
        let action = self.0.during_flow.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        Ok(())
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        if self.0.keep_flows.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let mut flows = self.0.flows.lock().unwrap();
        let before = flows.len();
        flows.retain(|known| known != flow);
        self.0.brought.lock().unwrap().remove(flow);
        let was_refused = self.0.refuse_flows.load(Ordering::Relaxed);
        assert!(
            was_refused
                || self.0.given_back.load(Ordering::Relaxed) > 0
                || before == flows.len() + 1,
            "{flow:?} is not steered"
        );
        Ok(())
    }

    fn set_addresses(&self, addresses: &[IpAddr]) -> io::Result<()> {
        addresses.clone_into(&mut self.0.addresses.lock().unwrap());
        Ok(())
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        self.0.macs.lock().unwrap().push(mac);
        Ok(())
    }

    fn stamp_arrivals(&self, noted: Noted) -> io::Result<()> {
        match noted {
            Noted::DeviceTime if !self.1.load(Ordering::Relaxed) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            _ => Ok(()),
        }
    }

    fn clock_sample(&self) -> io::Result<ClockSample> {
        Ok(ClockSample {
            device_nsec: DEVICE_NSEC - 5,
            system_nsec: SYSTEM_NSEC,
        })
    }

    fn rest_if_unused(&self) {}

    fn is_resting(&self) -> bool {
        false
    }

    fn give_back(&self) {
        self.0.given_back.fetch_add(1, Ordering::Relaxed);
        self.0.flows.lock().unwrap().clear();
    }

    fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}
