//! Programs that were built with `_FORTIFY_SOURCE`, on the kernel and with the library.

testkit::compare_cases!(
    "fortify",
    VARIANTS,
    [checked, overflowing],
    &["-O2", "-D_FORTIFY_SOURCE=2"]
);
