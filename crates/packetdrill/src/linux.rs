//! Linux itself as the stack: a namespace whose only link is a TUN device.

pub(crate) mod info;
pub(crate) mod sys;
pub(crate) mod worker;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use testkit::{Namespace, Skip, Tun};

use crate::call::{Call, Outcome};
use crate::stack::{Segment, Setup, Stack, Unreachable, patience};
use crate::sysctl::Change;
use crate::wire;
use worker::Answer;

/// The kernel's TCP. Plays one script.
pub struct Linux {
    namespace: Arc<Namespace>,
    tun: Option<Tun>,
    /// Of the peer that the script plays, and of the kernel.
    remote: Ipv4Addr,
    local: Ipv4Addr,
    calls: Option<Sender<Call>>,
    answers: Option<Receiver<Answer>>,
    descriptors: worker::Descriptors,
    /// What is known before the runner asks.
    answered: Option<Answer>,
    sniffed: VecDeque<(Duration, Segment)>,
    /// On the clock of [`sys::monotonic`].
    start: Duration,
    buffer: Vec<u8>,
    has_offload: bool,
}

impl Linux {
    /// Makes the namespace. The kernel leaves segmentation to the device.
    pub fn new() -> Result<Self, Skip> {
        Self::make(true)
    }

    /// As [`Linux::new`], for a device that does not segment.
    pub fn without_offload() -> Result<Self, Skip> {
        Self::make(false)
    }

    fn make(has_offload: bool) -> Result<Self, Skip> {
        Ok(Self {
            has_offload,
            namespace: Arc::new(Namespace::create("tun")?),
            tun: None,
            remote: Ipv4Addr::UNSPECIFIED,
            local: Ipv4Addr::UNSPECIFIED,
            calls: None,
            answers: None,
            descriptors: worker::Descriptors::default(),
            answered: None,
            sniffed: VecDeque::new(),
            start: Duration::ZERO,
            buffer: vec![0; 1 << 16],
        })
    }

    fn make_link(&mut self, setup: &Setup) -> Result<(), String> {
        let make = if self.has_offload {
            Tun::with_offload
        } else {
            Tun::create
        };
        let tun = make(&self.namespace, "tun0", setup.local, setup.mtu);
        self.tun = Some(tun.map_err(|skip| skip.reason().to_owned())?);
        if !self.has_offload {
            // Without it, too, the kernel makes packets of several segments, and waits until there
            // are enough for one.
            let limit = ["link", "set", "tun0", "gso_max_segs", "1"];
            let limited = self.namespace.ip(&limit);
            limited.map_err(|error| error.to_string())?;
        }
        let route = ["route", "add", "default", "dev", "tun0"];
        let route = self.namespace.ip(&route);
        route.map(drop).map_err(|error| error.to_string())
    }

    fn poll_answer(&mut self, wait: Duration) {
        if self.answered.is_none()
            && let Some(answers) = &self.answers
        {
            self.answered = answers.recv_timeout(wait).ok();
        }
    }
}

/// Time since `start`, on the clock of [`sys::monotonic`].
pub(crate) fn since(start: Duration) -> Duration {
    sys::monotonic().saturating_sub(start)
}

/// Changes a setting of a namespace.
pub(crate) fn change(namespace: &Namespace, change: &Change) -> Result<(), String> {
    match change {
        Change::Set(setting) => {
            let settings = std::slice::from_ref(setting);
            namespace.enter(|| sys::set_sysctls(settings))
        }
        Change::ForgetHosts => {
            let flushed = namespace.ip(&["tcp_metrics", "flush", "all"]);
            flushed.map(drop).map_err(|error| error.to_string())
        }
    }
}

impl Stack for Linux {
    fn set_up(&mut self, setup: &Setup) -> Result<(), String> {
        if setup.is_ipv6 {
            return Err("IPv6".to_owned());
        }
        (self.local, self.remote) = (setup.local, setup.remote);
        if self.tun.is_none() {
            self.make_link(setup)?;
        }
        self.namespace.enter(|| sys::set_sysctls(&setup.sysctls))?;
        let ends = worker::Ends::of(setup);
        self.descriptors = worker::Descriptors::default();
        let (calls, answers) = worker::spawn(
            Arc::clone(&self.namespace),
            ends,
            Arc::clone(&self.descriptors),
        );
        // The thread is ready: the script's time begins.
        let ready = answers.recv();
        ready.map_err(|_| "the thread that makes system calls has ended".to_owned())?;
        (self.calls, self.answers) = (Some(calls), Some(answers));
        self.start = sys::monotonic();
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), String> {
        self::change(&self.namespace, change)
    }

    fn now(&mut self) -> Duration {
        since(self.start)
    }

    fn sniff(&mut self, deadline: Duration) -> Option<(Duration, Segment)> {
        if let Some(sniffed) = self.sniffed.pop_front() {
            return Some(sniffed);
        }
        let tun = self.tun.as_ref()?;
        loop {
            let left = deadline.saturating_sub(since(self.start));
            let received = tun.receive(&mut self.buffer, left);
            let length = received.expect("a TUN device can be read")?;
            let time = since(self.start);
            if let Some(segment) = wire::decode_tcp(&self.buffer[..length]) {
                return Some((time, segment));
            }
        }
    }

    fn inject(&mut self, segment: &Segment) {
        let packet = wire::encode_tcp(segment, self.remote, self.local);
        let tun = self.tun.as_ref().expect("set_up came first");
        tun.send(&packet).expect("a TUN device takes packets");
    }

    fn inject_unreachable(&mut self, message: &Unreachable) {
        let packet = wire::encode_unreachable(message, self.remote, self.local);
        let tun = self.tun.as_ref().expect("set_up came first");
        tun.send(&packet).expect("a TUN device takes packets");
    }

    fn start(&mut self, call: &Call, may_block: bool) -> Result<(), String> {
        let calls = self.calls.as_ref().expect("set_up came first");
        let sent = calls.send(call.clone());
        sent.map_err(|_| "the thread that makes system calls has ended".to_owned())?;
        self.answered = None;
        // Even a call that may block often does not.
        self.poll_answer(patience(may_block));
        Ok(())
    }

    fn outcome(&mut self) -> Option<(Duration, Outcome)> {
        self.poll_answer(Duration::ZERO);
        let answer = self.answered.take()?;
        Some((answer.time.saturating_sub(self.start), answer.outcome))
    }

    fn tcp_info(&mut self, fd: i32, name: &str) -> Option<i64> {
        info::value(fd, name)
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        // The worker ends when there are no more calls; one that blocks returns when its sockets
        // are shut down.
        self.calls = None;
        for fd in worker::locked(&self.descriptors).iter() {
            sys::shut_down(*fd);
        }
    }
}
