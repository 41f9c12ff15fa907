//! Which members a view has, under which names.

use crate::model::Model;
use crate::model::cube::Cube;
use crate::model::fragment::Path;
use crate::model::member::Described;
use crate::model::view::{Included, Members, Part, View};
use crate::report::{Place, Report};

/// A member of a view: one of a cube's.
#[derive(Clone, Debug)]
pub struct ViewMember<'m> {
    /// What the view calls it.
    pub name: String,
    /// The cubes from the view's first one to the member's.
    pub path: &'m Path,
    pub cube: &'m Cube,
    pub member: &'m Described,
    /// What the view says of it anew.
    pub included: Option<&'m Included>,
    pub place: &'m Place,
}

impl Model {
    /// The members of a view in their order; what is wrong with them is said.
    pub fn members<'m>(&'m self, view: &'m View, report: &mut Report) -> Vec<ViewMember<'m>> {
        let mut members: Vec<ViewMember<'m>> = Vec::new();
        for part in &view.parts {
            let Some(cube) = self.end_of_path(part, report) else { continue };
            for excluded in &part.excludes {
                if self.find(cube, &excluded.text).is_empty() {
                    unknown(cube, &excluded.place, &excluded.text, report);
                }
            }
            for (member, included, place) in self.included(cube, part, report) {
                if part.excludes.iter().any(|excluded| excluded.text == member.name) {
                    continue;
                }
                let name = included.and_then(|included| included.alias.as_ref()).unwrap_or(&member.name);
                let name = part.prefix.as_ref().map_or_else(|| name.clone(), |prefix| format!("{prefix}_{name}"));
                if members.iter().any(|known| known.name == name) {
                    let message = format!("view `{}` has a member `{name}` already", view.name());
                    report.problem_with_hint(place, message, "give one of them an `alias`, or its cube a `prefix`");
                }
                members.push(ViewMember { name, path: &part.path, cube, member, included, place });
            }
        }
        members
    }

    /// What a part of a view includes; a hierarchy brings its levels along.
    fn included<'m>(
        &'m self,
        cube: &'m Cube,
        part: &'m Part,
        report: &mut Report,
    ) -> Vec<(&'m Described, Option<&'m Included>, &'m Place)> {
        let Members::Named(names) = &part.includes else {
            return cube.members().map(|member| (member, None, &part.place)).collect();
        };
        let mut found: Vec<(&'m Described, Option<&'m Included>, &'m Place)> = Vec::new();
        for included in names {
            let members = self.find(cube, &included.name.text);
            if members.is_empty() {
                unknown(cube, &included.name.place, &included.name.text, report);
            }
            for member in members {
                let is_level = member.name != included.name.text;
                let is_there = found.iter().any(|(known, ..)| known.name == member.name);
                if !(is_level && is_there) {
                    found.push((member, (!is_level).then_some(included), &included.name.place));
                }
            }
        }
        found
    }

    /// The member of a cube that has a name, or the levels of its hierarchy of that name.
    fn find<'m>(&'m self, cube: &'m Cube, name: &str) -> Vec<&'m Described> {
        if let Some(member) = cube.members().find(|member| member.name == name) {
            return vec![member];
        }
        let hierarchy = cube.hierarchies.iter().find(|hierarchy| hierarchy.name == name);
        let levels = hierarchy.into_iter().flat_map(|hierarchy| &hierarchy.levels);
        let level = |(_, path): &'m (Place, Path)| path.0.last().and_then(|name| cube.dimension(name));
        levels.filter_map(level).map(|dimension| &dimension.described).collect()
    }

    /// The cube to which a path of joins leads.
    fn end_of_path<'m>(&'m self, part: &Part, report: &mut Report) -> Option<&'m Cube> {
        let mut at: Option<&Cube> = None;
        for name in &part.path.0 {
            let Some(next) = self.cube(name) else {
                report.unknown(&part.place, "cube", name, self.cubes.iter().map(Cube::name));
                return None;
            };
            if let Some(from) = at
                && (from.name() == name || self.joins(from, next).is_none())
            {
                let message = format!("`{}`: no join leads from cube `{}` to cube `{name}`", part.path, from.name());
                report.problem(&part.place, message);
                return None;
            }
            at = Some(next);
        }
        at
    }
}

fn unknown(cube: &Cube, place: &Place, name: &str, report: &mut Report) {
    let members = cube.members().map(|member| member.name.as_str());
    let hierarchies = cube.hierarchies.iter().map(|hierarchy| hierarchy.name.as_str());
    report.unknown(place, &format!("member of cube `{}`", cube.name()), name, members.chain(hierarchies));
}
