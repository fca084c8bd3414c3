//! Received data, left where the device put it.

/// An owned handle of received octets.
///
/// The octets stay in the device's frame until the application reads them; dropping the handle
/// gives the frame back.
pub trait Payload: AsRef<[u8]> {
    /// Forgets the first `count` octets, at most all of them.
    fn trim_front(&mut self, count: usize);

    /// Forgets all but the first `len` octets.
    fn truncate(&mut self, len: usize);

    /// Octets of memory that the handle keeps from other use, of which the data may be a small
    /// part. Counts against the receive buffer (as `truesize` does in Linux), so that tiny segments
    /// cannot pin memory without bound.
    fn footprint(&self) -> usize;

    /// Copies `octets` behind these, if there is memory left behind them; `false` if not. Many
    /// small segments then take the memory of few large ones.
    fn try_append(&mut self, octets: &[u8]) -> bool;
}

impl Payload for Vec<u8> {
    fn trim_front(&mut self, count: usize) {
        self.drain(..count.min(self.len()));
    }

    fn truncate(&mut self, len: usize) {
        Self::truncate(self, len);
    }

    fn footprint(&self) -> usize {
        self.capacity()
    }

    fn try_append(&mut self, octets: &[u8]) -> bool {
        let has_room = self.capacity().saturating_sub(self.len()) >= octets.len();
        if has_room {
            self.extend_from_slice(octets);
        }
        has_room
    }
}
