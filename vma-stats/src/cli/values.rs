//! Values of options, and what is wrong with them.

use std::net::SocketAddr;
use std::time::Duration;

use stats::SectionInfo;

use crate::fd_list::FdList;

/// Where to serve metrics: they are not for strangers.
pub(super) fn local_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("'--prometheus' {text} is not an address and a port"))?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "'--prometheus' {} is not a local address: use 127.0.0.1 or [::1]",
            address.ip()
        ));
    }
    Ok(Some(address))
}

/// `-S FD [LEVEL]`
pub(super) fn dump(values: &[String]) -> Result<Option<(i32, Option<String>)>, String> {
    let Some(fd) = values.first() else {
        return Ok(None);
    };
    let number = fd.parse().ok().filter(|fd| *fd >= 0);
    let number = number.ok_or_else(|| format!("'-S' Invalid fd val: {fd}"))?;
    Ok(Some((number, values.get(1).cloned())))
}

pub(super) fn fd_list(text: &str) -> Result<FdList, String> {
    // The default.
    if text == "0-" {
        return Ok(FdList::default());
    }
    text.parse()
}

pub(super) fn section(name: &str) -> Result<&'static SectionInfo, String> {
    let found = stats::SECTIONS.iter().find(|section| section.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = stats::SECTIONS.iter().map(|section| section.name).collect();
        format!("sections are {}", names.join(", "))
    })
}

/// Seconds, with a fraction if wanted.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let (least, most) = (0.01, 86_400.0 * 365.0);
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !(least..=most).contains(&number) {
        return Err(format!("not between {least} and {most} seconds"));
    }
    Ok(Duration::from_secs_f64(number))
}
