//! SocketXtreme: what streams and listeners have to tell is taken by their ring.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// What the program is told of when it comes: of data there are packets.
const NEWS: u32 = events::IN | events::OUT | events::RDHUP | events::HUP | events::ERR;

impl<S: TcpStack> TcpSocket<S> {
    /// The socket may have something to tell. No lock is held.
    #[cold]
    pub(super) fn note_news(&'static self, has_data: bool) {
        let now = self.readiness.now();
        let reported = &self.unseen.reported;
        // What it is ready for no more is news when it comes again.
        let known = reported.fetch_and(now, Ordering::Relaxed);
        if has_data || now & NEWS & !known != 0 {
            self.unseen
                .list(self.into(), self.generation(), &self.interfaces);
        }
    }

    /// A connection was accepted for the program, or a listener has more of them.
    pub(crate) fn tells_news(&'static self, host: &Host<S>) {
        if self.is_listener() {
            return self.note_news(true);
        }
        // Nobody has waited for that.
        self.unseen
            .reported
            .fetch_or(events::OUT, Ordering::Relaxed);
        self.change_stream(host, |_, _| {});
    }

    /// The socket is out of the list of its ring: what comes from here on is news.
    pub(crate) fn begin_taking_news(&self) {
        self.unseen.leaves_list();
    }

    /// Gives up to `max` segments to who takes them by the ring. Returns how many, and events, for
    /// which there is room then.
    pub(crate) fn take_unseen(
        &'static self,
        generation: u32,
        max: usize,
        give: &mut impl FnMut(Received, SocketAddr, u64),
    ) -> (usize, Option<u32>) {
        self.begin_taking_news();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return (0, None);
        };
        if self.generation() != generation || stream.orphan.is_some() {
            return (0, None);
        }
        let mut count = 0;
        while count < max
            && let Some(segment) = stream.connection.lift_payload()
        {
            give(segment, stream.peer, 0);
            count += 1;
        }
        let has_more = stream.connection.readable_len() > 0;
        stream.show_readiness(&self.core);
        let now = self.readiness.now();
        let known = self.unseen.reported.fetch_and(now, Ordering::Relaxed);
        let mut news = Some(now & NEWS & !known).filter(|news| *news != 0);
        if has_more || (news.is_some() && count == max) {
            self.unseen.list(self.into(), generation, &self.interfaces);
            news = None;
        }
        if let Some(news) = news {
            self.unseen.reported.fetch_or(news, Ordering::Relaxed);
        }
        (count, news)
    }
}
