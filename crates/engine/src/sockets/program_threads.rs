//! The threads of the program.

/// Whether there are others beside one; the library's do not count. Reads /proc.
pub(crate) fn are_several() -> bool {
    let is_ours = |thread: &libc::pid_t| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
        name.is_ok_and(|it| it.starts_with("vma"))
    };
    sys::threads().filter(|it| !is_ours(it)).count() > 1
}
