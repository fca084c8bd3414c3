//! Requests of `vma_stats`: zero, another log level, a dump of sockets into the log, packets. The
//! internal thread answers them.

use descriptors::OwnDescriptor;
use dev_core::Backend;
use stats::{ControlSocket, Request};

use crate::engine::Engine;
use crate::sockets::stack::Stack;

/// What the log lets others change.
#[derive(Clone, Copy, Debug)]
pub struct LogControls {
    /// Another level, by its name or number. `Err`: there is no such level.
    pub set_level: fn(&str) -> Result<(), String>,
    /// How much stands in front of a line, 0 to 3.
    pub set_details: fn(u8),
    /// Writes a line at a level, by its name; the default is that of general information.
    pub line: fn(Option<&str>, &str) -> Result<(), String>,
}

impl<B: Backend> Engine<B> {
    /// Makes the socket through which requests come. Its number is one that the program does not
    /// meet.
    pub(crate) fn control_socket(&self) -> Option<ControlSocket<OwnDescriptor>> {
        self.segment.control_socket(OwnDescriptor::new)
    }

    /// Answers the requests that have come so far.
    pub(crate) fn answer_requests(&self, socket: &ControlSocket<OwnDescriptor>, log: &LogControls) {
        socket.answer(|request| {
            // That one comes every second.
            if !matches!(request, Request::Capture { .. }) {
                self.segment.event("control", "", &request.to_string());
            }
            let mut told = String::new();
            match request {
                Request::Zero => self.segment.zero(),
                Request::LogLevel(level) => (log.set_level)(level)?,
                Request::LogDetails(details) => (log.set_details)(*details),
                Request::Dump { fd, level } => self.dump(*fd, level.as_deref(), log)?,
                Request::Capture { snap } => told = self.record_packets(*snap)?,
                _ => return Err("not known to this version".to_owned()),
            }
            Ok(told)
        });
    }

    /// Records so many octets of each packet that passes by the kernel, until nobody has asked for
    /// a while. Returns where.
    fn record_packets(&self, snap: u32) -> Result<String, String> {
        let ring = self.segment.capture();
        let ring = ring.ok_or("there is no room for packets in its file")?;
        let begins = !ring.is_wanted();
        ring.begin(snap, sys::now_nsec())
            .map_err(|error| format!("there is no memory for packets: {error}"))?;
        if begins {
            self.segment.event("capture", "", "packets are recorded");
            self.links.record_in(ring);
        }
        Ok(ring.offset().to_string())
    }

    /// Ends the recording of packets that nobody asks for any more.
    pub(super) fn end_recording_if_due(&self) {
        if let Some(ring) = self.segment.capture()
            && ring.end_if_due(sys::now_nsec())
        {
            self.links.end_recording();
            ring.give_back();
            self.segment
                .event("capture", "", "packets are not recorded any more");
        }
    }

    /// Writes the statistics of a socket, or of all (0), into the log.
    fn dump(&self, fd: i32, level: Option<&str>, log: &LogControls) -> Result<(), String> {
        let fds: Vec<_> = match fd {
            0 => self.table.range(0, u32::MAX).collect(),
            fd => vec![fd],
        };
        let mut dumped = 0;
        for fd in fds {
            if let Some(socket) = self.socket(fd) {
                dumped += 1;
                let counters = socket.core().counters();
                for line in counters
                    .identity_lines()
                    .into_iter()
                    .chain(counters.lines())
                {
                    (log.line)(level, &line)?;
                }
            }
        }
        if dumped == 0 && fd != 0 {
            return Err(format!(
                "Invalid fd val: {fd} is no socket of the library's"
            ));
        }
        Ok(())
    }
}
