//! The kernel's table of descriptors stays as large as it is. Alone in its process: a number that
//! another thread takes between the search for a free one and its use leads beyond the usual end.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::fd::AsRawFd;

use descriptors::{OwnDescriptor, table_size};

#[test]
fn many_descriptors_do_not_make_the_table_larger() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let many: Vec<_> = (0..100)
        .map(|_| OwnDescriptor::new(reader.try_clone().unwrap().into()))
        .collect();
    assert!(many.iter().all(|fd| fd.as_raw_fd() < 1024), "{many:?}");
    assert!(table_size().unwrap() <= 1024);
}
