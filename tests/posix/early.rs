//! Sockets at the very beginning and end of a process, on the kernel and with the library.

testkit::compare_cases!("early", VARIANTS, [early, late]);
