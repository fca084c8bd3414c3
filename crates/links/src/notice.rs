//! Warnings that are to be noticed: framed by stars, as the original's are, and told apart by their
//! first line.

/// Logs `lines` as warnings, in a box.
pub fn warn_in_a_box(lines: &[String]) {
    let width = lines.iter().map(|line| line.chars().count()).max();
    let width = width.unwrap_or(0);
    let rule = "*".repeat(width + 4);
    log::warn!("{rule}");
    for line in lines {
        log::warn!("* {line:width$} *");
    }
    log::warn!("{rule}");
}

/// What a limit of locked memory in bytes has to do with an interface that could not be opened.
pub fn locked_memory(limit_bytes: u64) -> [String; 4] {
    [
        format!("Your current max locked memory is: {limit_bytes}. Please change it to unlimited."),
        "The kernel counts the frames that it shares with the program as locked memory,".to_owned(),
        "for each user, unless the program has CAP_IPC_LOCK. In the shell: ulimit -l unlimited;"
            .to_owned(),
        "for good: \"memlock unlimited\" in /etc/security/limits.conf, LimitMEMLOCK= of systemd."
            .to_owned(),
    ]
}
