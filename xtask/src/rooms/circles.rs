//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who leads to whom.
#[derive(Debug, Default)]
pub(super) struct Graph<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> FromIterator<(&'a str, &'a str)> for Graph<'a> {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(edges: T) -> Self {
        let mut graph = Self::default();
        for (from, to) in edges {
            graph.0.entry(from).or_default().insert(to);
        }
        graph
    }
}

impl<'a> Graph<'a> {
    fn next(&self, from: &str) -> impl Iterator<Item = &'a str> {
        self.0.get(from).into_iter().flatten().copied()
    }

    /// All that can be reached, in at least one step.
    fn reach(&self, from: &str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.next(from).collect();
        while let Some(at) = open.pop() {
            if reached.insert(at) {
                open.extend(self.next(at));
            }
        }
        reached
    }

    /// The largest sets of nodes that lead to one another.
    pub(super) fn circles(&self) -> Vec<BTreeSet<&'a str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> = self.0.keys().map(|from| (*from, self.reach(from))).collect();
        let is_back = |from: &str, to: &str| reach.get(to).is_some_and(|back| back.contains(from));
        let mut found = BTreeSet::new();
        for (from, reached) in reach.iter().filter(|(from, reached)| reached.contains(*from)) {
            found.insert(reached.iter().copied().filter(|to| is_back(from, to)).collect::<BTreeSet<_>>());
        }
        found.into_iter().collect()
    }

    /// A shortest way from a node back to it, with the node at both ends.
    pub(super) fn round(&self, node: &'a str) -> Option<Vec<&'a str>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = VecDeque::from([node]);
        while let Some(at) = open.pop_front() {
            for next in self.next(at) {
                if next == node {
                    let mut way = vec![node, at];
                    while let Some(before) = way.last().and_then(|last| came_from.get(last)) {
                        way.push(before);
                    }
                    way.reverse();
                    return Some(way);
                }
                if !came_from.contains_key(next) {
                    came_from.insert(next, at);
                    open.push_back(next);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_shown_by_the_shortest_way() {
        let edges = [
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("b", "a"),
            ("c", "d"),
            ("d", "e"),
            ("e", "d"),
            ("e", "f"),
            ("g", "a"),
        ];
        let graph: Graph<'_> = edges.into_iter().collect();
        assert_eq!(graph.circles(), [BTreeSet::from(["a", "b", "c"]), BTreeSet::from(["d", "e"])]);
        assert_eq!(graph.round("a"), Some(vec!["a", "b", "a"]));
        assert_eq!(graph.round("c"), Some(vec!["c", "a", "b", "c"]));
        assert_eq!(graph.round("g"), None);
    }
}
