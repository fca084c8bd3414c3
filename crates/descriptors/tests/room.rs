//! The library's descriptors stay below 1024, however many threads make them.

use std::os::fd::AsRawFd;
use std::sync::Barrier;

use descriptors::{OwnDescriptor, table_size};

const THREADS: usize = 4;
const ROUNDS: usize = 2000;
const END: i32 = 1024;

/// With nothing but these threads in the process, the kernel's table never has to have room for
/// more.
#[test]
fn threads_that_take_numbers_at_once_stay_below_1024() {
    let together = Barrier::new(THREADS);
    let highest = || {
        let mut highest = 0;
        for _ in 0..ROUNDS {
            let (reader, _writer) = std::io::pipe().unwrap();
            together.wait();
            let own = OwnDescriptor::new(reader.into());
            highest = highest.max(own.as_raw_fd());
        }
        highest
    };
    let highest = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(highest)).collect();
        let highest = |it: std::thread::ScopedJoinHandle<'_, i32>| it.join().unwrap();
        threads.into_iter().map(highest).max()
    });
    assert!(highest < Some(END), "{highest:?}");
    assert!(table_size() <= Some(END), "{:?}", table_size());
}
