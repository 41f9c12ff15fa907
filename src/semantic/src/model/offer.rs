//! What a cube or a view offers to queries: its members under the names by which they are asked for, and how to get there.

use crate::model::Model;
use crate::model::cube::Cube;
use crate::model::dimension::Dimension;
use crate::model::measure::Measure;
use crate::model::member::{Described, Segment, Visibility};
use crate::model::policy::Policy;
use crate::report::Report;

/// A cube or a view as queries see it.
#[derive(Clone, Debug)]
pub struct Offer<'m> {
    pub described: &'m Described,
    /// The cube from which all joins begin.
    pub root: &'m Cube,
    /// Whom its own policies let see what, beside those of the cubes that take part.
    pub policies: &'m [Policy],
    /// In the order of the model. Those that clients do not see are not among them.
    pub members: Vec<Offered<'m>>,
}

/// A member that a query can ask for.
#[derive(Clone, Debug)]
pub struct Offered<'m> {
    pub name: String,
    pub title: &'m str,
    pub description: Option<&'m str>,
    /// The cubes from the root to the member's, both included.
    pub path: Vec<&'m str>,
    pub member: Member<'m>,
}

#[derive(Clone, Copy, Debug)]
pub enum Member<'m> {
    Dimension(&'m Dimension),
    Measure(&'m Measure),
    Segment(&'m Segment),
}

impl Model {
    /// What the cube or view of this name offers. None if there is none, or none that clients see.
    pub fn offer(&self, name: &str) -> Option<Offer<'_>> {
        let offer = match self.cube(name) {
            Some(cube) => of_cube(cube),
            None => self.of_view(name)?,
        };
        (offer.described.visibility == Visibility::Public).then_some(offer)
    }

    /// All of them, cubes first, each in the order of the model.
    pub fn offers(&self) -> impl Iterator<Item = Offer<'_>> {
        let names = self.cubes.iter().map(Cube::name).chain(self.views.iter().map(|view| view.name()));
        names.filter_map(|name| self.offer(name))
    }

    fn of_view(&self, name: &str) -> Option<Offer<'_>> {
        let view = self.view(name)?;
        // What is wrong with them was said when the model was read.
        let members = self.members(view, &mut Report::default());
        let offered = members.into_iter().filter_map(|of| {
            let included = of.included;
            let title = included.and_then(|included| included.title.as_deref());
            let description = included.and_then(|included| included.description.as_deref());
            Some(Offered {
                name: of.name,
                title: title.unwrap_or(&of.member.title),
                description: description.or(of.member.description.as_deref()),
                path: of.path.0.iter().map(String::as_str).collect(),
                member: visible(of.cube, of.member)?,
            })
        });
        let root = view.parts.first().and_then(|part| part.path.0.first()).and_then(|name| self.cube(name))?;
        let policies = view.policies.as_slice();
        Some(Offer { described: &view.described, root, policies, members: offered.collect() })
    }
}

fn of_cube(cube: &Cube) -> Offer<'_> {
    let offered = cube.members().filter_map(|described| {
        Some(Offered {
            name: described.name.clone(),
            title: &described.title,
            description: described.description.as_deref(),
            path: vec![cube.name()],
            member: visible(cube, described)?,
        })
    });
    // A cube takes part in what is asked of it.
    Offer { described: &cube.described, root: cube, policies: &[], members: offered.collect() }
}

fn visible<'m>(cube: &'m Cube, described: &Described) -> Option<Member<'m>> {
    if described.visibility == Visibility::Hidden {
        return None;
    }
    let dimension = || cube.dimension(&described.name).map(Member::Dimension);
    let measure = || cube.measure(&described.name).map(Member::Measure);
    dimension().or_else(measure).or_else(|| cube.segment(&described.name).map(Member::Segment))
}

impl<'m> Offer<'m> {
    pub fn member(&self, name: &str) -> Option<&Offered<'m>> {
        self.members.iter().find(|member| member.name == name)
    }
}

impl<'m> Member<'m> {
    pub fn described(self) -> &'m Described {
        match self {
            Member::Dimension(dimension) => &dimension.described,
            Member::Measure(measure) => &measure.described,
            Member::Segment(segment) => &segment.described,
        }
    }
}
