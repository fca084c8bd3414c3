//! Flow rules: which frames are a queue pair's.

use std::collections::HashMap;
use std::ptr;

use libc::c_int;
use rdma_core_sys::{
    IBV_FLOW_ATTR_NORMAL, IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV4, IBV_FLOW_SPEC_IPV6,
    IBV_FLOW_SPEC_TCP, IBV_FLOW_SPEC_UDP, ibv_flow, ibv_flow_attr, ibv_flow_spec_eth,
    ibv_flow_spec_ipv4, ibv_flow_spec_ipv6, ibv_flow_spec_tcp_udp, ibv_qp,
};

use crate::device::{has_fault, inner};
use crate::steal::{Key, Steal};
use crate::violation::violation;

/// Whose frames a rule's are.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The lowest goes first.
    priority: u16,
    pair: u32,
    mac: [u8; 6],
}

/// Rules by what they ask; several of one key differ in their priority.
#[derive(Debug, Default)]
pub(crate) struct Flows(HashMap<Key, Vec<Rule>>);

impl Flows {
    /// The queue pair that a frame is for.
    pub(crate) fn pair_of(&self, frame: &[u8], vlan: u16) -> Option<u32> {
        let key = Key::of_frame(frame, vlan)?;
        let rules = [key, key.of_port()]
            .into_iter()
            .filter_map(|it| self.0.get(&it))
            .flatten();
        let its = rules.filter(|rule| frame[..6] == rule.mac);
        its.min_by_key(|rule| rule.priority).map(|rule| rule.pair)
    }

    /// The device has failed: all frames are the kernel's.
    pub(crate) fn clear(&mut self, steal: &Steal) {
        self.0.drain().for_each(|(key, _)| steal.remove(&key));
    }

    pub(crate) fn has_any_of(&self, number: u32) -> bool {
        self.0.values().flatten().any(|rule| rule.pair == number)
    }
}

#[repr(C)]
struct Flow {
    flow: ibv_flow,
    key: Key,
    priority: u16,
}

fn refuse(errno: c_int) -> *mut ibv_flow {
    // SAFETY: it is the thread's own.
    unsafe { *libc::__errno_location() = errno };
    ptr::null_mut()
}

/// Reads what stands at an address, with any alignment.
///
/// # Safety
/// It is readable.
unsafe fn read<T>(at: *const u8) -> T {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<T>().read_unaligned() }
}

/// The frames of a rule, and the hardware address that they are for. What the device cannot is an
/// error number.
///
/// # Safety
/// `attr` is followed by what it says.
unsafe fn key_of(attr: *const ibv_flow_attr) -> Result<(Key, [u8; 6]), c_int> {
    // SAFETY: the caller's promise.
    let head = unsafe { *attr };
    if head.r#type != IBV_FLOW_ATTR_NORMAL || head.flags != 0 || head.port != 1 {
        return Err(libc::EOPNOTSUPP);
    }
    let (mut key, mut mac) = (Key::default(), None);
    let mut at = attr.wrapping_add(1).cast::<u8>();
    let end = attr.cast::<u8>().wrapping_add(usize::from(head.size));
    for _ in 0..head.num_of_specs {
        // SAFETY: a specification begins here.
        let (kind, size) = unsafe { (read::<u32>(at), read::<u16>(at.wrapping_add(4))) };
        let next = at.wrapping_add(usize::from(size));
        if next > end {
            violation("a flow rule is shorter than its specifications");
        }
        // SAFETY: its size was checked.
        unsafe { take_spec(kind, size, at, &mut key, &mut mac) }?;
        at = next;
    }
    if at != end {
        violation("a flow rule is longer than its specifications");
    }
    match mac {
        Some(mac) if key.protocol != 0 => Ok((key, mac)),
        _ => Err(libc::EINVAL),
    }
}

fn is_size_of<T>(size: u16) {
    if usize::from(size) != size_of::<T>() {
        violation("a specification of a flow rule has the wrong size");
    }
}

/// All of it or nothing.
fn masked<const N: usize>(value: [u8; N], mask: [u8; N]) -> Result<[u8; N], c_int> {
    match mask {
        _ if mask == [0; N] => Ok([0; N]),
        _ if mask == [0xff; N] => Ok(value),
        _ => Err(libc::EOPNOTSUPP),
    }
}

/// # Safety
/// As many octets as the specification has are readable.
unsafe fn take_spec(
    kind: u32,
    size: u16,
    at: *const u8,
    key: &mut Key,
    mac: &mut Option<[u8; 6]>,
) -> Result<(), c_int> {
    match kind {
        IBV_FLOW_SPEC_ETH => {
            is_size_of::<ibv_flow_spec_eth>(size);
            // SAFETY: the caller's promise.
            let spec: ibv_flow_spec_eth = unsafe { read(at) };
            *mac = Some(masked(spec.val.dst_mac, spec.mask.dst_mac)?);
            key.vlan = match u16::from_be(spec.mask.vlan_tag) {
                0 => [0; 2],
                0x0fff => u16::from_be(spec.val.vlan_tag).to_ne_bytes(),
                _ => return Err(libc::EOPNOTSUPP),
            };
        }
        IBV_FLOW_SPEC_IPV4 => {
            is_size_of::<ibv_flow_spec_ipv4>(size);
            // SAFETY: the caller's promise.
            let spec: ibv_flow_spec_ipv4 = unsafe { read(at) };
            let of = |value: u32, mask: u32| masked(value.to_ne_bytes(), mask.to_ne_bytes());
            key.version = 4;
            key.destination[..4].copy_from_slice(&of(spec.val.dst_ip, spec.mask.dst_ip)?);
            key.source[..4].copy_from_slice(&of(spec.val.src_ip, spec.mask.src_ip)?);
        }
        IBV_FLOW_SPEC_IPV6 => {
            is_size_of::<ibv_flow_spec_ipv6>(size);
            // SAFETY: the caller's promise.
            let spec: ibv_flow_spec_ipv6 = unsafe { read(at) };
            key.version = 6;
            key.destination = masked(spec.val.dst_ip, spec.mask.dst_ip)?;
            key.source = masked(spec.val.src_ip, spec.mask.src_ip)?;
        }
        IBV_FLOW_SPEC_TCP | IBV_FLOW_SPEC_UDP => {
            is_size_of::<ibv_flow_spec_tcp_udp>(size);
            // SAFETY: the caller's promise.
            let spec: ibv_flow_spec_tcp_udp = unsafe { read(at) };
            let of = |value: u16, mask: u16| masked(value.to_ne_bytes(), mask.to_ne_bytes());
            key.protocol = if kind == IBV_FLOW_SPEC_TCP { 6 } else { 17 };
            key.destination_port = of(spec.val.dst_port, spec.mask.dst_port)?;
            key.source_port = of(spec.val.src_port, spec.mask.src_port)?;
        }
        _ => return Err(libc::EOPNOTSUPP),
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn create(qp: *mut ibv_qp, attr: *mut ibv_flow_attr) -> *mut ibv_flow {
    if has_fault("no-flows") {
        return refuse(libc::EOPNOTSUPP);
    }
    // SAFETY: the program's promise.
    let (key, mac) = match unsafe { key_of(attr) } {
        Ok(key) => key,
        Err(errno) => return refuse(errno),
    };
    // SAFETY: as above.
    let (context, number) = unsafe { ((*qp).context, (*qp).qp_num) };
    // SAFETY: as above.
    let device = unsafe { inner(context) };
    let mut state = device.state();
    // SAFETY: as above.
    let priority = unsafe { (*attr).priority };
    let rules = state.flows.0.entry(key).or_default();
    if rules.iter().any(|rule| rule.priority == priority) {
        return refuse(libc::EEXIST);
    }
    if rules.is_empty() && device.steal.add(&key).is_err() {
        return refuse(libc::ENOSPC);
    }
    rules.push(Rule {
        priority,
        pair: number,
        mac,
    });
    let flow = ibv_flow {
        comp_mask: 0,
        context,
        handle: state.number(),
    };
    Box::into_raw(Box::new(Flow {
        flow,
        key,
        priority,
    }))
    .cast()
}

pub(crate) unsafe extern "C" fn destroy(flow: *mut ibv_flow) -> c_int {
    // SAFETY: it comes from `create`.
    let flow = unsafe { Box::from_raw(flow.cast::<Flow>()) };
    // SAFETY: its context is live.
    let device = unsafe { inner(flow.flow.context) };
    let mut state = device.state();
    let rules = state.flows.0.entry(flow.key).or_default();
    let before = rules.len();
    rules.retain(|rule| rule.priority != flow.priority);
    let was_there = rules.len() < before;
    if rules.is_empty() {
        state.flows.0.remove(&flow.key);
        device.steal.remove(&flow.key);
    }
    if !was_there && !state.is_dead {
        violation("a flow rule is destroyed that there is not");
    }
    0
}
