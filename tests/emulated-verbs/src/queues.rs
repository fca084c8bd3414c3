//! Queue pairs and completion queues.

use std::collections::{HashSet, VecDeque};

use libc::c_int;
use rdma_core_sys::{
    IBV_QPS_RTR, IBV_QPS_RTS, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_IP_CSUM_OK,
    IBV_WC_LOC_LEN_ERR, IBV_WC_RECV, IBV_WC_SEND, IBV_WC_SUCCESS, IBV_WR_SEND, MLX5_CQE_L3_OK,
    MLX5_CQE_L4_OK, ibv_cq, ibv_qp, ibv_qp_cap, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc,
    mlx5dv_cq, mlx5dv_qp,
};

use wire::ChecksumPolicy;

use crate::device::{Inner, State, inner};
use crate::mlx5::{Asked, CompletionMemory, PairMemory};
use crate::sys;
use crate::violation::violation;

/// A queue pair of raw packets.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) cap: ibv_qp_cap,
    pub(crate) state: u32,
    /// Its completion queues.
    pub(crate) send_to: usize,
    pub(crate) receive_to: usize,
    /// Memory to receive into.
    receive: VecDeque<(u64, ibv_sge)>,
    /// What the device has: its beginning.
    pub(crate) held: HashSet<u64>,
    /// Sent, but no completion says so.
    pub(crate) unsignaled: Vec<u64>,
    /// Requests to send that the program does not know the end of.
    sending: u32,
    /// The program uses its queues without calls.
    pub(crate) memory: Option<PairMemory>,
}

impl Pair {
    pub(crate) fn new(cap: ibv_qp_cap, send_to: usize, receive_to: usize) -> Self {
        Self {
            cap,
            state: 0,
            send_to,
            receive_to,
            receive: VecDeque::new(),
            held: HashSet::new(),
            unsignaled: Vec::new(),
            sending: 0,
            memory: None,
        }
    }

    /// From here on the program uses the queues themselves.
    pub(crate) fn use_memory(&mut self) -> mlx5dv_qp {
        let memory = PairMemory::new(&self.cap);
        self.memory.insert(memory).memory()
    }

    pub(crate) fn hold(&mut self, address: u64) {
        if !self.held.insert(address) {
            violation(&format!(
                "the memory at {address:#x} is posted, and the device has it"
            ));
        }
    }
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Completions {
    pub(crate) capacity: usize,
    /// With the memory that the program has again.
    entries: VecDeque<(ibv_wc, Vec<u64>)>,
    is_armed: bool,
    /// Where an event is raised.
    pub(crate) channel: Option<i32>,
    /// The program uses it without calls.
    memory: Option<CompletionMemory>,
}

impl Completions {
    pub(crate) fn new(capacity: usize, channel: Option<i32>) -> Self {
        Self {
            capacity,
            entries: VecDeque::new(),
            is_armed: false,
            channel,
            memory: None,
        }
    }

    /// From here on the program uses the queue itself.
    pub(crate) fn use_memory(&mut self, number: u32) -> mlx5dv_cq {
        let memory = CompletionMemory::new(self.capacity, number);
        self.memory.insert(memory).memory()
    }

    fn push(&mut self, completion: ibv_wc, memory: Vec<u64>) {
        if self.entries.len() >= self.capacity {
            violation("a completion queue is full");
        }
        self.entries.push_back((completion, memory));
        self.raise_event();
    }

    fn raise_event(&mut self) {
        if std::mem::take(&mut self.is_armed)
            && let Some(channel) = self.channel
        {
            if let Some(memory) = &mut self.memory {
                memory.count_event();
            }
            sys::write(channel, &1_u64.to_ne_bytes());
        }
    }

    /// Looks at its doorbell. Returns whether it has been rung.
    pub(crate) fn look(&mut self) -> bool {
        let Some(memory) = &self.memory else {
            return false;
        };
        let asked = memory.look();
        self.is_armed |= asked != Asked::Nothing;
        if asked == Asked::EventNow {
            self.raise_event();
        }
        asked != Asked::Nothing
    }
}

impl State {
    /// Memory of the program's that the device is to use.
    pub(crate) fn check(&self, part: &ibv_sge) {
        let is_inside = self.regions.get(&part.lkey).is_some_and(|region| {
            let end = part.addr.checked_add(u64::from(part.length));
            part.addr >= region.address && end.is_some_and(|it| it <= region.address + region.len)
        });
        if !is_inside {
            violation(&format!("memory that is not registered: {part:x?}"));
        }
    }

    pub(crate) fn pair(&mut self, number: u32) -> &mut Pair {
        let pair = self.pairs.get_mut(&number);
        pair.unwrap_or_else(|| violation("a queue pair that there is not"))
    }

    fn complete(&mut self, queue: usize, completion: ibv_wc, memory: Vec<u64>) {
        match self.completions.get_mut(&queue) {
            Some(queue) => queue.push(completion, memory),
            None => violation("a completion queue that there is not"),
        }
    }

    /// The same in a queue that the program reads itself. `request` is where it stands.
    pub(crate) fn complete_in_memory(
        &mut self,
        queue: usize,
        completion: &ibv_wc,
        request: u16,
        checks: u8,
    ) {
        let Some(queue) = self.completions.get_mut(&queue) else {
            violation("a completion queue that there is not");
        };
        match &mut queue.memory {
            Some(memory) => memory.write(completion, request, checks),
            None => violation("a completion queue that is not in memory"),
        }
        queue.raise_event();
    }

    /// Reads what was posted without a call.
    fn fetch_posted(&mut self, number: u32) {
        let posted = self.pair(number).memory.as_mut().map(PairMemory::posted);
        for part in posted.unwrap_or_default() {
            self.check(&part);
            let pair = self.pair(number);
            pair.hold(part.addr);
            pair.receive.push_back((0, part));
        }
    }
}

/// Whether a frame's checksums are right. Where there is none the card has not looked.
fn has_right_sums(frame: &[u8]) -> bool {
    let Ok(packet) = wire::ip::parse(frame) else {
        return false;
    };
    match packet.protocol {
        wire::ip::PROTOCOL_UDP => wire::parse_udp(&packet, ChecksumPolicy::Verify).is_ok(),
        wire::ip::PROTOCOL_TCP => wire::tcp::parse_tcp(&packet, ChecksumPolicy::Verify).is_ok(),
        _ => false,
    }
}

/// What is between the addresses and the rest of a frame with this tag.
fn tag_bytes(tag: Option<u16>) -> Vec<u8> {
    let with_type = |tag: u16| [&[0x81, 0x00], &tag.to_be_bytes()[..]].concat();
    tag.map(with_type).unwrap_or_default()
}

/// A frame has come from the wire. A card leaves its tag in it.
pub(crate) fn frame_came(device: &Inner, frame: &[u8], tag: Option<u16>) {
    let mut state = device.state();
    // One that has failed has no rules.
    let Some(number) = state.flows.pair_of(frame, tag.unwrap_or(0) & 0x0fff) else {
        return;
    };
    state.fetch_posted(number);
    let pair = state.pair(number);
    if !(IBV_QPS_RTR..=IBV_QPS_RTS).contains(&pair.state) {
        return;
    }
    let checks = if has_right_sums(frame) {
        MLX5_CQE_L3_OK | MLX5_CQE_L4_OK
    } else {
        0
    };
    let frame = [&frame[..12], &tag_bytes(tag), &frame[12..]].concat();
    // Without memory to receive into it is lost.
    let Some((wr_id, part)) = pair.receive.pop_front() else {
        return;
    };
    let queue = pair.receive_to;
    let place = pair.memory.as_mut().map(PairMemory::count_received);
    let fits = frame.len() <= part.length as usize;
    if fits {
        let to = part.addr as *mut u8;
        // SAFETY: registered memory, which the program has left to the device.
        unsafe { to.copy_from_nonoverlapping(frame.as_ptr(), frame.len()) };
    }
    let completion = ibv_wc {
        wr_id,
        status: if fits {
            IBV_WC_SUCCESS
        } else {
            IBV_WC_LOC_LEN_ERR
        },
        opcode: IBV_WC_RECV,
        byte_len: frame.len() as u32,
        qp_num: number,
        wc_flags: if checks == 0 { 0 } else { IBV_WC_IP_CSUM_OK },
        ..ibv_wc::default()
    };
    match place {
        Some(place) => {
            state.pair(number).held.remove(&part.addr);
            state.complete_in_memory(queue, &completion, place, checks);
        }
        None => state.complete(queue, completion, vec![part.addr]),
    }
}

pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program's promise.
    let device = unsafe { inner((*cq).context) };
    let mut state = device.state();
    let mut polled = 0;
    while polled < count {
        let queue = state.completions.get_mut(&(cq as usize));
        let queue = queue.unwrap_or_else(|| violation("a completion queue that there is not"));
        let Some((completion, memory)) = queue.entries.pop_front() else {
            break;
        };
        let pair = state.pair(completion.qp_num);
        if completion.opcode == IBV_WC_SEND {
            pair.sending -= memory.len() as u32;
        }
        for address in memory.iter().filter(|address| **address != 0) {
            pair.held.remove(address);
        }
        // SAFETY: the program has room for so many.
        unsafe { wc.add(polled as usize).write(completion) };
        polled += 1;
    }
    polled
}

pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, _solicited: c_int) -> c_int {
    // SAFETY: the program's promise.
    let device = unsafe { inner((*cq).context) };
    match device.state().completions.get_mut(&(cq as usize)) {
        Some(queue) => queue.is_armed = true,
        None => violation("a completion queue that there is not"),
    }
    0
}

pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    mut list: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program's promise.
    let (device, number) = unsafe { (inner((*qp).context), (*qp).qp_num) };
    let mut state = device.state();
    // SAFETY: null, or a request.
    while let Some(request) = unsafe { list.as_ref() } {
        if request.num_sge != 1 {
            violation("a request to receive has not one part");
        }
        // SAFETY: it has one part.
        let part = unsafe { *request.sg_list };
        state.check(&part);
        let pair = state.pair(number);
        if pair.receive.len() >= pair.cap.max_recv_wr as usize {
            // SAFETY: the program's.
            unsafe { *bad = list };
            return libc::ENOMEM;
        }
        pair.hold(part.addr);
        pair.receive.push_back((request.wr_id, part));
        list = request.next;
    }
    0
}

pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut list: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the program's promise.
    let (device, number) = unsafe { (inner((*qp).context), (*qp).qp_num) };
    // SAFETY: null, or a request.
    while let Some(request) = unsafe { list.as_ref() } {
        if request.num_sge != 1 || request.opcode != IBV_WR_SEND {
            violation("a request to send is not one of one part");
        }
        // SAFETY: it has one part.
        let part = unsafe { *request.sg_list };
        let taken = take(&mut device.state(), number, request, &part);
        if let Err(errno) = taken {
            // SAFETY: the program's.
            unsafe { *bad = list };
            return errno;
        }
        list = request.next;
        if device.state().is_dead {
            continue;
        }
        let (from, len) = (part.addr as *const u8, part.length as usize);
        // SAFETY: registered, or to be copied: readable until this returns in any case.
        device
            .wire
            .send(unsafe { std::slice::from_raw_parts(from, len) });
        complete_send(&mut device.state(), number, request);
        device.fail_after_frames();
    }
    0
}

/// The memory is the device's from here on, if it is not to be copied.
fn take(
    state: &mut State,
    number: u32,
    request: &ibv_send_wr,
    part: &ibv_sge,
) -> Result<(), c_int> {
    let is_inline = request.send_flags & IBV_SEND_INLINE != 0;
    if !is_inline {
        state.check(part);
    }
    let pair = state.pair(number);
    if pair.state != IBV_QPS_RTS || is_inline && part.length > pair.cap.max_inline_data {
        return Err(libc::EINVAL);
    }
    if pair.sending >= pair.cap.max_send_wr {
        return Err(libc::ENOMEM);
    }
    if !is_inline {
        pair.hold(part.addr);
    }
    pair.sending += 1;
    pair.unsignaled.push(if is_inline { 0 } else { part.addr });
    Ok(())
}

fn complete_send(state: &mut State, number: u32, request: &ibv_send_wr) {
    if request.send_flags & IBV_SEND_SIGNALED == 0 {
        return;
    }
    let pair = state.pair(number);
    let (memory, queue) = (std::mem::take(&mut pair.unsignaled), pair.send_to);
    let completion = ibv_wc {
        wr_id: request.wr_id,
        status: IBV_WC_SUCCESS,
        opcode: IBV_WC_SEND,
        qp_num: number,
        ..ibv_wc::default()
    };
    state.complete(queue, completion, memory);
}
