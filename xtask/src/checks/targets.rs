//! The test programs of the workspace, by package.
//!
//! Every step runs some of what `cargo test --workspace` compiles. A step that selected packages
//! would have their crates with other features, and compile most of the workspace once more.

use serde_json::Value;

use crate::cargo;
use crate::failure::Failure;

/// Test programs beside the tests inside of libraries and programs.
#[derive(Debug)]
pub(super) struct Targets(Vec<Target>);

#[derive(Debug, PartialEq, Eq)]
struct Target {
    package: String,
    name: String,
}

impl Targets {
    pub(super) fn read() -> Result<Self, Failure> {
        Self::parse(&cargo::metadata(&["--no-deps"])?)
    }

    /// Fails where two packages have one of the same name, for cargo selects them by that.
    fn parse(metadata: &Value) -> Result<Self, Failure> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut all: Vec<Target> = Vec::new();
        for package in list(&metadata["packages"]) {
            for target in list(&package["targets"]) {
                if target["kind"][0] != "test" {
                    continue;
                }
                let [package, name] = [&package["name"], &target["name"]]
                    .map(|name| name.as_str().unwrap_or_default().to_owned());
                all.push(Target { package, name });
            }
        }
        let is_taken = |target: &&Target| {
            let shared = SHARED.contains(&target.name.as_str());
            !shared && all.iter().any(|it| it.name == target.name && it != *target)
        };
        match all.iter().find(is_taken) {
            Some(target) => Err(Failure::Reason(format!(
                "two packages have a test program {}: rename one",
                target.name
            ))),
            None if all.is_empty() => Err(Failure::new("cargo metadata names no test program")),
            None => Ok(Self(all)),
        }
    }

    /// Those of this package.
    pub(super) fn of(&self, package: &str) -> Vec<String> {
        self.selected(|it| it.package == package)
    }

    /// Those of all other packages.
    pub(super) fn but_of(&self, packages: &[&str]) -> Vec<String> {
        self.selected(|it| !packages.contains(&it.package.as_str()))
    }

    /// As cargo selects them.
    fn selected(&self, wanted: impl Fn(&Target) -> bool) -> Vec<String> {
        let targets = self.0.iter().filter(|it| wanted(it));
        let mut selected: Vec<_> = targets.map(|it| format!("--test={}", it.name)).collect();
        selected.sort();
        selected.dedup();
        selected
    }
}

/// Names that several packages have, all of which run in one step.
const SHARED: [&str; 1] = ["program"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(targets: &[(&str, &str)]) -> Value {
        let packages = targets.iter().map(|(package, name)| {
            let targets = json!([{"kind": ["lib"], "name": "x"}, {"kind": ["test"], "name": name}]);
            json!({"name": package, "targets": targets})
        });
        json!({"packages": packages.collect::<Vec<_>>()})
    }

    #[test]
    fn test_programs_are_selected_by_package() {
        let metadata = metadata(&[
            ("a", "one"),
            ("b", "two"),
            ("c", "program"),
            ("d", "program"),
        ]);
        let targets = Targets::parse(&metadata).unwrap();
        assert_eq!(targets.of("a"), ["--test=one"]);
        assert_eq!(targets.but_of(&["a", "b"]), ["--test=program"]);
    }

    #[test]
    fn a_name_is_one_package_s() {
        let twice = metadata(&[("a", "one"), ("b", "one")]);
        let error = Targets::parse(&twice).unwrap_err().to_string();
        assert!(error.contains("program one"), "{error}");
        assert!(Targets::parse(&json!({})).is_err());
    }

    #[test]
    fn the_workspace_has_those_that_the_steps_name() {
        let targets = Targets::read().unwrap();
        let suites = targets.of("end-to-end");
        assert!(suites.contains(&"--test=udp".to_owned()), "{suites:?}");
        assert!(targets.of("tcp").contains(&"--test=simulation".to_owned()));
    }
}
