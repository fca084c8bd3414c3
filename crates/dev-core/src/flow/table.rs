//! The flows of one version of IP.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};

/// The flows of one family.
#[derive(Debug)]
pub(super) struct Table<K, T, S> {
    exact: HashMap<(K, K), T, S>,
    port: HashMap<K, T, S>,
    /// By protocol and port: those of any address, which no other has then.
    wildcard: HashMap<u64, T, S>,
    /// By protocol and port: at which addresses it is somebody's.
    places: HashMap<u64, Vec<K>>,
}

impl<K, T, S: Default> Default for Table<K, T, S> {
    fn default() -> Self {
        Self {
            exact: HashMap::default(),
            port: HashMap::default(),
            wildcard: HashMap::default(),
            places: HashMap::default(),
        }
    }
}

impl<K: Copy + Eq + Hash, T: Copy, S: BuildHasher> Table<K, T, S> {
    pub(super) fn insert(&mut self, local: K, peer: K, value: T) -> Result<(), T> {
        match self.exact.entry((local, peer)) {
            Entry::Occupied(taken) => Err(*taken.get()),
            Entry::Vacant(free) => {
                free.insert(value);
                Ok(())
            }
        }
    }

    pub(super) fn insert_port(
        &mut self,
        local: K,
        number: u64,
        is_wildcard: bool,
        value: T,
    ) -> Result<(), T> {
        if let Some(owner) = self.wildcard.get(&number).or_else(|| self.port.get(&local)) {
            return Err(*owner);
        }
        if !is_wildcard {
            self.port.insert(local, value);
            self.places.entry(number).or_default().push(local);
            return Ok(());
        }
        let elsewhere = self.places.get(&number).and_then(|places| places.first());
        if let Some(owner) = elsewhere.and_then(|local| self.port.get(local)) {
            return Err(*owner);
        }
        self.wildcard.insert(number, value);
        Ok(())
    }

    pub(super) fn remove(&mut self, local: K, peer: K) -> Option<T> {
        self.exact.remove(&(local, peer))
    }

    pub(super) fn remove_port(&mut self, local: K, number: u64, is_wildcard: bool) -> Option<T> {
        if is_wildcard {
            return self.wildcard.remove(&number);
        }
        let value = self.port.remove(&local)?;
        if let Entry::Occupied(mut places) = self.places.entry(number) {
            places.get_mut().retain(|place| *place != local);
            if places.get().is_empty() {
                places.remove();
            }
        }
        Some(value)
    }

    #[inline]
    pub(super) fn look_up(&self, local: K, number: u64, peer: impl FnOnce() -> K) -> Option<T> {
        if !self.exact.is_empty()
            && let Some(value) = self.exact.get(&(local, peer()))
        {
            return Some(*value);
        }
        if !self.port.is_empty()
            && let Some(value) = self.port.get(&local)
        {
            return Some(*value);
        }
        self.wildcard.get(&number).copied()
    }

    pub(super) fn has(&self, local: K, peer: K) -> bool {
        self.exact.contains_key(&(local, peer))
    }

    pub(super) fn len(&self) -> usize {
        self.exact.len() + self.port.len() + self.wildcard.len()
    }
}
