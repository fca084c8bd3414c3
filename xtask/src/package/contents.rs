//! What is in which package, and where it goes: the one list from which both kinds of packages are
//! made.

/// A package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Package {
    Library,
    Utilities,
    /// The header of the extra API.
    Development,
    /// Debugging symbols of the library and its utilities.
    Symbols,
}

/// What kind of package file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Deb,
    Rpm,
}

impl Package {
    pub(crate) const ALL: [Self; 4] = [
        Self::Library,
        Self::Utilities,
        Self::Development,
        Self::Symbols,
    ];

    /// As in VMA's own packages.
    pub(crate) fn name(self, format: Format) -> &'static str {
        match (self, format) {
            (Self::Library, _) => "libvma",
            (Self::Utilities, _) => "libvma-utils",
            (Self::Development, Format::Deb) => "libvma-dev",
            (Self::Development, Format::Rpm) => "libvma-devel",
            (Self::Symbols, Format::Deb) => "libvma-dbg",
            (Self::Symbols, Format::Rpm) => "libvma-debuginfo",
        }
    }

    pub(crate) fn summary(self) -> &'static str {
        match self {
            Self::Library => "moves the sockets of unmodified programs past the kernel",
            Self::Utilities => "live statistics and benchmark for libvma",
            Self::Development => "header of libvma's extra API",
            Self::Symbols => "debugging symbols of libvma",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Library => {
                "Preloaded into a program that is not changed, libvma carries the packets of its \
                 sockets between the network interface and the memory of the program, past the \
                 network stack of the kernel (AF_XDP). It has the environment variables, the \
                 configuration file and the tools of NVIDIA's VMA and works on any Ethernet \
                 interface. What it cannot accelerate works as without it.\n\
                 The package also has vma-run, which says what a machine lacks, and the daemon \
                 vmad, which resets connections of programs that died."
            }
            Self::Utilities => {
                "vma_stats shows what the sockets of a program under libvma do, and why some are \
                 not accelerated. sockperf-rs measures latency and throughput of the network and \
                 exchanges messages with sockperf; udp_lat is the tool that came with VMA in 2008."
            }
            Self::Development => {
                "For programs that use more of libvma than sockets: packets without copies, rules and \
                 threads at run time. They find it when they run; there is nothing to link."
            }
            Self::Symbols => "For debuggers and profilers.",
        }
    }
}

/// Where a file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A target that cargo built, without its debugging symbols.
    Built(&'static str),
    /// A file of the repository.
    Repository(&'static str),
    /// The same, compressed as manuals and changelogs are.
    Compressed(&'static str),
    /// Written when packages are made.
    Generated(Generated),
    /// A link to this.
    Link(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generated {
    Copyright,
    /// Debian's own kind of changelog, compressed.
    DebianChangelog,
    LintianOverrides,
    /// For pkg-config.
    PkgConfig,
}

/// A file of a package. `{lib}` is the directory of libraries, `{name}` the package's name,
/// `{version}` and `{major}` the version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub(crate) package: Package,
    pub(crate) source: Source,
    pub(crate) destination: &'static str,
    pub(crate) mode: u32,
    /// `None`: in both kinds.
    pub(crate) only: Option<Format>,
    /// Administrators change it: kept when the package is upgraded.
    pub(crate) is_configuration: bool,
}

const fn file(package: Package, source: Source, destination: &'static str) -> File {
    File {
        package,
        source,
        destination,
        mode: 0o644,
        only: None,
        is_configuration: false,
    }
}

const fn program(package: Package, target: &'static str, destination: &'static str) -> File {
    File {
        mode: 0o755,
        ..file(package, Built(target), destination)
    }
}

const fn configuration(source: &'static str, destination: &'static str) -> File {
    File {
        is_configuration: true,
        ..file(Library, Repository(source), destination)
    }
}

const fn deb(package: Package, source: Source, destination: &'static str) -> File {
    File {
        only: Some(Format::Deb),
        ..file(package, source, destination)
    }
}

use Generated::{Copyright, DebianChangelog, LintianOverrides, PkgConfig};
use Package::{Development, Library, Symbols, Utilities};
use Source::{Built, Compressed, Generated as Made, Link, Repository};

/// Every file but the debugging symbols, of which there is one for each target that is built.
pub(crate) const FILES: &[File] = &[
    file(Library, Built("vma"), "{lib}/libvma.so.{version}"),
    // RPM's tool cannot make links: there, ldconfig and a script do.
    deb(
        Library,
        Link("libvma.so.{version}"),
        "{lib}/libvma.so.{major}",
    ),
    // VMA's sonames: what programs are linked to, and scripts preload.
    deb(Library, Link("libvma.so.{major}"), "{lib}/libvma.so.9"),
    deb(Library, Link("libvma.so.{major}"), "{lib}/libvma.so.8"),
    // Not in a development package: LD_PRELOAD=libvma.so is how programs are started.
    deb(Library, Link("libvma.so.{major}"), "{lib}/libvma.so"),
    program(Library, "vmad", "usr/sbin/vmad"),
    program(Library, "vma-run", "usr/bin/vma-run"),
    configuration("libvma/libvma.conf", "etc/libvma.conf"),
    configuration(
        "packaging/limits.conf",
        "etc/security/limits.d/30-libvma.conf",
    ),
    file(
        Library,
        Repository("packaging/vma.service"),
        "usr/lib/systemd/system/vma.service",
    ),
    configuration("packaging/vmad.conf", "etc/vma/vmad.conf"),
    file(
        Library,
        Repository("packaging/vma-broker.service"),
        "usr/lib/systemd/system/vma-broker.service",
    ),
    file(
        Library,
        Repository("packaging/vma-broker.socket"),
        "usr/lib/systemd/system/vma-broker.socket",
    ),
    file(
        Library,
        Repository("packaging/sysusers.conf"),
        "usr/lib/sysusers.d/vma.conf",
    ),
    file(
        Library,
        Repository("packaging/tmpfiles.conf"),
        "usr/lib/tmpfiles.d/vma.conf",
    ),
    file(
        Library,
        Compressed("man/vma.7"),
        "usr/share/man/man7/vma.7.gz",
    ),
    file(
        Library,
        Compressed("man/libvma.conf.5"),
        "usr/share/man/man5/libvma.conf.5.gz",
    ),
    file(
        Library,
        Compressed("man/vmad.8"),
        "usr/share/man/man8/vmad.8.gz",
    ),
    file(
        Library,
        Compressed("man/vma-run.1"),
        "usr/share/man/man1/vma-run.1.gz",
    ),
    file(
        Library,
        Compressed("README.md"),
        "usr/share/doc/{name}/README.md.gz",
    ),
    file(
        Library,
        Compressed("docs/parameters.md"),
        "usr/share/doc/{name}/parameters.md.gz",
    ),
    file(
        Library,
        Compressed("docs/differences.md"),
        "usr/share/doc/{name}/differences.md.gz",
    ),
    file(
        Library,
        Compressed("docs/broker.md"),
        "usr/share/doc/{name}/broker.md.gz",
    ),
    file(
        Library,
        Compressed("docs/same-host.md"),
        "usr/share/doc/{name}/same-host.md.gz",
    ),
    file(
        Library,
        Compressed("docs/how-it-works.md"),
        "usr/share/doc/{name}/how-it-works.md.gz",
    ),
    file(
        Library,
        Compressed("docs/rdma.md"),
        "usr/share/doc/{name}/rdma.md.gz",
    ),
    file(
        Library,
        Compressed("docs/statistics.md"),
        "usr/share/doc/{name}/statistics.md.gz",
    ),
    file(
        Library,
        Compressed("docs/performance.md"),
        "usr/share/doc/{name}/performance.md.gz",
    ),
    file(
        Library,
        Compressed("docs/comparison.md"),
        "usr/share/doc/{name}/comparison.md.gz",
    ),
    file(
        Library,
        Compressed("docs/everyday.md"),
        "usr/share/doc/{name}/everyday.md.gz",
    ),
    file(
        Library,
        Compressed("docs/sockperf-rs.md"),
        "usr/share/doc/{name}/sockperf-rs.md.gz",
    ),
    file(
        Library,
        Compressed("docs/deployment.md"),
        "usr/share/doc/{name}/deployment.md.gz",
    ),
    file(
        Library,
        Compressed("docs/troubleshooting.md"),
        "usr/share/doc/{name}/troubleshooting.md.gz",
    ),
    file(
        Library,
        Compressed("docs/coming-from-vma.md"),
        "usr/share/doc/{name}/coming-from-vma.md.gz",
    ),
    file(
        Library,
        Compressed("CHANGELOG.md"),
        "usr/share/doc/{name}/changelog.gz",
    ),
    file(
        Library,
        Repository("packaging/examples/sysctl.conf"),
        "usr/share/doc/{name}/examples/sysctl.conf",
    ),
    file(
        Library,
        Repository("packaging/examples/original-library.conf"),
        "usr/share/doc/{name}/examples/original-library.conf",
    ),
    file(
        Library,
        Repository("packaging/container/Containerfile"),
        "usr/share/doc/{name}/examples/Containerfile",
    ),
    file(
        Library,
        Repository("packaging/kubernetes/vma.yaml"),
        "usr/share/doc/{name}/examples/kubernetes.yaml",
    ),
    file(Library, Made(Copyright), "usr/share/doc/{name}/copyright"),
    deb(
        Library,
        Made(DebianChangelog),
        "usr/share/doc/{name}/changelog.Debian.gz",
    ),
    deb(
        Library,
        Made(LintianOverrides),
        "usr/share/lintian/overrides/{name}",
    ),
    program(Utilities, "vma_stats", "usr/bin/vma_stats"),
    program(Utilities, "sockperf-rs", "usr/bin/sockperf-rs"),
    program(Utilities, "udp_lat", "usr/bin/udp_lat"),
    file(
        Utilities,
        Compressed("man/vma_stats.8"),
        "usr/share/man/man8/vma_stats.8.gz",
    ),
    file(
        Utilities,
        Compressed("man/sockperf-rs.1"),
        "usr/share/man/man1/sockperf-rs.1.gz",
    ),
    file(
        Utilities,
        Compressed("man/udp_lat.1"),
        "usr/share/man/man1/udp_lat.1.gz",
    ),
    file(
        Utilities,
        Repository("packaging/grafana/vma.json"),
        "usr/share/doc/{name}/examples/grafana.json",
    ),
    file(Utilities, Made(Copyright), "usr/share/doc/{name}/copyright"),
    deb(
        Utilities,
        Made(DebianChangelog),
        "usr/share/doc/{name}/changelog.Debian.gz",
    ),
    file(
        Development,
        Repository("packaging/include/mellanox/vma_extra.h"),
        "usr/include/mellanox/vma_extra.h",
    ),
    file(Development, Made(PkgConfig), "{lib}/pkgconfig/libvma.pc"),
    file(
        Development,
        Compressed("docs/extra-api.md"),
        "usr/share/doc/{name}/extra-api.md.gz",
    ),
    file(
        Development,
        Made(Copyright),
        "usr/share/doc/{name}/copyright",
    ),
    deb(
        Development,
        Made(DebianChangelog),
        "usr/share/doc/{name}/changelog.Debian.gz",
    ),
    deb(
        Development,
        Made(LintianOverrides),
        "usr/share/lintian/overrides/{name}",
    ),
    file(Symbols, Made(Copyright), "usr/share/doc/{name}/copyright"),
    deb(
        Symbols,
        Made(DebianChangelog),
        "usr/share/doc/{name}/changelog.Debian.gz",
    ),
    deb(
        Utilities,
        Made(LintianOverrides),
        "usr/share/lintian/overrides/{name}",
    ),
    deb(
        Symbols,
        Made(LintianOverrides),
        "usr/share/lintian/overrides/{name}",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_manual_page_is_in_a_package() {
        let packaged: BTreeSet<_> = FILES
            .iter()
            .filter_map(|file| match file.source {
                Compressed(path) => path.strip_prefix("man/"),
                _ => None,
            })
            .map(str::to_owned)
            .collect();
        let there = std::fs::read_dir(crate::cargo::workspace().join("man")).unwrap();
        let there: BTreeSet<_> = there
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(packaged, there);
    }

    #[test]
    fn every_file_of_the_repository_is_there() {
        for file in FILES {
            if let Repository(path) | Compressed(path) = file.source {
                assert!(crate::cargo::workspace().join(path).is_file(), "{path}");
            }
        }
    }

    #[test]
    fn no_two_files_have_one_place() {
        for format in [Format::Deb, Format::Rpm] {
            let places: Vec<_> = FILES
                .iter()
                .filter(|file| file.only.is_none_or(|only| only == format))
                .map(|file| {
                    file.destination
                        .replace("{name}", file.package.name(format))
                })
                .collect();
            let distinct: BTreeSet<_> = places.iter().collect();
            assert_eq!(distinct.len(), places.len());
        }
    }

    #[test]
    fn what_is_in_etc_is_configuration() {
        for file in FILES {
            assert_eq!(
                file.is_configuration,
                file.destination.starts_with("etc/"),
                "{file:?}"
            );
        }
    }
}
