//! Puts the emulated RDMA device in place, for machines that compile nothing, and says where.

#![allow(clippy::print_stdout, reason = "the directory goes to standard output")]

fn main() -> std::io::Result<()> {
    let directory = testkit::emulated_verbs_directory()?;
    println!("{}", directory.display());
    Ok(())
}
