//! What the built library exports: the functions of the table, and nothing else. A name too many
//! takes a program's own function of that name away.

use std::collections::BTreeSet;
use std::process::Command;

#[path = "../../libvma/src/interposed.rs"]
mod table;

macro_rules! names {
    ($($(#[$why:meta])+ fn $name:ident $arguments:tt -> $result:ty => $hook:ident;)*) => {
        /// Each function and where its hook is.
        const TABLE: &[(&str, &str)] = &[$((stringify!($name), stringify!($hook))),*];
    };
}
table::interposed!(names);

#[test]
fn exactly_the_functions_of_the_table_are_exported() {
    let library = testkit::libvma_path().unwrap();
    let listed = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(&library)
        .output()
        .expect("nm is part of what the C compiler needs");
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let exported: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let hooks = TABLE.iter().filter(|(_, hook)| *hook != "called");
    let expected: BTreeSet<&str> = hooks.map(|(name, _)| *name).collect();
    assert_eq!(
        exported.symmetric_difference(&expected).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "exported or in the table, but not both"
    );
    assert!(expected.contains("socket") && expected.len() > 40);
}

#[test]
fn the_c_library_has_every_function_of_the_table() {
    for (name, _) in TABLE {
        let symbol = std::ffi::CString::new(*name).unwrap();
        // SAFETY: a name that ends with a null byte; the pointer is only compared.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
        assert!(!found.is_null(), "{name}");
    }
}
