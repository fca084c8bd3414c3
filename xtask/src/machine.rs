//! `cargo xtask machine`: tests over VLANs and bonds, in virtual machines whose kernels have them,
//! which this one's may not.
//!
//! The kernels are Debian's, the release's own and the one of its backports; the root is this
//! machine's. Without KVM, so that it runs in other virtual machines, too; one CPU at a time, for
//! where several run the emulation breaks kernels that change their own code.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::cargo;
use crate::debian;
use crate::failure::Failure;
use crate::output::say;
use crate::process::{self, Read};
use crate::setup;

/// How long a machine may run.
const SECONDS_MAX: &str = "1800";
/// What the machine needs to have this one's root.
const MODULES_FOR_ROOT: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];
const MODULES_FOR_TESTS: &str = "veth 8021q bonding macvlan";

struct Kernel {
    /// Whether it is of the backports.
    is_newer: bool,
    /// Suites, and which of their tests.
    tests: &'static [(&'static str, &'static str)],
    /// The same on emulated ConnectX cards, which do it all themselves.
    on_cards: &'static [(&'static str, &'static str)],
}

const KERNELS: [Kernel; 2] = [
    // Before Linux 6.6 connections are the kernel's in generic mode.
    Kernel {
        is_newer: false,
        tests: &[
            ("udp", "integrity::"),
            ("faults", "link::a_bond --include-ignored"),
        ],
        // The emulation needs Linux 6.6.
        on_cards: &[],
    },
    Kernel {
        is_newer: true,
        tests: &[
            ("udp", "integrity::"),
            ("udp", "floods::"),
            ("tcp", "streams::octets_arrive"),
            ("tcp", "bulk_streams::a_stream"),
            ("tcp", "bulk_streams::a_bond --include-ignored"),
            ("faults", "link::a_bond --include-ignored"),
        ],
        on_cards: &[
            ("udp", "integrity::"),
            ("tcp", "streams::octets_arrive"),
            ("tcp", "bulk_streams::a_bond --include-ignored"),
            ("faults", "link::a_bond --include-ignored"),
        ],
    },
];
/// What `VMA_TEST_LINK` says.
const LINKS: [&str; 3] = ["vlan", "bond", "vlan-over-bond"];

/// Says what ran where.
pub(crate) fn try_out() -> Result<String, Failure> {
    setup::ensure_for_trial()?;
    let library = cargo::release_library()?;
    let suites = ["--test=udp", "--test=tcp", "--test=faults"];
    let suites = cargo::build(&[&["test", "--no-run", "--workspace"], &suites[..]].concat())?;
    let emulated = emulated_verbs()?;
    let mut ran = Vec::new();
    for kernel in KERNELS {
        let installed = Installed::fetched(kernel.is_newer)?;
        let mut job = format!(
            "export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root VMA_TEST_BUILT=1 VMA_TEST_NO_SKIP=1\n\
             export VMA_TEST_LIBRARY={} VMA_TEST_EMULATED_VERBS={}\nulimit -l unlimited\nip link set lo up\ncd {}\n\
             for module in {MODULES_FOR_TESTS}; do modprobe -d {} $module; done\n",
            library.display(),
            emulated.trim(),
            cargo::workspace().join("tests").display(),
            installed.root.display(),
        );
        for link in LINKS {
            let by_xdp = kernel.tests.iter().map(|it| ("", it));
            let by_cards = kernel.on_cards.iter().map(|it| ("mlx5", it));
            for (device, (suite, tests)) in by_xdp.chain(by_cards) {
                let program = suites.path(suite)?.display();
                job += &format!(
                    "VMA_TEST_LINK={link} VMA_TEST_DEVICE={device} {program} --test-threads=1 --color=never {tests} 2>&1\n"
                );
            }
        }
        job += "echo o > /proc/sysrq-trigger; sleep 60\n";
        let wanted = LINKS.len() * (kernel.tests.len() + kernel.on_cards.len());
        let passed = installed.run(&job, wanted)?;
        ran.push(format!("{passed} tests on Linux {}", installed.release));
    }
    Ok(ran.join(", "))
}

/// Where the emulated RDMA device is.
fn emulated_verbs() -> Result<String, Failure> {
    let program = [
        "run",
        "--quiet",
        "--package=testkit",
        "--example=emulated_verbs",
    ];
    let mut directory = String::new();
    let status = process::run_reading(cargo::command(&program), Read::Stdout, |line| {
        line.clone_into(&mut directory);
    })?;
    match status.success() {
        true => Ok(directory),
        false => Err(Failure::new("the emulated RDMA device cannot be built")),
    }
}

/// A kernel with its modules.
struct Installed {
    release: String,
    root: PathBuf,
    directory: PathBuf,
}

impl Installed {
    fn fetched(is_newer: bool) -> Result<Self, Failure> {
        let name = if is_newer { "machine-newer" } else { "machine" };
        let directory = debian::kernel(name, is_newer)?;
        let root = directory.join("root");
        let mut releases = fs::read_dir(root.join("lib/modules"))?;
        let release = releases
            .next()
            .ok_or_else(|| Failure::new("the kernel has no modules"))??;
        Ok(Self {
            release: release.file_name().to_string_lossy().into_owned(),
            root,
            directory,
        })
    }

    /// Runs a script in the machine. Fails unless as many test programs end well; returns how many
    /// tests passed.
    fn run(&self, job: &str, programs: usize) -> Result<usize, Failure> {
        let initrd = self.initrd(job)?;
        let mut machine = Command::new("timeout");
        machine
            .args([SECONDS_MAX, "qemu-system-x86_64"])
            .args(["-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2"])
            .args(["-m", "2048", "-nographic", "-no-reboot", "-nic", "none"])
            .arg("-kernel")
            .arg(self.root.join(format!("boot/vmlinuz-{}", self.release)))
            .arg("-initrd")
            .arg(initrd)
            .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"])
            .arg("-virtfs")
            .arg("local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap");
        say(format_args!("machine: Linux {}", self.release));
        let (mut passed, mut ended) = (0, 0);
        let status = process::run_reading(machine, Read::StdoutAndStderr, |line| {
            say(line);
            let count = cargo::passed_in(line);
            passed += count;
            ended += usize::from(count > 0);
        })?;
        if !status.success() || ended != programs {
            return Err(Failure::Reason(format!(
                "on Linux {}, {ended} of {programs} runs of test programs ended well ({status})",
                self.release
            )));
        }
        Ok(passed)
    }

    /// The memory disk that the machine starts from.
    fn initrd(&self, job: &str) -> Result<PathBuf, Failure> {
        let tree = self.directory.join("initrd");
        if tree.exists() {
            fs::remove_dir_all(&tree)?;
        }
        for directory in [
            "bin", "proc", "sys", "dev", "host", "changes", "root", "modules",
        ] {
            fs::create_dir_all(tree.join(directory))?;
        }
        debian::write_program(&tree.join("init"), include_str!("machine/init.sh"))?;
        fs::write(tree.join("job"), job)?;
        fs::copy("/bin/busybox", tree.join("bin/busybox"))
            .map_err(|_| Failure::new("/bin/busybox is missing: cargo xtask setup"))?;
        for (index, module) in self.modules()?.iter().enumerate() {
            fs::copy(module, tree.join(format!("modules/{index:02}")))?;
        }
        let mut pack = Command::new("sh");
        pack.args(["-c", "find . | busybox cpio -o -H newc > ../initrd.cpio"])
            .current_dir(&tree);
        process::run(pack)?;
        Ok(self.directory.join("initrd.cpio"))
    }

    /// Those that the root takes, in the order in which they go in.
    fn modules(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files: Vec<PathBuf> = Vec::new();
        for module in MODULES_FOR_ROOT {
            let mut depends = Command::new("modprobe");
            depends.arg("--dirname").arg(&self.root).args([
                "--set-version",
                &self.release,
                "--show-depends",
                module,
            ]);
            let status = process::run_reading(depends, Read::Stdout, |line| {
                // `insmod FILE`, or `builtin NAME`.
                let file = line.strip_prefix("insmod ").map(|file| file.trim().into());
                files.extend(file.filter(|file| !files.contains(file)));
            })?;
            if !status.success() {
                return Err(Failure::Reason(format!("the kernel has no {module}")));
            }
        }
        Ok(files)
    }
}
