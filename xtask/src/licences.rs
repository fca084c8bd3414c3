//! Licences, sources and versions of what the workspace depends on, held to `deny.toml`.
//!
//! The part of `cargo deny check` that needs no data base of advisories, and no cargo-deny, which
//! takes minutes to build: cargo's own metadata have it all. `cargo xtask test --long` has
//! cargo-deny look, too.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::cargo;
use crate::failure::Failure;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Fails with every dependency that is not as `deny.toml` asks; otherwise says how many were looked
/// at.
pub(crate) fn check() -> Result<String, Failure> {
    let rules = Rules::parse(&fs::read_to_string(cargo::workspace().join("deny.toml"))?)?;
    let packages = packages(&cargo::metadata(&[])?);
    if packages.is_empty() {
        return Err(Failure::new("cargo metadata names no dependency"));
    }
    let wrong = rules.judge(&packages);
    if wrong.is_empty() {
        Ok(format!("{} dependencies", packages.len()))
    } else {
        Err(Failure::Reason(wrong.join("\n")))
    }
}

/// A dependency from outside this repository.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    /// An SPDX expression, or two licences with a slash between them in old manifests.
    licence: String,
    source: String,
}

fn packages(metadata: &Value) -> Vec<Package> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = metadata["packages"].as_array().into_iter().flatten();
    all.filter(|package| !package["source"].is_null())
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
            source: text(&package["source"]),
        })
        .collect()
}

/// What `deny.toml` says, as far as it is looked at here.
#[derive(Debug)]
struct Rules {
    licences: Vec<String>,
    /// Versions that may be there beside another one of their crate, as `syn:2`.
    duplicates: Vec<String>,
}

impl Rules {
    fn parse(text: &str) -> Result<Self, Failure> {
        let list = |key: &str| -> Vec<String> {
            let Some((_, rest)) = text.split_once(&format!("\n{key} = [")) else {
                return Vec::new();
            };
            let inside = rest.split(']').next().unwrap_or_default();
            let quoted = inside.split('"').skip(1).step_by(2);
            quoted.map(str::to_owned).collect()
        };
        let rules = Self {
            licences: list("allow"),
            duplicates: list("skip"),
        };
        if rules.licences.is_empty() {
            return Err(Failure::new("deny.toml allows no licence"));
        }
        Ok(rules)
    }

    fn judge(&self, packages: &[Package]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages {
            let Package {
                name,
                version,
                licence,
                source,
            } = package;
            if !self.allow(licence) {
                wrong.push(format!("{name} {version}: licence \"{licence}\""));
            }
            if source != CRATES_IO {
                wrong.push(format!("{name} {version}: from {source}"));
            }
            if !self
                .duplicates
                .iter()
                .any(|skipped| is_in(package, skipped))
            {
                versions.entry(name).or_default().push(version);
            }
        }
        for (name, versions) in versions {
            if versions.len() > 1 {
                wrong.push(format!("{name}: versions {}", versions.join(" and ")));
            }
        }
        wrong
    }

    /// Whether the licences that are allowed satisfy this expression.
    fn allow(&self, expression: &str) -> bool {
        let spaced = expression
            .replace('(', " ( ")
            .replace(')', " ) ")
            .replace('/', " OR ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut parser = Parser {
            words: &words,
            allowed: &self.licences,
        };
        parser.any() == Some(true) && parser.words.is_empty()
    }
}

/// Whether the package is in `<name>:<the version's beginning>`.
fn is_in(package: &Package, range: &str) -> bool {
    let Some((name, beginning)) = range.split_once(':') else {
        return false;
    };
    let rest = package.version.strip_prefix(beginning);
    package.name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// SPDX license expressions (SPDX specification, annex D): `OR` binds weaker than `AND`, that
/// weaker than `WITH`. `None` is an expression that is none.
struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Parser<'_> {
    fn any(&mut self) -> Option<bool> {
        let mut value = self.all()?;
        while self.take("OR") {
            value |= self.all()?;
        }
        Some(value)
    }

    fn all(&mut self) -> Option<bool> {
        let mut value = self.one()?;
        while self.take("AND") {
            value &= self.one()?;
        }
        Some(value)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let value = self.any()?;
            return self.take(")").then_some(value);
        }
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        let mut licence = (*first).to_owned();
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            licence += &format!(" WITH {exception}");
        }
        Some(self.allowed.contains(&licence))
    }

    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let text = "[licenses]\nallow = [\"MIT\", \"Unicode-3.0\",\n \"A WITH E\"]\n[bans]\nskip = [\n\"syn:2\",\n]\n";
        Rules::parse(text).unwrap()
    }

    fn package(name: &str, version: &str, licence: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.to_owned(),
            source: CRATES_IO.to_owned(),
        }
    }

    #[test]
    fn expressions_are_satisfied_by_what_is_allowed() {
        let rules = rules();
        for allowed in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "GPL-3.0 AND X OR MIT",
            "A WITH E",
        ] {
            assert!(rules.allow(allowed), "{allowed}");
        }
        for refused in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (X OR Y)",
            "A",
            "MIT WITH E",
            "",
            "MIT MIT",
            "(MIT",
            "MIT OR",
        ] {
            assert!(!rules.allow(refused), "{refused}");
        }
    }

    #[test]
    fn each_kind_of_wrong_dependency_is_named() {
        let mut foreign = package("f", "1.0.0", "MIT");
        foreign.source = "git+https://example.org/f".to_owned();
        let packages = [
            package("a", "1.0.0", "MIT"),
            package("a", "2.0.0", "MIT"),
            package("syn", "2.0.9", "MIT"),
            package("syn", "3.0.0", "MIT"),
            package("g", "1.0.0", "GPL-3.0"),
            foreign,
        ];
        let wrong = rules().judge(&packages);
        assert_eq!(
            wrong,
            [
                "g 1.0.0: licence \"GPL-3.0\"",
                "f 1.0.0: from git+https://example.org/f",
                "a: versions 1.0.0 and 2.0.0",
            ]
        );
    }

    #[test]
    fn a_range_ends_at_a_dot() {
        assert!(is_in(&package("syn", "2.0.9", ""), "syn:2"));
        assert!(!is_in(&package("syn", "20.0.9", ""), "syn:2"));
        assert!(!is_in(&package("synx", "2.0.9", ""), "syn:2"));
    }

    #[test]
    fn the_rules_of_the_repository_are_read() {
        let text = fs::read_to_string(cargo::workspace().join("deny.toml")).unwrap();
        let rules = Rules::parse(&text).unwrap();
        assert!(rules.allow("MIT OR Apache-2.0"));
        assert!(!rules.allow("GPL-3.0-only"));
    }
}
