//! Puts the build's date and commit into the banner, and the name by which the loader knows it into
//! the library.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../.git/logs/HEAD");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // As VMA: libvma.so.<major>.
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,-soname,libvma.so.{}",
        env!("CARGO_PKG_VERSION_MAJOR")
    );
    let when = std::env::var("SOURCE_DATE_EPOCH")
        .map_or_else(|_| "now".to_owned(), |epoch| format!("@{epoch}"));
    let date = output("date", &["-u", "-d", &when, "+%b %d %Y %H:%M:%S"]);
    println!(
        "cargo:rustc-env=VMA_BUILD_DATE={}",
        date.unwrap_or_else(|| "unknown".to_owned())
    );
    if let Some(commit) = output("git", &["rev-parse", "HEAD"]) {
        println!("cargo:rustc-env=VMA_BUILD_GIT={commit}");
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout)
        .ok()
        .map(|text| text.trim().to_owned())
}
