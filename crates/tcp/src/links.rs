//! Links between the elements of a `Vec` that make up lists: indices of 32 bits, half the size of
//! pointers.

/// No element: the end of a list.
pub(crate) const NIL: u32 = u32::MAX;

/// Where in the `Vec` the element is; beyond every index for [`NIL`].
pub(crate) const fn position(link: u32) -> usize {
    if link == NIL {
        usize::MAX
    } else {
        link as usize
    }
}
