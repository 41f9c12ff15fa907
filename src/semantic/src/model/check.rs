//! What cubes and views say of each other: every reference leads somewhere, joins lead from one cube to the other, no member is made
//! of itself, and what a join can multiply has a key.

use crate::model::Model;
use crate::model::cube::{Cube, Join, Source};
use crate::model::dimension::{DimensionKind, DimensionValue};
use crate::model::fragment::{Fragment, Path, is_itself, marked};
use crate::model::measure::{Measure, MeasureKind};
use crate::model::policy::{Includes, Policy, RowFilter, RowLevel};
use crate::model::reference::{Reference, Target};
use crate::model::rollup::{PreAggregationKind, Rollup};
use crate::model::view::View;
use crate::model::view_members::ViewMember;
use crate::report::{Place, Report};
use sql_syntax::ast::visit::visit_expressions;
use sqlparser::ast::{AccessExpr, Expr};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Says what does not fit together.
pub(super) fn check(model: &Model, report: &mut Report) {
    for cube in &model.cubes {
        Check { model, cube, report }.all();
    }
    for view in &model.views {
        check_view(model, view, report);
    }
    check_circles(model, report);
    check_keys(model, report);
}

/// A cube that is being checked.
struct Check<'m, 'r> {
    model: &'m Model,
    cube: &'m Cube,
    report: &'r mut Report,
}

/// What a piece of SQL may refer to, beside dimensions and segments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Rows,
    Measures,
}

impl<'m> Check<'m, '_> {
    fn all(&mut self) {
        let cube = self.cube;
        if let Source::Query(query) = &cube.source
            && let Some(path) = query.references.first()
        {
            self.report.problem(&query.place, format!("`{{{path}}}`: the `sql` of a cube refers to nothing else"));
        }
        for join in &cube.joins {
            self.join(join);
        }
        for dimension in &cube.dimensions {
            match &dimension.value {
                DimensionValue::SubQuery(sql) => self.sub_query(sql),
                value => value.fragments().into_iter().for_each(|sql| self.sql(sql, Allowed::Rows)),
            }
        }
        for measure in &cube.measures {
            let allowed = if measure.kind.is_aggregate() { Allowed::Rows } else { Allowed::Measures };
            measure.sql.iter().for_each(|sql| self.sql(sql, allowed));
            measure.filters.iter().for_each(|sql| self.sql(sql, Allowed::Rows));
            self.members(&measure.drill_members, "drill members are dimensions and measures", |target| {
                matches!(target, Target::Dimension(_) | Target::TimeBucket(..) | Target::Measure(_))
            });
        }
        cube.segments.iter().for_each(|segment| self.sql(&segment.sql, Allowed::Rows));
        for hierarchy in &cube.hierarchies {
            let why = "the levels of a hierarchy are dimensions";
            self.members(&hierarchy.levels, why, |target| matches!(target, Target::Dimension(_)));
        }
        for pre_aggregation in &cube.pre_aggregations {
            if let PreAggregationKind::Rollup(rollup) = &pre_aggregation.kind {
                self.rollup(&pre_aggregation.place, rollup);
                let columns = pre_aggregation.indexes.iter().flat_map(|index| &index.columns);
                columns.for_each(|(place, path)| self.index_column(place, path, rollup));
            }
        }
        let names: Vec<&str> = cube.members().map(|member| member.name.as_str()).collect();
        let dimensions: Vec<&str> = cube.dimensions.iter().map(|dimension| dimension.described.name.as_str()).collect();
        for policy in &cube.policies {
            check_policy(policy, cube.name(), &names, &dimensions, self.report);
        }
    }

    /// A join's condition is about the two cubes and nothing else.
    fn join(&mut self, join: &Join) {
        let Some(other) = self.model.cube(&join.cube) else {
            let cubes = self.model.cubes.iter().map(Cube::name);
            return self.report.unknown(&join.place, "cube to join", &join.cube, cubes);
        };
        if other.name() == self.cube.name() {
            return self
                .report
                .problem(&join.place, "a cube is not joined to itself; declare another one over its table");
        }
        self.sql(&join.sql, Allowed::Rows);
        for path in &join.sql.references {
            let reference = self.model.resolve(self.cube, &join.sql.place, path, &mut Report::default());
            let is_of_both = |reference: &Reference<'_>| match reference.through.as_slice() {
                [] => true,
                [only] => only.name() == other.name(),
                _ => false,
            };
            if reference.as_ref().is_some_and(|reference| !is_of_both(reference)) {
                let message = format!("`{{{path}}}`: a join is about its two cubes and no other");
                self.report.problem(&join.sql.place, message);
            }
        }
    }

    /// A sub-query is made of measures of other cubes.
    fn sub_query(&mut self, sql: &Fragment<Expr>) {
        self.sql(sql, Allowed::Measures);
        let is_measure = |path: &Path| {
            let reference = self.model.resolve(self.cube, &sql.place, path, &mut Report::default());
            reference.is_some_and(|found| !found.through.is_empty() && matches!(found.target, Target::Measure(_)))
        };
        if !sql.references.iter().any(is_measure) {
            self.report.problem(&sql.place, "the `sql` of a `sub_query` has a measure of another cube in it");
        }
    }

    /// Every reference of a piece of SQL leads to something that may stand there.
    fn sql(&mut self, sql: &Fragment<Expr>, allowed: Allowed) {
        let targets: Vec<Option<Target<'m>>> = sql
            .references
            .iter()
            .map(|path| self.reference(&sql.place, path).map(|reference| reference.target))
            .collect();
        for (path, target) in sql.references.iter().zip(&targets) {
            if let (Some(Target::Measure(_)), Allowed::Rows) = (target, allowed) {
                self.report.problem(&sql.place, format!("`{{{path}}}` is a measure, and here are rows"));
            }
        }
        let is_cube = |index: usize| targets[index].map(|target| matches!(target, Target::Cube(_)));
        let mut wrong: BTreeSet<usize> = BTreeSet::new();
        // `{CUBE}.tags[1]`: the roots of such chains, which a column follows.
        let mut followed: Vec<*const Expr> = Vec::new();
        let _walked: ControlFlow<()> = visit_expressions(&*sql.tree, |expr| {
            match expr {
                Expr::CompoundFieldAccess { root, access_chain } => {
                    if matches!(access_chain.first(), Some(AccessExpr::Dot(Expr::Identifier(_)))) {
                        followed.push(&raw const **root);
                    }
                }
                Expr::Identifier(name) => {
                    let is_followed = followed.contains(&(&raw const *expr));
                    wrong.extend(marked(&name.value).filter(|index| is_cube(*index) == Some(!is_followed)));
                }
                Expr::CompoundIdentifier(names) => {
                    let index = names.first().and_then(|name| marked(&name.value));
                    wrong.extend(index.filter(|index| is_cube(*index) == Some(false) || names.len() != 2));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        for index in wrong {
            let path = &sql.references[index];
            let message = match is_cube(index) {
                Some(true) => format!("`{{{path}}}` is a cube: one of its columns follows, `{{{path}}}.column`"),
                _ => format!("`{{{path}}}` is a member: no column follows"),
            };
            self.report.problem(&sql.place, message);
        }
    }

    /// What a reference means, to a cube that can be reached.
    fn reference(&mut self, place: &Place, path: &Path) -> Option<Reference<'m>> {
        let reference = self.model.resolve(self.cube, place, path, self.report)?;
        let mut from = self.cube;
        for to in &reference.through {
            if self.model.joins(from, to).is_none() {
                let message = format!("`{path}`: no join leads from cube `{}` to cube `{}`", from.name(), to.name());
                self.report.problem(place, message);
                return None;
            }
            from = to;
        }
        Some(reference)
    }

    /// Members that are there and are what they should be; the cubes of those that are.
    fn members(&mut self, paths: &[(Place, Path)], why: &str, is_right: impl Fn(Target<'_>) -> bool) -> Vec<&'m Cube> {
        let mut cubes = Vec::new();
        for (place, path) in paths {
            let Some(reference) = self.model.resolve(self.cube, place, path, self.report) else { continue };
            match is_right(reference.target) {
                true => cubes.push(reference.through.last().copied().unwrap_or(self.cube)),
                false => self.report.problem(place, format!("`{path}`: {why}")),
            }
        }
        cubes
    }

    /// The members of a rollup are there, and from one of their cubes joins lead to all others.
    fn rollup(&mut self, place: &Place, rollup: &Rollup) {
        let is_dimension = |target: Target<'_>| matches!(target, Target::Dimension(_) | Target::TimeBucket(..));
        let mut cubes = self.members(&rollup.measures, "no measure", |target| matches!(target, Target::Measure(_)));
        cubes.extend(self.members(&rollup.dimensions, "no dimension", is_dimension));
        cubes.extend(self.members(&rollup.segments, "no segment", |target| matches!(target, Target::Segment(_))));
        for (place, path, granularity) in &rollup.time_dimensions {
            let Some(reference) = self.model.resolve(self.cube, place, path, self.report) else { continue };
            match reference.target {
                Target::Dimension(dimension) if dimension.kind == DimensionKind::Time => {
                    dimension.bucket(&granularity.place, &granularity.text, self.report);
                    cubes.push(reference.through.last().copied().unwrap_or(self.cube));
                }
                _ => self.report.problem(place, format!("`{path}` is no dimension of type `time`")),
            }
        }
        let reaches_all = |root: &&Cube| cubes.iter().all(|cube| self.model.joins(root, cube).is_some());
        if !cubes.is_empty() && !cubes.iter().any(reaches_all) {
            self.report.problem(place, "the cubes of these members are not joined to each other");
        }
    }

    /// An index is over what the rollup has.
    fn index_column(&mut self, place: &Place, path: &Path, rollup: &Rollup) {
        let last = |path: &Path| path.0.last().cloned();
        let all = rollup.measures.iter().chain(&rollup.dimensions).chain(&rollup.segments).map(|(_, path)| path);
        let has =
            all.chain(rollup.time_dimensions.iter().map(|(_, path, _)| path)).any(|known| last(known) == last(path));
        if !has {
            self.report.problem(place, format!("`{path}`: the pre-aggregation has no such member"));
        }
    }
}

/// What a policy names is there: members of the cube or view `of`, and for rows its dimensions.
fn check_policy(policy: &Policy, of: &str, names: &[&str], dimensions: &[&str], report: &mut Report) {
    let included = match &policy.members.includes {
        Includes::All => &[][..],
        Includes::Named(names) => names,
    };
    for name in included.iter().chain(&policy.members.excludes) {
        let own = name.text.strip_prefix(of).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&name.text);
        if !names.contains(&own) {
            report.unknown(&name.place, "member", &name.text, names.iter().copied());
        }
    }
    if let RowLevel::Where(filters) = &policy.rows {
        filters.iter().for_each(|filter| check_row_filter(filter, of, dimensions, report));
    }
}

/// A filter of rows is about a member of the cube or view itself.
fn check_row_filter(filter: &RowFilter, of: &str, names: &[&str], report: &mut Report) {
    match filter {
        RowFilter::And(filters) | RowFilter::Or(filters) => {
            filters.iter().for_each(|filter| check_row_filter(filter, of, names, report));
        }
        RowFilter::Member { place, member, .. } => match member.0.as_slice() {
            [name] if names.contains(&name.as_str()) => {}
            [cube, name] if (is_itself(cube) || cube == of) && names.contains(&name.as_str()) => {}
            _ => report.unknown(place, &format!("dimension of `{of}`"), &member.to_string(), names.iter().copied()),
        },
    }
}

/// A view's paths are joins, its members are there, and each of its names is one member's.
fn check_view(model: &Model, view: &View, report: &mut Report) {
    let members = model.members(view, report);
    let is_dimension = |member: &&ViewMember<'_>| member.cube.dimension(&member.member.name).is_some();
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let dimensions: Vec<&str> = members.iter().filter(is_dimension).map(|member| member.name.as_str()).collect();
    for policy in &view.policies {
        check_policy(policy, view.name(), &names, &dimensions, report);
    }
}

/// Members that are made of others, and these of others, and so on.
const DEPTH_MAX: usize = 100;

/// No member is made of itself.
fn check_circles(model: &Model, report: &mut Report) {
    let (mut done, mut above) = (BTreeSet::new(), Vec::new());
    for cube in &model.cubes {
        for member in cube.members() {
            visit(model, cube, &member.name, &mut done, &mut above, report);
        }
    }
}

fn visit<'m>(
    model: &'m Model,
    cube: &'m Cube,
    member: &'m str,
    done: &mut BTreeSet<(&'m str, &'m str)>,
    above: &mut Vec<(&'m str, &'m str)>,
    report: &mut Report,
) {
    let this = (cube.name(), member);
    if done.contains(&this) {
        return;
    }
    if above.len() > DEPTH_MAX {
        let place =
            cube.members().find(|known| known.name == member).map_or(&cube.described.place, |known| &known.place);
        report.problem(place, format!("more than {DEPTH_MAX} members that are made of each other"));
        return;
    }
    above.push(this);
    for (place, path) in references(cube, member) {
        let Some(reference) = model.resolve(cube, place, path, &mut Report::default()) else { continue };
        let at = reference.through.last().copied().unwrap_or(cube);
        let name = match reference.target {
            Target::Cube(_) => continue,
            Target::Dimension(dimension) | Target::TimeBucket(dimension, _) => &dimension.described.name,
            Target::Measure(measure) => &measure.described.name,
            Target::Segment(segment) => &segment.described.name,
        };
        match above.contains(&(at.name(), name.as_str())) {
            true => report.problem(place, format!("`{}.{name}` is made of itself", at.name())),
            false => visit(model, at, name, done, above, report),
        }
    }
    above.pop();
    done.insert(this);
}

/// The references of a member's SQL.
fn references<'m>(cube: &'m Cube, member: &str) -> Vec<(&'m Place, &'m Path)> {
    let mut fragments: Vec<&Fragment<Expr>> = Vec::new();
    if let Some(dimension) = cube.dimension(member) {
        fragments.extend(dimension.value.fragments());
    }
    if let Some(measure) = cube.measure(member) {
        fragments.extend(measure.sql.iter().chain(&measure.filters));
    }
    fragments.extend(cube.segment(member).map(|segment| &segment.sql));
    fragments.into_iter().flat_map(|sql| sql.references.iter().map(move |path| (&sql.place, path))).collect()
}

/// A cube of which a join can show rows more than once has a key by which they are counted once.
fn check_keys(model: &Model, report: &mut Report) {
    let joined: BTreeSet<&str> = model
        .cubes
        .iter()
        .flat_map(|cube| cube.joins.iter().flat_map(|join| [cube.name(), join.cube.as_str()]))
        .collect();
    for cube in model.cubes.iter().filter(|cube| joined.contains(cube.name())) {
        let counts = |measure: &&Measure| {
            matches!(measure.kind, MeasureKind::Count | MeasureKind::Sum | MeasureKind::Avg | MeasureKind::Number)
        };
        if let Some(measure) = cube.measures.iter().find(counts)
            && cube.primary_key().next().is_none()
        {
            let (name, measure) = (cube.name(), &measure.described.name);
            let message =
                format!("cube `{name}` is joined and has no primary key, so `{measure}` could count a row twice");
            report.problem_with_hint(&cube.described.place, message, "give a dimension `primary_key: true`");
        }
    }
}
