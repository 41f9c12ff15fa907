//! What a reference means in the cube in which it stands.

use crate::model::Model;
use crate::model::cube::Cube;
use crate::model::dimension::{Dimension, DimensionKind, Granularity};
use crate::model::fragment::{Path, is_itself};
use crate::model::interval::{UNITS, Unit};
use crate::model::measure::Measure;
use crate::model::member::Segment;
use crate::report::{Place, Report};

/// What a reference leads to, through which cubes.
#[derive(Clone, Debug)]
pub struct Reference<'m> {
    /// The cubes that the reference names on its way, the last one the target's; empty if that is the cube in which it stands.
    pub through: Vec<&'m Cube>,
    pub target: Target<'m>,
}

#[derive(Clone, Copy, Debug)]
pub enum Target<'m> {
    /// A cube, whose columns follow.
    Cube(&'m Cube),
    Dimension(&'m Dimension),
    /// A dimension of type `time`, cut off to a granularity.
    TimeBucket(&'m Dimension, Bucket<'m>),
    Measure(&'m Measure),
    Segment(&'m Segment),
}

/// The length of a bucket of time: a unit, or a granularity of the model's own.
#[derive(Clone, Copy, Debug)]
pub enum Bucket<'m> {
    Unit(Unit),
    Own(&'m Granularity),
}

impl Model {
    /// What a path means in a cube; None, and a problem, if it means nothing.
    ///
    /// The first name is a cube's before it is a member's, the others are members' before they are cubes', as in Cube.
    pub fn resolve<'m>(
        &'m self,
        cube: &'m Cube,
        place: &Place,
        path: &Path,
        report: &mut Report,
    ) -> Option<Reference<'m>> {
        let (mut through, mut at, mut rest) = (Vec::new(), cube, path.0.as_slice());
        if let Some((first, after)) = rest.split_first() {
            if is_itself(first) || first == cube.name() {
                rest = after;
            } else if let Some(other) = self.cube(first) {
                through.push(other);
                (at, rest) = (other, after);
            }
        }
        while rest.len() < path.0.len()
            && let Some((first, after)) = rest.split_first()
            && at.members().all(|member| member.name != *first)
            && let Some(next) = self.cube(first)
        {
            through.push(next);
            (at, rest) = (next, after);
        }
        let target = match rest {
            [] => Target::Cube(at),
            [name] => self.member(at, cube, place, name, report)?,
            [name, granularity] => match self.member(at, cube, place, name, report)? {
                Target::Dimension(dimension) if dimension.kind == DimensionKind::Time => {
                    Target::TimeBucket(dimension, dimension.bucket(place, granularity, report)?)
                }
                _ => {
                    report.problem(place, format!("`{path}`: only dimensions of type `time` have granularities"));
                    return None;
                }
            },
            [unknown, ..] => {
                report.unknown(place, "cube or member", unknown, self.cubes.iter().map(Cube::name));
                return None;
            }
        };
        Some(Reference { through, target })
    }

    /// A member of the cube `at`, which a reference in the cube `from` names.
    fn member<'m>(
        &'m self,
        at: &'m Cube,
        from: &Cube,
        place: &Place,
        name: &str,
        report: &mut Report,
    ) -> Option<Target<'m>> {
        let found = at.dimension(name).map(Target::Dimension);
        let found = found.or_else(|| at.measure(name).map(Target::Measure));
        let found = found.or_else(|| at.segment(name).map(Target::Segment));
        if found.is_none() {
            let members = at.members().map(|member| member.name.as_str());
            // In the cube itself the name could have been another cube's.
            let is_alone = at.name() == from.name();
            let cubes = self.cubes.iter().map(Cube::name).filter(|_| is_alone);
            let what = format!("member of cube `{}`", at.name());
            report.unknown(place, &what, name, members.chain(cubes));
        }
        found
    }
}

impl Dimension {
    /// A granularity by its name: one of its own, or a unit of time.
    pub fn bucket(&self, place: &Place, name: &str, report: &mut Report) -> Option<Bucket<'_>> {
        let own = self.granularity(name).map(Bucket::Own);
        let unit = UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| Bucket::Unit(*unit));
        let bucket = own.or(unit);
        if bucket.is_none() {
            let own = self.granularities.iter().map(|granularity| granularity.name.as_str());
            report.unknown(place, "granularity", name, UNITS.iter().map(|(name, _)| *name).chain(own));
        }
        bucket
    }
}
