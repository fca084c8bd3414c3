//! How others call the internal thread.

use std::sync::OnceLock;

use libc::c_int;

use crate::sys;

/// The eventfd that wakes it, once it runs.
#[derive(Debug, Default)]
pub(crate) struct InternalThread {
    called: OnceLock<sys::OwnedFd>,
}

impl InternalThread {
    /// The internal thread runs from here on; `fd` calls it. Returns its number.
    pub(crate) fn begin(&self, fd: sys::OwnedFd) -> c_int {
        self.called.get_or_init(|| fd).raw()
    }

    #[inline]
    pub(crate) fn runs(&self) -> bool {
        self.called.get().is_some()
    }

    /// Has the internal thread look what there is to do. Async-signal-safe. `false`: it does not run.
    pub(crate) fn call(&self) -> bool {
        let called = self.called.get();
        called.inspect(|fd| sys::signal_eventfd(fd.raw())).is_some()
    }

    /// In the internal thread: it has been called.
    pub(crate) fn answer(&self) {
        if let Some(fd) = self.called.get() {
            sys::drain_eventfd(fd);
        }
    }
}
