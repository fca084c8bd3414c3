//! The rules of `libvma.conf` in force.

use std::sync::{PoisonError, RwLock};

use stats::Segment;
use vma_config::rules::{ProcessRule, ProcessRules, RuleError};

/// Replaced as a whole, never freed: sockets keep what they have seen.
#[derive(Debug)]
pub(crate) struct Rules {
    current: RwLock<&'static ProcessRules>,
}

impl Rules {
    pub(crate) fn none() -> Self {
        Self {
            current: RwLock::new(const { &ProcessRules::NONE }),
        }
    }

    /// The rules for sockets that are looked at from here on.
    pub(crate) fn current(&self) -> &'static ProcessRules {
        *self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows these from here on, and shows them to readers of the statistics.
    pub(crate) fn follow(&self, rules: ProcessRules, segment: &Segment) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        for rule in rules.iter() {
            describe(rule, segment);
        }
        *current = Box::leak(Box::new(rules));
    }

    /// Puts rules, in the words of `libvma.conf`, in front of all others.
    pub(crate) fn add_first(&self, text: &str, segment: &Segment) -> Result<(), RuleError> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let rules = current.with_first(text)?;
        let known = current.iter().count();
        for rule in rules.iter().filter(|rule| rule.number as usize > known) {
            log::debug!("rule {rule}");
            describe(rule, segment);
        }
        *current = Box::leak(Box::new(rules));
        Ok(())
    }
}

fn describe(rule: &ProcessRule, segment: &Segment) {
    let (text, origin) = (rule.rule.to_string(), rule.origin());
    segment.describe_rule(rule.number, &text, &origin);
}
