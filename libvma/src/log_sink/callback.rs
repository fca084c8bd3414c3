//! A function of the program's that takes the lines in place of standard error
//! (`VMA_LOG_CB_FUNC_PTR`).

use std::ffi::CStr;
use std::sync::OnceLock;

use libc::{c_char, c_int};

use crate::environment;

const NAME: &CStr = c"VMA_LOG_CB_FUNC_PTR";

/// Takes the number of a level and a line, which ends with a new line and a null byte.
type Callback = unsafe extern "C" fn(level: c_int, line: *const c_char);

static CALLBACK: OnceLock<Option<Callback>> = OnceLock::new();

/// What the program has set for itself since it began. What it had before is an address of the
/// process that has started it.
pub(super) fn look() {
    CALLBACK.get_or_init(|| {
        // SAFETY: the name ends with a null byte. The program sets the variable before it makes its
        // first socket, which is now.
        let value = unsafe { libc::getenv(NAME.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: a string of the environment.
        let value = unsafe { CStr::from_ptr(value) }.to_str().ok()?;
        if environment::variables()
            .any(|(name, before)| name == "VMA_LOG_CB_FUNC_PTR" && before == value)
        {
            return None;
        }
        let address = address(value).filter(|address| is_code(*address))?;
        // SAFETY: code that the program has put into memory, and has named as such a function.
        Some(unsafe { std::mem::transmute::<usize, Callback>(address) })
    });
}

/// As `%p` writes it.
fn address(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    usize::from_str_radix(digits, 16).ok()
}

/// Whether the program has code there, as the kernel says.
fn is_code(address: usize) -> bool {
    let Ok(mappings) = std::fs::read_to_string("/proc/self/maps") else {
        return false;
    };
    let has_it = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (first, last) = range.split_once('-')?;
        let place = |text| usize::from_str_radix(text, 16).ok();
        let is_there = (place(first)?..place(last)?).contains(&address);
        (is_there && rest.get(2..3) == Some("x")).then_some(())
    };
    mappings.lines().any(|line| has_it(line).is_some())
}

/// Whether there is one.
pub(super) fn is_there() -> bool {
    CALLBACK.get().is_some_and(Option::is_some)
}

/// Has it take a line, which ends with a null byte. `false`: there is none.
pub(super) fn take(level: c_int, line: &[u8]) -> bool {
    let Some(callback) = CALLBACK.get().copied().flatten() else {
        return false;
    };
    // SAFETY: the line ends with a null byte, and the program's promise.
    unsafe { callback(level, line.as_ptr().cast()) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_code() {
        let code = is_code as *const () as usize;
        assert_eq!(address(&format!("{code:#x}")), Some(code));
        assert_eq!(address("7ff0"), Some(0x7ff0));
        assert_eq!(address("(nil)"), None);
        let data = 7;
        assert!(is_code(code) && !is_code(&raw const data as usize) && !is_code(0));
    }
}
