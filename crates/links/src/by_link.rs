//! What there is of groups, by the interface that their datagrams come in on: mostly one, of
//! thousands of groups.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by a group and the index of an interface. What it takes to find those of one group does
/// not depend on how many others there are.
#[derive(Debug)]
pub struct ByLink<G, V>(HashMap<G, Vec<(u32, V)>>);

impl<G, V> Default for ByLink<G, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<G: Copy + Eq + Hash, V> ByLink<G, V> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, link_index: u32, group: G) -> Option<&V> {
        let mut here = self.of(group).iter();
        here.find(|(link, _)| *link == link_index).map(|it| &it.1)
    }

    pub fn has(&self, link_index: u32, group: G) -> bool {
        self.get(link_index, group).is_some()
    }

    /// All of a group.
    pub fn of(&self, group: G) -> &[(u32, V)] {
        self.0.get(&group).map_or(&[], Vec::as_slice)
    }

    /// In any order.
    pub fn groups(&self) -> impl Iterator<Item = G> + '_ {
        self.0.keys().copied()
    }

    /// In any order.
    pub fn places(&self) -> impl Iterator<Item = (u32, G)> + '_ {
        let all = self.0.iter();
        all.flat_map(|(group, here)| here.iter().map(|(link, _)| (*link, *group)))
    }

    pub fn insert(&mut self, link_index: u32, group: G, value: V) {
        let here = self.0.entry(group).or_default();
        match here.iter_mut().find(|(link, _)| *link == link_index) {
            Some((_, known)) => *known = value,
            None => here.push((link_index, value)),
        }
    }

    pub fn remove(&mut self, link_index: u32, group: G) {
        if let Some(here) = self.0.get_mut(&group) {
            here.retain(|(link, _)| *link != link_index);
            if here.is_empty() {
                self.0.remove(&group);
            }
        }
    }

    /// All of them, in any order.
    pub fn into_places(self) -> impl Iterator<Item = (u32, G, V)> {
        let all = self.0.into_iter();
        all.flat_map(|(group, here)| {
            here.into_iter()
                .map(move |(link, value)| (link, group, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_one_group_is_found_by_its_interface() {
        let mut places = ByLink::default();
        for (link, group, value) in [(2, 'a', 1), (3, 'a', 2), (2, 'b', 3), (2, 'a', 4)] {
            places.insert(link, group, value);
        }
        assert_eq!(places.of('a'), [(2, 4), (3, 2)]);
        assert_eq!(
            (places.get(2, 'b'), places.get(3, 'b')),
            (Some(&3), None::<&i32>)
        );
        assert_eq!(places.places().count(), 3);
        places.remove(3, 'b');
        places.remove(2, 'b');
        assert_eq!(places.groups().collect::<Vec<_>>(), ['a']);
        places.remove(2, 'a');
        assert_eq!(places.into_places().collect::<Vec<_>>(), [(3, 'a', 2)]);
    }
}
