//! Which mode of XDP measured faster on an interface of this machine, since it was started:
//! `vma-run --check --measure` writes that down, and `VMA_XDP_MODE=auto` goes by it.
//!
//! A line for each interface, by its hardware address, for names are those of a network namespace:
//!
//! ```text
//! 02:00:00:00:00:01 veth generic # va: native 9.1 us, generic 7.9 us
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::bpf::link::AttachMode;

/// In a directory of root's that is empty when the machine starts.
pub const FILE: &str = "/run/vma/xdp-modes";

/// A larger file is not ours.
const BYTES_MAX: u64 = 1 << 16;

/// The mode for an interface. `None`: nobody has measured, or whose file it is cannot be trusted.
pub fn look_up(path: &Path, mac: [u8; 6], driver: &str) -> Option<AttachMode> {
    let text = read_trusted(path).ok()?;
    text.lines().find_map(|line| parse(line, mac, driver))
}

/// Writes down a mode, or none, and forgets what was written of this interface before.
///
/// # Errors
/// Those of the file system.
pub fn record(
    path: &Path,
    mac: [u8; 6],
    driver: &str,
    mode: Option<AttachMode>,
    remark: &str,
) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let address = text_of(mac);
    let before = read_trusted(path).unwrap_or_default();
    let mut text: String = before
        .lines()
        .filter(|line| !line.starts_with(&address))
        .flat_map(|line| [line, "\n"])
        .collect();
    if let Some(mode) = mode {
        let remark = remark.replace('\n', " ");
        text += &format!("{address} {driver} {} # {remark}\n", mode.text());
    }
    // At once, for whoever reads it meanwhile.
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

/// Text of a file that nobody can have written but root, or this user.
fn read_trusted(path: &Path) -> io::Result<String> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let status = file.metadata()?;
    // SAFETY: geteuid(2) cannot fail, and touches no memory.
    let own = unsafe { libc::geteuid() };
    let is_ours = (status.uid() == 0 || status.uid() == own) && status.mode() & 0o022 == 0;
    if !status.is_file() || !is_ours {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(line: &str, mac: [u8; 6], driver: &str) -> Option<AttachMode> {
    let said = line.split('#').next()?;
    let mut words = said.split_whitespace();
    let is_it = words.next()? == text_of(mac) && words.next()? == driver;
    let mode = words.next()?;
    let modes = [AttachMode::Native, AttachMode::Generic];
    modes.into_iter().find(|it| is_it && it.text() == mode)
}

fn text_of(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xa];

    #[test]
    fn the_last_mode_of_an_interface_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vma/xdp-modes");
        assert_eq!(look_up(&path, MAC, "ice"), None);
        record(&path, [2; 6], "ice", Some(AttachMode::Native), "eth1").unwrap();
        record(&path, MAC, "ice", Some(AttachMode::Native), "eth0").unwrap();
        record(&path, MAC, "ice", Some(AttachMode::Generic), "eth0:\nagain").unwrap();
        assert_eq!(look_up(&path, MAC, "ice"), Some(AttachMode::Generic));
        assert_eq!(look_up(&path, [2; 6], "ice"), Some(AttachMode::Native));
        // The card is another one now.
        assert_eq!(look_up(&path, MAC, "igc"), None);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        record(&path, MAC, "ice", None, "").unwrap();
        assert_eq!(look_up(&path, MAC, "ice"), None);
    }

    #[test]
    fn what_others_can_write_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("xdp-modes");
        record(&path, MAC, "ice", Some(AttachMode::Generic), "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(look_up(&path, MAC, "ice"), None);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(look_up(&link, MAC, "ice"), None);
    }

    #[test]
    fn other_lines_mean_nothing() {
        for line in [
            "",
            "# 02:00:00:00:00:0a ice generic",
            "02:00:00:00:00:0a ice",
            "02:00:00:00:00:0a ice fast",
        ] {
            assert_eq!(parse(line, MAC, "ice"), None, "{line}");
        }
        let line = "02:00:00:00:00:0a ice native# eth0";
        assert_eq!(parse(line, MAC, "ice"), Some(AttachMode::Native));
    }
}
