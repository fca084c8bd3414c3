//! The manual page of `libvma.conf`, in the man(7) macros.

use std::fmt::{self, Write};

use crate::rules::{Role, Transport};

const HEAD: &str = r#".\" Generated from crates/vma-config; do not edit.
.\" To write it again: cargo xtask docs
.TH LIBVMA.CONF 5 "" "libvma" "File Formats Manual"
.SH NAME
libvma.conf \- rules that say which sockets libvma accelerates
.SH DESCRIPTION
.I /etc/libvma.conf
is read by each program that runs with
.BR vma (7),
once, when it makes its first socket that could be accelerated;
.B VMA_CONFIG_FILE
in its environment names another file.
Without the file, or without a rule that matches, a socket is accelerated.
.PP
One statement a line; the rest of a line after # is a comment.
A line that cannot be understood is reported with its number, what was expected and what stands there, and left out.
Rules below an application\-id that cannot be understood are left out, too.
.SH STATEMENTS
.TP
.BI application\-id " program id"
Whose the rules below are, up to the next application\-id.
.I program
is the name of the program without its directory and may have the wildcards of
.BR fnmatch (3);
.I id
is the value of
.B VMA_APPLICATION_ID
or *.
A process follows the first application\-id that matches it, and no other.
Rules before the first one are for every program.
.TP
.BI use " transport role address" : "ports\fR[:" address : "ports\fR]"
Which transport a socket uses.
The first rule of the role that matches decides.
.I address
is a.b.c.d, a.b.c.d/prefix length, [IPv6 address], [IPv6 address]/prefix length or *;
.I ports
n, n\-m or *.
.TP
.BR log " [" destination " \fIwhere\fR] [" min\-level " \fInumber\fR]"
Read and without effect: use
.B VMA_LOG_FILE
and
.B VMA_TRACELEVEL
instead.
"#;

const TAIL: &str = r#".SH FILES
.TP
.I /etc/libvma.conf
As it is installed, it leaves name resolution to the kernel.
.SH EXAMPLES
Accelerate one feed only, and the rest of that program not:
.PP
.EX
    application\-id feed_handler *
    use vma udp_receiver 10.20.0.0/16:30000\-30999
    use os  udp_receiver *:*
.EE
.PP
Which rule left a socket to the kernel?
.PP
.EX
    vma_stats \-p $(pgrep feed_handler) \-\-explain \-c 1
.EE
.SH SEE ALSO
.BR vma (7),
.BR vma_stats (8),
.BR fnmatch (3)
"#;

/// The text of `man/libvma.conf.5`.
pub fn conf_man_page() -> String {
    let mut page = HEAD.to_owned();
    // Writing into a string cannot fail.
    let _ = write_transports(&mut page).and_then(|()| write_roles(&mut page));
    page + TAIL
}

fn write_transports(page: &mut String) -> fmt::Result {
    writeln!(page, ".SS Transports")?;
    for (transport, word) in Transport::WORDS {
        let text = match transport {
            Transport::Vma => "User space.",
            Transport::Os => "The kernel.",
            Transport::Sdp | Transport::Sa => {
                "Another library that reads such files; the rule says nothing here."
            }
            Transport::Any => "The same as vma.",
        };
        writeln!(page, ".TP\n.B {word}\n{text}")?;
    }
    Ok(())
}

fn write_roles(page: &mut String) -> fmt::Result {
    writeln!(page, ".SS Roles")?;
    for (role, word) in Role::WORDS {
        let text = match role {
            Role::TcpServer => {
                "Listening sockets and those that they accept, by local address and port."
            }
            Role::TcpClient => "Sockets that connect, by remote address and port.",
            Role::UdpSender => "What a socket sends there, by remote address and port.",
            Role::UdpReceiver => "What a socket receives, by local address and port.",
            Role::UdpConnect => "The socket once it is connected, by remote address and port.",
        };
        writeln!(page, ".TP\n.B {word}\n{text}")?;
        if role.has_second() {
            writeln!(page, "A second address and ports are the local ones.")?;
        }
    }
    Ok(())
}
