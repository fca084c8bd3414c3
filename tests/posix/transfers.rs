//! splice(2), sendfile(2), streams and their like, on the kernel and with the library.

testkit::compare_cases!(
    "transfers",
    VARIANTS,
    [
        offsets,
        splice_from,
        splice_many,
        splice_to,
        sendfile_to,
        sendfile_from,
        refused,
        streams,
        asynchronous,
    ]
);
