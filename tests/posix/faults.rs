//! Bad pointers, on the kernel and with the library.

testkit::compare_cases!("faults", VARIANTS, [sending, receiving, waiting, unaligned]);
