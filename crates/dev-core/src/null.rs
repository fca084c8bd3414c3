//! A device that is nowhere: what is sent is counted, what is received is a fixed list of frames,
//! for measuring the layers above a device and for tests that need no root.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::{
    Backend, Kick, KickOutcome, Merging, NoSegmenter, OpenError, Port, ReceivingSide, RingsMax,
    RxRing, RxWatch, Steering, TxRing,
};
use crate::flow::{Flow, at_any_address};
use crate::link::LinkSpec;
use crate::pool::{Frame, FramePool};

/// The null back-end. Clones share one wire.
#[derive(Clone, Debug, Default)]
pub struct NullBackend {
    wire: Arc<Wire>,
}

/// What tests see and set of the null device.
#[derive(Debug, Default)]
struct Wire {
    incoming: Mutex<VecDeque<Vec<u8>>>,
    endless: Mutex<Option<Vec<u8>>>,
    sent: Mutex<VecDeque<Vec<u8>>>,
    keep_sent: std::sync::atomic::AtomicBool,
    /// Of each sending side.
    kicks: Mutex<Vec<Arc<Kicks>>>,
    flows: Mutex<Vec<Flow>>,
    exempt: Mutex<Vec<Flow>>,
}

/// Sending sides that there are at most.
const SENDERS_MAX: u32 = 16;

/// How often a sending side was kicked: senders must not meet here.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Kicks(AtomicU64);

impl NullBackend {
    /// Puts a frame on the wire towards us.
    pub fn inject(&self, frame: &[u8]) {
        lock(&self.wire.incoming).push_back(frame.to_vec());
    }

    /// From the next opened port on, every poll finds this frame, without end.
    pub fn inject_endlessly(&self, frame: &[u8]) {
        *lock(&self.wire.endless) = Some(frame.to_vec());
    }

    /// Keeps copies of sent frames for [`NullBackend::sent`].
    pub fn keep_sent(&self) {
        self.wire.keep_sent.store(true, Ordering::Relaxed);
    }

    /// The oldest frame sent and kept.
    pub fn sent(&self) -> Option<Vec<u8>> {
        lock(&self.wire.sent).pop_front()
    }

    /// How often the device was kicked.
    pub fn kicks(&self) -> u64 {
        let kicks = lock(&self.wire.kicks);
        kicks.iter().map(|it| it.0.load(Ordering::Relaxed)).sum()
    }

    /// The flows steered to us, in the order they came.
    pub fn flows(&self) -> Vec<Flow> {
        lock(&self.wire.flows).clone()
    }

    /// The flows that are exempt from the steering, in the order they came.
    pub fn exempt(&self) -> Vec<Flow> {
        lock(&self.wire.exempt).clone()
    }
}

impl Backend for NullBackend {
    type Rx = NullRx;
    type Watch = NullWatch;
    type Tx = NullTx;
    type Kick = NullKick;
    type Steering = NullSteering;
    type Segmenter = NoSegmenter;

    /// With as many sending sides as there is a use for, sixteen at most, and one receiving side.
    fn open(
        &self,
        _link: &LinkSpec,
        _pool: &'static FramePool,
        rings: RingsMax,
    ) -> Result<Port<Self>, OpenError> {
        let sender = |_| {
            let tx = NullTx {
                wire: Arc::clone(&self.wire),
                keep: self.wire.keep_sent.load(Ordering::Relaxed),
                done: None,
            };
            let kicks = Arc::new(Kicks::default());
            lock(&self.wire.kicks).push(Arc::clone(&kicks));
            (tx, NullKick { kicks })
        };
        Ok(Port {
            receivers: vec![ReceivingSide {
                rx: NullRx {
                    wire: Arc::clone(&self.wire),
                    endless: lock(&self.wire.endless).clone(),
                },
                watch: NullWatch {
                    wire: Arc::clone(&self.wire),
                },
                wait_fds: Vec::new(),
                queues: 1,
            }],
            senders: (0..rings.senders.clamp(1, SENDERS_MAX))
                .map(sender)
                .collect(),
            steering: NullSteering {
                wire: Arc::clone(&self.wire),
            },
            segmenter: None,
            set_option: None,
            raw_sockets: Vec::new(),
            partial_checksums: false,
            description: "null".to_owned(),
            mtu_max: u32::MAX,
            merging: Merging::None,
            note: String::new(),
            queues: 1,
        })
    }
}

/// Sees what the receiving side would find.
#[derive(Debug)]
pub struct NullWatch {
    wire: Arc<Wire>,
}

impl RxWatch for NullWatch {
    fn waiting(&self) -> Option<u32> {
        let waits = lock(&self.wire.endless).is_some() || !lock(&self.wire.incoming).is_empty();
        // There is one ring, whose progress nobody waits for.
        waits.then_some(0)
    }
}

/// Receiving side of the null device.
#[derive(Debug)]
pub struct NullRx {
    wire: Arc<Wire>,
    endless: Option<Vec<u8>>,
}

impl RxRing for NullRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        if let Some(bytes) = &self.endless {
            // One frame a poll: what a ping-pong sees.
            let Some(mut frame) = pool.take() else {
                return 0;
            };
            fill(pool, &mut frame, bytes);
            sink(frame);
            return 1;
        }
        let mut incoming = lock(&self.wire.incoming);
        let mut count = 0;
        while count < budget
            && !incoming.is_empty()
            && let Some(mut frame) = pool.take()
        {
            fill(pool, &mut frame, &incoming.pop_front().unwrap_or_default());
            sink(frame);
            count += 1;
        }
        count
    }

    fn drain(&mut self, pool: &FramePool, sink: impl FnMut(Frame)) -> usize {
        let waiting = lock(&self.wire.incoming).len();
        self.poll(pool, waiting, sink)
    }
}

fn fill(pool: &FramePool, frame: &mut Frame, bytes: &[u8]) {
    let chunk = pool.chunk_mut(frame);
    let len = bytes.len().min(chunk.len());
    chunk[..len].copy_from_slice(&bytes[..len]);
    pool.set_len(frame, len);
}

/// A sending side of the null device.
#[derive(Debug)]
pub struct NullTx {
    wire: Arc<Wire>,
    keep: bool,
    done: Option<Frame>,
}

impl TxRing for NullTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        self.done.take().or_else(|| pool.take())
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        if self.keep {
            lock(&self.wire.sent).push_back(pool.data(&frame).to_vec());
        }
        if let Some(previous) = self.done.replace(frame) {
            pool.give(previous);
        }
    }

    fn cancel(&mut self, frame: Frame) {
        self.done = Some(frame);
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        true
    }
}

/// Counts kicks.
#[derive(Debug)]
pub struct NullKick {
    kicks: Arc<Kicks>,
}

impl Kick for NullKick {
    #[inline]
    fn kick(&self) -> KickOutcome {
        let kicks = &self.kicks.0;
        kicks.store(kicks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        KickOutcome::Done
    }
}

/// Whether a flow's packets reach a port, at its address or at any.
fn is_at(flow: &Flow, port: &Flow) -> bool {
    let is_local = [flow.local, at_any_address(flow.local)].contains(&port.local);
    port.peer.is_none() && port.protocol == flow.protocol && is_local
}

/// Remembers the flows.
#[derive(Debug)]
pub struct NullSteering {
    wire: Arc<Wire>,
}

impl Steering for NullSteering {
    fn add(&self, flow: &Flow) -> io::Result<()> {
        lock(&self.wire.flows).push(*flow);
        Ok(())
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        let mut flows = lock(&self.wire.flows);
        // The newest first: with thousands of sockets, those that come and go are measured, not
        // this search.
        if let Some(place) = flows.iter().rposition(|known| known == flow) {
            flows.remove(place);
        }
        if flow.peer.is_none() {
            lock(&self.wire.exempt).retain(|known| !is_at(known, flow));
        }
        Ok(())
    }

    fn exempt(&self, flow: &Flow) -> io::Result<bool> {
        let flows = lock(&self.wire.flows);
        let is_steered = flows.iter().any(|port| is_at(flow, port));
        drop(flows);
        if is_steered {
            lock(&self.wire.exempt).push(*flow);
        }
        Ok(is_steered)
    }

    fn exemptions(&self) -> usize {
        lock(&self.wire.exempt).len()
    }

    fn end_exemption(&self, flow: &Flow) -> io::Result<()> {
        lock(&self.wire.exempt).retain(|known| known != flow);
        Ok(())
    }

    fn set_mac(&self, _mac: [u8; 6]) -> io::Result<()> {
        Ok(())
    }

    fn rest_if_unused(&self) {}

    fn is_resting(&self) -> bool {
        false
    }

    fn give_back(&self) {
        lock(&self.wire.flows).clear();
    }

    fn dropped(&self) -> u64 {
        0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
