//! Connections of which nothing is kept until they are established: SYN cookies, while the queue is
//! full.

use links::delivery;

use ::tcp::{CookieError, Instant, SecretFlow, Transmit};
use wire::tcp::Segment;

use super::Listening;
use crate::sockets::stack::Stack;
use crate::tcp::egress::path_to;
use crate::tcp::globals::Globals;
use crate::tcp::state::origin::Origin;
use crate::tcp::stream::Outcome;

impl<S: Stack> Listening<S> {
    /// A SYN of which nothing is kept.
    pub(super) fn answer_with_cookie(
        &mut self,
        globals: &Globals<S>,
        now: Instant,
        segment: &Segment,
        origin: Origin,
    ) -> Outcome {
        let Some(egress) = self.egress_back(segment, origin) else {
            return Outcome::default();
        };
        let key = globals.key();
        let flow = SecretFlow {
            key: &key,
            local: segment.endpoints.destination(),
            remote: segment.endpoints.source(),
        };
        let path = path_to(segment.endpoints.source().ip(), egress.mtu);
        let mut answer = Transmit::default();
        self.listener.answer_with_cookie(
            now,
            &flow,
            &path,
            &self.options,
            &segment.header,
            &mut answer,
        );
        let mut header = Some(answer.header);
        let burst = egress.sender.put_segments(|frame| {
            let header = header.take()?;
            egress.template.emit(frame, 0, 0, &header, [])
        });
        Outcome {
            needs_kick: burst.needs_kick && !egress.sender.note_reply_to(egress.sender.interface),
            ..Outcome::default()
        }
    }

    /// Makes the connection of a cookie that comes back.
    pub(super) fn open_by_cookie(
        &mut self,
        globals: &Globals<S>,
        now: Instant,
        segment: &Segment,
        origin: Origin,
    ) -> Result<(), CookieError> {
        let egress = self
            .egress_back(segment, origin)
            .ok_or(CookieError::Invalid)?;
        let key = globals.key();
        let flow = SecretFlow {
            key: &key,
            local: segment.endpoints.destination(),
            remote: segment.endpoints.source(),
        };
        let path = path_to(segment.endpoints.source().ip(), egress.mtu);
        let options = self.options.clone();
        let connection = self
            .listener
            .accept_cookie(now, &flow, path, options, &segment.header)?;
        let key = delivery::ends(segment, origin.link_index);
        self.hold(globals, connection, egress, key);
        Ok(())
    }
}
