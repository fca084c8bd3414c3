//! What programs say, checked and taken in.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::agent::{AgentSocket, Sender};
use crate::connection::{Claim, Connection};
use crate::flows::{Flow, Flows, Full};
use crate::guard::{self, Kernel};
use crate::log::Log;
use crate::message::{self, Message, Received, TcpState};
use crate::process;
use crate::redirect::{self, Redirector};
use crate::registry::{Limits, Refusal, Registry};
use crate::resets::Resets;
use crate::status::{Counters, ProcessLine};

/// Processes that tell of their connections.
#[derive(Debug)]
pub(crate) struct Clients {
    registry: Registry,
    /// Their ids as they themselves see them.
    inner_pids: HashMap<u32, i32>,
    /// The daemon's own: it can only send from there.
    namespace: Option<PathBuf>,
    flows: Flows,
    redirector: Redirector,
}

/// What a message leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    /// The process is to be watched until its end.
    Watch(u32),
}

/// Why a message was not taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{0}")]
    Malformed(#[from] message::Malformed),
    #[error("it speaks version {0} of the protocol, not {version}", version = message::VERSION)]
    Version(u8),
    #[error("it says to be process {0}")]
    Impostor(i32),
    #[error("it is in another network namespace")]
    ForeignNamespace,
    #[error("{0}")]
    Registry(#[from] Refusal),
    #[error("{0}: {1}")]
    Connection(Connection, guard::Objection),
    #[error("it may not redirect packets: it has no CAP_NET_ADMIN")]
    NoAdministrator,
    #[error("{0}")]
    Flows(#[from] Full),
    #[error("packets are not redirected: {0}")]
    Redirection(#[from] redirect::Failure),
}

impl Clients {
    pub(crate) fn new() -> Self {
        Self {
            registry: Registry::new(Limits::default()),
            inner_pids: HashMap::new(),
            namespace: process::network_namespace(std::process::id()),
            flows: Flows::default(),
            redirector: Redirector::default(),
        }
    }

    /// Reads at most `most` datagrams.
    pub(crate) fn serve(
        &mut self,
        most: usize,
        service: &mut Service<'_>,
        mut outcome: impl FnMut(&mut Self, Outcome),
    ) {
        for _ in 0..most {
            let (sender, messages) = match service.agent.receive() {
                Ok(Some((sender, datagram))) => {
                    (sender, message::parse(datagram).collect::<Vec<_>>())
                }
                Ok(None) => return,
                Err(error) => {
                    service.log.error(format_args!("agent socket: {error}"));
                    return;
                }
            };
            for message in messages {
                service.counters.messages += 1;
                let result = message
                    .map_err(Refused::from)
                    .and_then(|message| self.take(&sender, message, service));
                match result {
                    Ok(wanted) => outcome(self, wanted),
                    Err(Refused::Registry(Refusal::TooFast)) => {
                        service.counters.messages_dropped += 1;
                    }
                    Err(refused) => {
                        service.counters.messages_refused += 1;
                        let pid = sender.pid;
                        service.log.debug(format_args!(
                            "refused a message of process {pid}: {refused}"
                        ));
                    }
                }
            }
        }
    }

    fn take(
        &mut self,
        sender: &Sender,
        received: Received,
        service: &mut Service<'_>,
    ) -> Result<Outcome, Refused> {
        let now = Instant::now();
        if received.version > message::VERSION {
            return Err(Refused::Version(received.version));
        }
        if let Message::Init { library } = received.message {
            self.begin(sender, received.pid, library, now)?;
            let answer = message::init_answer(received.pid, library);
            if let Err(error) = service.agent.answer(sender, &answer) {
                let pid = sender.pid;
                service
                    .log
                    .warn(format_args!("cannot answer process {pid}: {error}"));
            }
            return Ok(Outcome::Watch(sender.pid));
        }
        self.registry.admit(sender.pid, now)?;
        if self.inner_pids.get(&sender.pid) != Some(&received.pid) {
            return Err(Refused::Impostor(received.pid));
        }
        match received.message {
            Message::State {
                descriptor,
                connection,
                is_stream: true,
                state,
            } => match state {
                TcpState::Synchronized => {
                    self.open(sender, descriptor, connection, service)?;
                }
                TcpState::Other => self.registry.close(sender.pid, descriptor),
            },
            Message::Exit => self.registry.leave(sender.pid),
            Message::Flow {
                wants_answer,
                is_wanted,
                flow,
            } => {
                let done = self.redirect(sender.pid, is_wanted, flow, service.kernel);
                if wants_answer {
                    let answer = message::flow_answer(received.pid, done.is_ok());
                    // The program gives up waiting by itself.
                    let _ = service.agent.answer(sender, &answer);
                }
                done?;
            }
            Message::State { .. } | Message::Init { .. } => {}
        }
        Ok(Outcome::Nothing)
    }

    fn begin(
        &mut self,
        sender: &Sender,
        said: i32,
        library: u32,
        now: Instant,
    ) -> Result<(), Refused> {
        let pid = sender.pid;
        if process::inner_pid(pid) != Some(said) || !process::belongs_to(pid, sender.user) {
            return Err(Refused::Impostor(said));
        }
        let namespace = process::network_namespace(pid);
        if namespace.is_none() || namespace != self.namespace {
            return Err(Refused::ForeignNamespace);
        }
        self.registry.begin(pid, sender.user, library, now)?;
        self.inner_pids.insert(pid, said);
        Ok(())
    }

    fn open(
        &mut self,
        sender: &Sender,
        descriptor: u32,
        connection: Connection,
        service: &mut Service<'_>,
    ) -> Result<(), Refused> {
        service
            .kernel
            .facts(&connection)
            .and_then(|facts| guard::may_claim(sender.user, facts))
            .map_err(|objection| Refused::Connection(connection, objection))?;
        self.registry.open(sender.pid, descriptor, connection)?;
        service.resets.forget(&connection);
        let pid = sender.pid;
        service
            .log
            .trace(format_args!("process {pid} has {connection}"));
        Ok(())
    }

    fn redirect(
        &mut self,
        pid: u32,
        is_wanted: bool,
        flow: Flow,
        kernel: &Kernel,
    ) -> Result<(), Refused> {
        if !is_wanted {
            if self.flows.remove(pid, &flow) {
                self.redirector.remove(&flow);
            }
            return Ok(());
        }
        // It could do it by itself, or not at all.
        if !process::may_administer_network(pid) {
            return Err(Refused::NoAdministrator);
        }
        if self.flows.add(pid, flow)?
            && let Err(failure) = self.redirector.add(flow, &kernel.host())
        {
            self.flows.remove(pid, &flow);
            return Err(failure.into());
        }
        Ok(())
    }

    /// What nobody but the process wanted is redirected no longer.
    fn end_flows(&mut self, pid: u32) {
        for flow in self.flows.end(pid) {
            self.redirector.remove(&flow);
        }
    }

    /// Flows that are redirected now.
    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// The process has ended: what it left open, and the id in the names of its files if it did not
    /// remove them.
    pub(crate) fn end(&mut self, pid: u32) -> (Vec<Claim>, Option<i32>) {
        let was_known = self.registry.contains(pid);
        let inner = self.inner_pids.remove(&pid).filter(|_| was_known);
        self.end_flows(pid);
        (self.registry.end(pid), inner)
    }

    /// Nobody could watch the process: it has ended.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.registry.leave(pid);
        self.inner_pids.remove(&pid);
        self.end_flows(pid);
    }

    /// Whether a live process has the connection.
    pub(crate) fn have(&self, connection: &Connection) -> bool {
        self.registry.has(connection)
    }

    pub(crate) fn lines(&self) -> Vec<ProcessLine> {
        let summary = self.registry.summary().into_iter();
        summary
            .map(|process| ProcessLine {
                pid: process.pid,
                user: Some(process.user),
                statistics: false,
                messages: true,
                connections: process.connections,
            })
            .collect()
    }
}

/// What is needed to serve clients.
pub(crate) struct Service<'a> {
    pub(crate) agent: &'a mut AgentSocket,
    pub(crate) kernel: &'a mut Kernel,
    pub(crate) resets: &'a mut Resets,
    pub(crate) counters: &'a mut Counters,
    pub(crate) log: &'a Log,
}
