//! What a script says of the connection before its first event.

use super::*;

/// What the options of a script say about the run.
pub(super) struct Settings {
    pub(super) tolerance: Duration,
    pub(super) strict_segments: bool,
    /// A tick of the timestamps; zero if they are not compared.
    pub(super) timestamp_tick: Duration,
}

impl Settings {
    pub(super) fn of(script: &Script) -> Result<(Self, Setup), (Place, Problem)> {
        let mut settings = Self {
            tolerance: Duration::from_millis(4),
            strict_segments: false,
            timestamp_tick: Duration::ZERO,
        };
        let mut setup = Setup {
            sysctls: Vec::new(),
            mtu: 1500,
            bind_port: 8080,
            connect_port: 8080,
            segment_len: None,
            is_ipv6: false,
            // As in the original.
            local: Ipv4Addr::new(192, 168, 0, 1),
            remote: Ipv4Addr::new(192, 0, 2, 1),
        };
        for option in &script.options {
            let number = option.value.as_deref().unwrap_or_default().parse::<u32>();
            let unsupported = || {
                let message = format!("option --{}={:?}", option.name, option.value);
                (option.place, Problem::Unsupported(message))
            };
            let number = || number.clone().map_err(|_| unsupported());
            let port = || number().and_then(|n| u16::try_from(n).map_err(|_| unsupported()));
            match option.name.as_str() {
                "tolerance_usecs" => {
                    settings.tolerance = Duration::from_micros(u64::from(number()?));
                }
                "tcp_ts_tick_usecs" => {
                    settings.timestamp_tick = Duration::from_micros(u64::from(number()?));
                }
                // Echoed timestamps always follow the first.
                "tcp_ts_ecr_scaled" => {}
                "strict_segments" => settings.strict_segments = true,
                "mtu" => setup.mtu = port()?,
                "bind_port" => setup.bind_port = port()?,
                "connect_port" => setup.connect_port = port()?,
                "local_ip" | "remote_ip" if option.value.as_deref().is_some_and(is_ipv4) => {
                    let address = option.value.as_deref().and_then(|value| value.parse().ok());
                    let address = address.ok_or_else(unsupported)?;
                    if option.name == "local_ip" {
                        setup.local = address;
                    } else {
                        setup.remote = address;
                    }
                }
                "ip_version" if option.value.as_deref() == Some("ipv4") => {}
                "mss" => setup.segment_len = Some(port()?),
                // The link is the stack's business.
                "gateway_ip" | "netmask_ip" | "define"
                    if option
                        .value
                        .as_deref()
                        .is_some_and(|value| !value.contains("::")) => {}
                _ => return Err(unsupported()),
            }
        }
        if let Some(command) = &script.initial {
            setup.sysctls = sysctl::settings(commanded(command)?);
        }
        Ok((settings, setup))
    }
}

pub(super) fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}

pub(super) fn commanded(command: &Command) -> Result<Vec<sysctl::Change>, (Place, Problem)> {
    sysctl::changes(&command.line).ok_or_else(|| {
        let message = format!("command `{}`", command.line);
        (command.place, Problem::Unsupported(message))
    })
}
