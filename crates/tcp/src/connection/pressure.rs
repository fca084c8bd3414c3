//! What a connection can do for an owner that is short of memory: kernel `tcp_prune_queue`,
//! `tcp_under_memory_pressure`.

use super::Connection;
use crate::Payload;
use crate::options::MIN_SEND_BUFFER;

impl<P: Payload> Connection<P> {
    /// The owner is short of memory: frames of the device, or what the process may use. Returns by
    /// how many octets the [footprint](Payload::footprint) of received data became smaller.
    ///
    /// Always: the connection asks for no more. What it offers its peer grows to at most four
    /// segments beyond what has arrived (a window that was offered is not taken back; the limit of
    /// a buffer may rise with what is read, as in `tcp_rcv_space_adjust`, but only what is offered
    /// takes memory), and a send buffer that the application did not choose is reduced to half of
    /// what is queued (`sk_stream_moderate_sndbuf`). Both grow again with the next segments; so
    /// this is to be called after each of them, before [`poll_transmit`](Self::poll_transmit), for
    /// as long as memory is short. `wanted` is 0 for that; it costs a few nanoseconds.
    ///
    /// If some is `wanted`, the connection gives back so many octets, or what it can: memory that
    /// is only kept for speed; frames of unread data whose octets fit behind those of others
    /// ([`Payload::try_append`]); then data that arrived out of order, the furthest first. Data
    /// that may be read is never given back. It costs time in proportion to what is queued: to be
    /// asked of connections that have much ([`Connection::received_footprint`]), not of each after
    /// each segment.
    ///
    /// The peer had been told of data out of order, and may believe that (RFC 2018 §8 allows to
    /// throw it away). It sends such data again when it sees that its acknowledgement does not
    /// follow, 10 ms later at best, else by its retransmission timeout.
    pub fn relieve(&mut self, wanted: usize) -> usize {
        self.receiver.window.restrain();
        if !self.cold.options.is_send_buffer_locked {
            let half = u32::try_from(self.sender.queue.len() / 2).unwrap_or(u32::MAX);
            let buffer = self.cold.options.send_buffer.min(half.max(MIN_SEND_BUFFER));
            self.cold.options.send_buffer = buffer;
            self.note_send_room();
        }
        if wanted == 0 {
            return 0;
        }
        self.shrink();
        self.receiver.relieve(wanted)
    }

    /// Octets of memory that received data keeps from other use, unread or out of order: what
    /// [`relieve`](Self::relieve) may find something in.
    pub fn received_footprint(&self) -> usize {
        self.receiver.footprint()
    }
}
