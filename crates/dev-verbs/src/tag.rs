//! The tag of a VLAN (IEEE 802.1Q) in a frame: behind the addresses.

use dev_core::{Frame, FramePool};

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 4;
/// Where it is: behind both addresses.
pub(crate) const TAG_AT: usize = 12;
const TAG_TYPE: [u8; 2] = [0x81, 0x00];

/// Of priority 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u16);

impl Tag {
    /// The bits of a tag that are the VLAN's number; the others are a priority.
    pub(crate) const ID_MASK: u16 = 0x0fff;

    /// `None`: there is no such VLAN.
    pub(crate) fn new(id: u16) -> Option<Self> {
        (1..Self::ID_MASK).contains(&id).then_some(Self(id))
    }

    pub(crate) fn id(self) -> u16 {
        self.0
    }

    /// As in a frame.
    pub(crate) fn bytes(self) -> [u8; TAG_BYTES] {
        let [high, low] = self.0.to_be_bytes();
        [TAG_TYPE[0], TAG_TYPE[1], high, low]
    }

    /// Puts the tag into a frame that is to leave. `None`: there is no room.
    pub(crate) fn put_in(self, pool: &FramePool, frame: Frame) -> Option<Frame> {
        let mut frame = frame;
        let len = frame.len();
        if len < TAG_AT || len + TAG_BYTES > usize::from(pool.frame_bytes()) {
            pool.give(frame);
            return None;
        }
        // What leaves begins with its chunk.
        let chunk = pool.chunk_mut(&mut frame);
        chunk.copy_within(TAG_AT..len, TAG_AT + TAG_BYTES);
        chunk[TAG_AT..TAG_AT + TAG_BYTES].copy_from_slice(&self.bytes());
        pool.set_len(&mut frame, len + TAG_BYTES);
        Some(frame)
    }
}

/// Takes the tag out of a frame that has come: the addresses move. One without a tag stays as it
/// is: the device has taken it out. Returns whether the frame is of this VLAN or, without one, of
/// none: a tag may be a priority alone, with 0 for the VLAN.
#[inline]
pub(crate) fn take_out(vlan: Option<Tag>, pool: &FramePool, frame: &mut Frame) -> bool {
    let id = match pool.data(frame).get(TAG_AT..TAG_AT + TAG_BYTES) {
        Some([0x81, 0x00, high, low]) => u16::from_be_bytes([*high, *low]) & Tag::ID_MASK,
        _ => return true,
    };
    if id != vlan.map_or(0, Tag::id) {
        return false;
    }
    pool.data_mut(frame).copy_within(..TAG_AT, TAG_BYTES);
    frame.skip(TAG_BYTES as u16);
    true
}

#[cfg(test)]
mod tests {
    use dev_core::ThreadMode;

    use super::*;

    fn frame(pool: &FramePool, bytes: &[u8]) -> Frame {
        let mut frame = pool.take().unwrap();
        pool.chunk_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
        pool.set_len(&mut frame, bytes.len());
        frame
    }

    #[test]
    fn a_tag_is_put_in_and_taken_out() {
        let pool = FramePool::new(16, 2048, ThreadMode::Single).unwrap();
        let plain: Vec<u8> = (1..=64).collect();
        let tag = Tag::new(5).unwrap();
        let mut tagged = tag.put_in(&pool, frame(&pool, &plain)).unwrap();
        let expected = [&plain[..12], &[0x81, 0, 0, 5], &plain[12..]].concat();
        assert_eq!(pool.data(&tagged), expected);
        assert!(!take_out(None, &pool, &mut tagged), "another network's");
        assert!(!take_out(Tag::new(6), &pool, &mut tagged));
        assert!(take_out(Some(tag), &pool, &mut tagged));
        assert_eq!(pool.data(&tagged), plain);
        assert!(take_out(Some(tag), &pool, &mut tagged), "it has none");
        assert_eq!(pool.data(&tagged), plain);
    }

    #[test]
    fn a_priority_is_no_vlan() {
        let pool = FramePool::new(16, 2048, ThreadMode::Single).unwrap();
        let prioritised = [&[1; 12][..], &[0x81, 0, 0x20, 0], &[2; 40]].concat();
        let mut ours = frame(&pool, &prioritised);
        assert!(!take_out(Tag::new(5), &pool, &mut ours));
        assert!(take_out(None, &pool, &mut ours));
        assert_eq!(pool.data(&ours), [&[1; 12][..], &[2; 40]].concat());
    }

    #[test]
    fn numbers_of_no_vlan_have_no_tag() {
        for id in [0, 0xfff, 0x1005] {
            assert_eq!(Tag::new(id), None, "{id}");
        }
    }

    #[test]
    fn what_has_no_room_is_given_back() {
        let pool = FramePool::new(16, 2048, ThreadMode::Single).unwrap();
        let tag = Tag::new(5).unwrap();
        assert!(tag.put_in(&pool, frame(&pool, &[0; 2046])).is_none());
        assert_eq!(pool.free_count(), 16);
    }
}
