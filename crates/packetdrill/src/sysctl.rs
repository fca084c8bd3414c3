//! Shell commands of scripts that set sysctls, or change the system otherwise.

/// A sysctl without `net.ipv4.`, and its value.
pub type Setting = (String, String);

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a sysctl.
    Set(Setting),
    /// Forgets what is known of other hosts (`ip tcp_metrics flush`).
    ForgetHosts,
}

/// What the corpus' `defaults.sh` sets, as far as it bears on TCP.
const DEFAULTS: &[(&str, &str)] = &[
    ("tcp_rmem", "4096 540000 15728640"),
    ("tcp_wmem", "4096 262144 4194304"),
    ("tcp_timestamps", "1"),
    ("tcp_syn_retries", "5"),
    ("tcp_synack_retries", "5"),
    ("tcp_frto", "2"),
    ("tcp_sack", "1"),
    ("tcp_dsack", "1"),
    ("tcp_reordering", "3"),
    ("tcp_congestion_control", "cubic"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_early_retrans", "4"),
    ("tcp_recovery", "1"),
    ("tcp_tso_win_divisor", "3"),
    ("tcp_ecn", "0"),
    ("tcp_pacing_ss_ratio", "200"),
    ("tcp_pacing_ca_ratio", "120"),
    ("tcp_notsent_lowat", "4294967295"),
    ("tcp_fastopen", "0x70403"),
    ("tcp_fastopen_key", "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4"),
    ("tcp_syncookies", "1"),
];

/// Forgets hosts.
const FLUSH: [&str; 3] = ["ip", "tcp_metrics", "flush"];

/// What is as it says anyway, or how packets are queued behind the stack.
const INDIFFERENT: [&str; 3] = [
    "echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect",
    "tc qdisc replace dev tun0 root fq",
    "tc qdisc replace dev tun0 root pfifo",
];

/// Changes offloads.
const ETHTOOL: [&str; 3] = ["ethtool", "-K", "tun0"];

/// What `command` changes, in its order, or `None` if it does something else.
pub fn changes(command: &str) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    let joined = command.replace("\\\n", " ");
    let uncommented = joined
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    // Behind `||` stands the same for another system.
    let commands = uncommented
        .flat_map(|line| line.split(';'))
        .flat_map(|line| line.split("&&"))
        .flat_map(|line| line.split("||"));
    for command in commands {
        let words = without_redirections(words(command));
        let Some((program, arguments)) = words.split_first() else {
            continue;
        };
        if program.ends_with("/defaults.sh") {
            let setting = |(name, value): &(&str, &str)| {
                Change::Set(((*name).to_owned(), (*value).to_owned()))
            };
            changes.extend(DEFAULTS.iter().map(setting));
        } else if program == "sysctl" || program.ends_with("/set_sysctls.py") {
            for argument in arguments {
                if !argument.starts_with('-') {
                    changes.push(Change::Set(setting(argument)?));
                }
            }
        } else if words.starts_with(&FLUSH.map(str::to_owned)) {
            changes.push(Change::ForgetHosts);
        } else if program.starts_with("/tmp/sysctl_restore_")
            || words.starts_with(&ETHTOOL.map(str::to_owned))
        {
            // Each script has a configuration of its own, and segments may come in any number of
            // pieces.
        } else if program == "nstat" || INDIFFERENT.contains(&command.trim()) {
            // The first only reads what the kernel counts.
        } else {
            return None;
        }
    }
    Some(changes)
}

/// The sysctls among them.
pub fn settings(changes: Vec<Change>) -> Vec<Setting> {
    let setting = |change| match change {
        Change::Set(setting) => Some(setting),
        Change::ForgetHosts => None,
    };
    changes.into_iter().filter_map(setting).collect()
}

/// Without `> file`, `2>&1` and the like.
fn without_redirections(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut is_target = false;
    for word in words {
        let Some((_, target)) = word.split_once('>') else {
            if !std::mem::take(&mut is_target) {
                kept.push(word);
            }
            continue;
        };
        is_target = target.is_empty();
    }
    kept
}

/// `net.ipv4.name=value` or `/proc/sys/net/ipv4/name=value`.
fn setting(argument: &str) -> Option<Setting> {
    let (name, value) = argument.split_once('=')?;
    let prefixes = ["net.ipv4.", "net/ipv4/", "/proc/sys/net/ipv4/"];
    let name = prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    Some((name.to_owned(), value.to_owned()))
}

/// Splits at blanks outside of double or single quotes, which are removed.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in command.replace("\\\"", "\"").chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, _) if character.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> Option<Vec<(String, String)>> {
        changes(command).map(settings)
    }

    #[test]
    fn sysctls_are_found_in_all_spellings() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = Some(vec![pair("tcp_ecn", "1"), pair("tcp_rmem", "1 2 3")]);
        assert_eq!(
            of("sysctl -q net.ipv4.tcp_ecn=1 net.ipv4.tcp_rmem=\"1 2 3\""),
            expected
        );
        let file = "../common/set_sysctls.py /proc/sys/net/ipv4/tcp_ecn=1 \\\n /proc/sys/net/ipv4/tcp_rmem='1 2 3'";
        assert_eq!(of(file), expected);
    }

    #[test]
    fn later_settings_come_after_the_defaults() {
        let all = of("../../common/defaults.sh\nsysctl -q net.ipv4.tcp_ecn=2").unwrap();
        assert_eq!(all.len(), DEFAULTS.len() + 1);
        assert_eq!(all.last().unwrap().1, "2");
    }

    #[test]
    fn output_goes_nowhere_and_alternatives_are_for_other_systems() {
        let command =
            "sysctl -q net.ipv4.x=1 &> /dev/null ||\\\n ip tcp_metrics flush all > /dev/null 2>&1";
        let set = Change::Set(("x".to_owned(), "1".to_owned()));
        assert_eq!(changes(command), Some(vec![set, Change::ForgetHosts]));
    }

    #[test]
    fn other_commands_are_not_understood() {
        assert_eq!(of("ip route change default via 1.2.3.4"), None);
        assert_eq!(of("sysctl net.core.x=1"), None);
        assert_eq!(of("/tmp/sysctl_restore_${PPID}.sh"), Some(Vec::new()));
        let queue = "tc qdisc replace dev tun0 root pfifo";
        assert_eq!(of(queue), Some(Vec::new()));
        assert_eq!(of(&format!("{queue} limit 0")), None);
        assert_eq!(of("nstat | grep TcpExt > /dev/null"), Some(Vec::new()));
    }
}
