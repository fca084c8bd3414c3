//! The profile, logging, statistics, the configuration file and signals.

use super::build::{ANY_U32, flag, number, path};
use super::{Form, Kind, Parameter};
use crate::level::LogLevel;

const NO_LBM: &str = "the batching of pipe writes that it tunes is not built";
const NO_TIME_MEASURE: &str = "it is for builds of the original that its developers make; docs/profiling.md says how this library is measured";

const NO_DEBUG_PACKETS: &str = "it is a leftover of the original's development";

pub(super) const PARAMETERS: [Parameter; 22] = [
    Parameter::new("VMA_SPEC", "VMA Spec", Kind::Spec).form(Form::Spec).about(
        "A profile that presets many parameters at once.",
        "Applied after the defaults and before the individual variables, so a variable that is also \
         set wins over the profile. The profiles and what they set are listed under Profiles.",
    ),
    number("VMA_SPEC_PARAM1", "Param 1:", 1, ANY_U32)
        .form(Form::SpecParameter)
        .no_effect(NO_LBM)
        .about(
            "First parameter of the 29west and wombat_fh profiles.",
            "The time in microseconds after which a pending pipe write is sent.",
        ),
    number("VMA_SPEC_PARAM2", "Param 2:", 1, ANY_U32)
        .form(Form::SpecParameter)
        .no_effect(NO_LBM)
        .about(
            "Second parameter of the 29west and wombat_fh profiles.",
            "How many pipe writes in a row may be merged into one.",
        ),
    Parameter::new("VMA_TRACELEVEL", "Log Level", Kind::Level { default: LogLevel::Info })
        .form(Form::Always)
        .about(
            "How much is logged.",
            "Messages of the chosen level and of the more important ones are logged. Nothing is said \
             before the program opens a socket that could be accelerated. DEBUG shows the calls that set \
             sockets up, too. The data path holds no log statements, so levels beyond DEBUG show what DEBUG shows.",
        ),
    number("VMA_LOG_DETAILS", "Log Details", 0, (0, 3)).about(
        "What each log line begins with.",
        "0: only the level. 1: the thread id as well. 2: the process id and the thread id. 3: the \
         milliseconds since the process started, the process id and the thread id. The default \
         becomes 2 when VMA_TRACELEVEL is DEBUG.",
    ),
    flag("VMA_LOG_COLORS", "Log Colors", true).about(
        "Colour log lines by level.",
        "Errors are red, warnings magenta. Colours are used only when the log goes to a terminal.",
    ),
    path("VMA_LOG_FILE", "Log File", "").about(
        "Write the log to this file instead of standard error.",
        "The first %d in the name becomes the process id, so that each process can have a file of \
         its own. The file is created, or emptied if it exists and no other process writes its log \
         to it. It must be a regular file and no symbolic link. Without it, lines go to standard \
         error where the program sends it; a program that closes standard error without replacing \
         it gets none.",
    ),
    path("VMA_STATS_FILE", "Stats File", "").about(
        "Append each socket's statistics to this file when it is closed.",
        "What is still open when the program exits is appended then. The first %d in the name becomes \
         the process id. It must be a regular file and no symbolic link. Of sockets that the library \
         has never served nothing is written.",
    ),
    path("VMA_STATS_SHMEM_DIR", "Stats shared memory directory", "/tmp/").about(
        "Directory of the file through which vma_stats reads the statistics.",
        "An empty value publishes no statistics. vma_stats must be given the same directory with \
         its -k option. Containers that share the directory but not their process ids can have \
         processes of the same id; then the first one is shown.",
    ),
    path("VMA_VMAD_NOTIFY_DIR", "SERVICE output directory", "/tmp/vma")
        .no_meaning("vmad finds processes by their statistics")
        .about(
            "Directory through which the original library tells vmad of itself.",
            "This library needs no such directory; vmad reads VMA_STATS_SHMEM_DIR, which it must be \
             given with --stats-dir if it is not /tmp.",
        ),
    number("VMA_STATS_FD_NUM", "Stats FD Num (max)", 100, (0, 1024)).about(
        "How many sockets the statistics can show.",
        "Sockets beyond this number work as usual but do not appear in vma_stats.",
    ),
    path("VMA_CONFIG_FILE", "Conf File", "/etc/libvma.conf").about(
        "The file with the rules that say which sockets are accelerated.",
        "Its own comments explain the rules. A line that cannot be understood is reported and left out. \
         Without the file, or with an empty value, everything is accelerated; a file that the variable \
         names and that cannot be read is reported.",
    ),
    Parameter::new(
        "VMA_APPLICATION_ID",
        "Application ID",
        Kind::Text { default: "VMA_DEFAULT_APPLICATION_ID", expands_pid: true },
    )
    .about(
        "Selects a group of rules of the configuration file.",
        "Groups in the file carry the name of a program and an id; the rules of the group that \
         matches both apply. The default id matches only groups for any id.",
    ),
    flag("VMA_CPU_USAGE_STATS", "Polling CPU idle usage", false).about(
        "Measure how much processor time select(), poll() and epoll_wait() poll.",
        "vma_stats shows the share of the last second in which they were called. Measuring costs two clock \
         reads for each call.",
    ),
    flag("VMA_GUARDIAN", "Guardian process", true).about(
        "Tell the peers of TCP connections when the program is killed or crashes.",
        "A quarter of a second after the first connection or listener past the kernel, vmad is started to watch this process alone \
         (vmad --guard), if it is installed beside the library or in /usr/sbin, and no vmad runs already. It ends \
         with the program. Without either, peers of a program that is killed by SIGKILL hear nothing until they \
         send. Not for the first process of a PID namespace, nor for one that adopts orphans.",
    ),
    flag("VMA_HANDLE_SIGINTR", "SigIntr Ctrl-C Handle", false).about(
        "On Ctrl-C, end every call of the library that waits.",
        "From the first SIGINT on, calls on accelerated sockets that would have to wait fail with \
         EINTR, in every thread; what can be received without waiting still is. The program's own \
         handler runs as well. Without one the process ends as usual, after its statistics file is \
         removed. A program that goes on after Ctrl-C should not use this.",
    ),
    flag("VMA_HANDLE_SIGSEGV", "SegFault Backtrace", false).about(
        "Log a backtrace when the program crashes.",
        "It goes to the log at level PANIC. Then the process ends as it would have, with a core \
         dump where that is enabled. A handler for SIGSEGV that the program installs itself is \
         used instead.",
    ),
    Parameter::new(
        "VMA_LOG_CB_FUNC_PTR",
        "",
        Kind::Text { default: "", expands_pid: false },
    )
    .about(
        "Address of a function that receives log lines.",
        "As printf writes it with %p: void (*)(int level, const char *line), called in any thread. Set by a \
         program for itself, with setenv(), before its first socket; lines go neither to standard error nor to a \
         file then. What was in the environment when the program began is another process's address, and \
         ignored, as is one that is not code. The backtrace of a crash goes to the log.",
    ),
    number("VMA_TIME_MEASURE_NUM_SAMPLES", "", 10_000, ANY_U32).no_meaning(NO_TIME_MEASURE).about(
        "How many timing samples to record.",
        "Used by special builds of the original only.",
    ),
    path("VMA_TIME_MEASURE_DUMP_FILE", "", "/tmp/VMA_inst.dump").no_meaning(NO_TIME_MEASURE).about(
        "File for the timing samples.",
        "Used by special builds of the original only.",
    ),
    number("VMA_DBG_SEND_MCPKT_COUNTER", "", 0, ANY_U32).no_meaning(NO_DEBUG_PACKETS).about(
        "Debugging aid: send a multicast packet after so many calls.",
        "A leftover of development; 0 sends nothing.",
    ),
    Parameter::new(
        "VMA_DBG_SEND_MCPKT_MCGROUP",
        "",
        Kind::Text { default: "", expands_pid: false },
    )
    .no_meaning(NO_DEBUG_PACKETS)
    .about(
        "Debugging aid: the group for VMA_DBG_SEND_MCPKT_COUNTER.",
        "An IPv4 multicast address.",
    ),
];
