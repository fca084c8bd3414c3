//! Messages that are answered where the library shows them (`--rxfiltercb`): in a function that it
//! calls before a packet is received, in whichever thread receives or waits. Nothing is left to be
//! received then.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vma_api::{Api, Seen, Verdict};

use super::link::{Exchange, Kind};
use super::{Handler, Serving, Totals};
use crate::error::Error;
use crate::net::address::Peer;
use crate::net::inbox::Inbox;
use crate::net::socket::Socket;
use crate::options::ServerOptions;
use crate::sys::clock::Clock;
use crate::sys::stop::Stop;
use crate::terminal::Output;

/// What all functions of a server have in common.
#[derive(Debug)]
pub struct Filters {
    api: Api,
    /// It lasts: the library may call a function as long as the process lives.
    serving: &'static Serving<'static>,
    totals: Mutex<Totals>,
}

/// What the function of a socket has.
#[derive(Debug)]
pub(super) struct Filter {
    /// `None` when the socket is done with.
    answering: Mutex<Option<Answering>>,
    /// The connection is to be closed.
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Answering {
    socket: Arc<Socket>,
    kind: Kind,
    inbox: Inbox,
    packet: Vec<u8>,
    handler: Handler<'static>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Filters {
    /// `None`: nobody has asked for it.
    ///
    /// # Errors
    /// There is no library.
    pub fn new(
        options: &ServerOptions,
        stop: &Stop,
        output: &Output,
    ) -> Result<Option<Self>, Error> {
        if !options.in_callback {
            return Ok(None);
        }
        let api = Api::get().ok_or_else(|| {
            Error::Usage(
                "--rxfiltercb needs libvma: LD_PRELOAD=libvma.so sockperf-rs ..., or --load-vma"
                    .to_owned(),
            )
        })?;
        let serving = Serving {
            options: Box::leak(Box::new(options.clone())),
            clock: Box::leak(Box::new(Clock::monotonic())),
            stop: Box::leak(Box::new(stop.clone())),
            output: output.clone(),
            tls: None,
            filters: None,
        };
        Ok(Some(Self {
            api,
            serving: Box::leak(Box::new(serving)),
            totals: Mutex::default(),
        }))
    }

    /// Has the library show what comes to a socket. `None`: it is the kernel's, and its messages
    /// are received.
    pub(super) fn watch(
        &self,
        socket: &Arc<Socket>,
        kind: Kind,
        inbox: Inbox,
    ) -> Option<Arc<Filter>> {
        let filter = Arc::new(Filter {
            answering: Mutex::new(Some(Answering {
                socket: Arc::clone(socket),
                kind,
                inbox,
                packet: Vec::new(),
                handler: Handler::new(self.serving),
            })),
            is_over: AtomicBool::new(false),
        });
        let seen = Arc::clone(&filter);
        let watched = self
            .api
            .watch(socket.as_fd(), move |packet| seen.see(packet));
        if let Err(error) = watched {
            crate::error::complain(format_args!(
                "WARNING: a socket's messages are received, not seen first: {error}"
            ));
            filter.end();
            return None;
        }
        Some(filter)
    }

    /// The socket is done with.
    pub(super) fn end(&self, filter: &Filter) {
        if let Some(totals) = filter.end() {
            lock(&self.totals).add(totals);
        }
    }

    /// What all functions have handled of sockets that are done with.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = std::mem::take(&mut *lock(&self.totals));
        totals.handled_in_callback = totals.handled;
        totals
    }
}

impl Filter {
    fn see(&self, packet: &Seen<'_>) -> Verdict {
        match &mut *lock(&self.answering) {
            None => Verdict::Receive,
            Some(answering) => {
                if answering.answer(packet).is_break() && answering.kind.is_connection() {
                    self.is_over.store(true, Ordering::Relaxed);
                }
                Verdict::Drop
            }
        }
    }

    /// Whether what has come of a connection can be no message.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Nothing is answered from here on. Returns what was.
    fn end(&self) -> Option<Totals> {
        let answering = lock(&self.answering).take()?;
        Some(answering.handler.finish())
    }
}

impl Answering {
    fn answer(&mut self, packet: &Seen<'_>) -> ControlFlow<()> {
        // The library's memory is not to be changed, and an answer is the message with other flags.
        self.packet.clear();
        self.packet.extend_from_slice(packet.octets());
        let sender = match (self.kind.is_connection(), packet.source()) {
            (false, Some(source)) => Peer::Inet(source),
            _ => Peer::Connected,
        };
        let exchange = Exchange::new(&self.socket, self.kind, &sender);
        let handler = &mut self.handler;
        self.inbox
            .pass(&mut self.packet, |next| exchange.handle(handler, next))
    }
}
