//! Who has an interface.

use std::fs;
use std::path::Path;

use stats::{Reader, find_processes};

/// The process that has the XDP program attached, or whose statistics show the interface's rings,
/// in words. `None`: it cannot be seen from here.
pub(crate) fn find(program: Option<u32>, link_index: u32, name: &str) -> Option<String> {
    let of_program = program.and_then(|program| processes().find(|it| has_link(*it, program)));
    of_program
        .or_else(|| with_rings(link_index, name))
        .map(|process| format!("process {process} ({})", command(process)))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn command(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().replace(char::is_control, "?")
}

/// Whether a descriptor of the process is the link of the program.
fn has_link(process: u32, program: u32) -> bool {
    let infos = fs::read_dir(format!("/proc/{process}/fdinfo"));
    let mut infos = infos.into_iter().flatten().flatten();
    infos.any(|info| fs::read_to_string(info.path()).is_ok_and(|text| is_link_of(&text, program)))
}

/// Each line is a name, a colon, a tab and a value.
fn is_link_of(info: &str, program: u32) -> bool {
    let value = |key: &str| {
        let mut facts = info.lines().filter_map(|line| line.split_once(':'));
        facts.find_map(|(name, value)| (name == key).then(|| value.trim()))
    };
    value("link_type") == Some("xdp") && value("prog_id") == Some(&program.to_string())
}

/// A process of this network namespace that shows rings of the interface: it keeps the queues also
/// while it has no program attached.
fn with_rings(link_index: u32, name: &str) -> Option<u32> {
    let directory = Path::new("/tmp");
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let own = namespace("self");
    let found = find_processes(directory).unwrap_or_default().into_iter();
    found
        .map(|process| process.pid)
        .filter(|pid| namespace(&pid.to_string()) == own)
        .find(|pid| {
            let rings = Reader::open(directory, *pid).and_then(|reader| reader.rings());
            let mut rings = rings.unwrap_or_default().into_iter();
            rings.any(|ring| ring.ifindex == link_index && ring.ifname == name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_told_by_its_program() {
        let info =
            "pos:\t0\nlink_type:\txdp\nlink_id:\t9\nprog_tag:\tab\nprog_id:\t57\nifindex:\t23\n";
        assert!(is_link_of(info, 57));
        assert!(!is_link_of(info, 5) && !is_link_of(info, 23));
        assert!(!is_link_of(&info.replace("xdp", "tracing"), 57));
        assert!(!is_link_of("", 57));
    }

    #[test]
    fn what_nobody_has_is_found_with_nobody() {
        assert_eq!(find(Some(u32::MAX), u32::MAX, "no such"), None);
        assert!(!command(std::process::id()).is_empty());
    }
}
