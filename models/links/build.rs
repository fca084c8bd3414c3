//! Marks the build as one of loom's, for the few lines of the library that differ in it.

fn main() {
    println!("cargo::rustc-cfg=loom");
}
