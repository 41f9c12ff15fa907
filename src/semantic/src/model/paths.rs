//! Which way rows of one cube lead to those of another: the fewest joins, the earlier declared first.

use crate::model::Model;
use crate::model::cube::{Cube, Join};
use std::collections::{BTreeMap, VecDeque};

impl Model {
    /// The joins from one cube to another, in their order; empty if they are the same, None if there is no way.
    pub fn joins<'m>(&'m self, from: &'m Cube, to: &Cube) -> Option<Vec<(&'m Cube, &'m Join)>> {
        // Breadth first: whoever reaches a cube first has the shortest way to it.
        let mut reached: BTreeMap<&str, Option<(&'m Cube, &'m Join)>> = BTreeMap::from([(from.name(), None)]);
        let mut next = VecDeque::from([from]);
        while let Some(cube) = next.pop_front() {
            for join in &cube.joins {
                let Some(other) = self.cube(&join.cube) else { continue };
                if !reached.contains_key(other.name()) {
                    reached.insert(other.name(), Some((cube, join)));
                    next.push_back(other);
                }
            }
        }
        let mut way = Vec::new();
        let mut at = to.name();
        while let Some((cube, join)) = reached.get(at)? {
            way.push((*cube, *join));
            at = cube.name();
        }
        way.reverse();
        Some(way)
    }
}
