//! A model over the relations that there are: whether all its SQL can be bound, and what columns its cubes have.

use super::instances::{Instances, ROOT};
use crate::bind::{Binder, Params, TableResolver};
use arrow::datatypes::Schema;
use engine::Read;
use engine::error::SqlError;
use repr::RelationDesc;
use repr::sqlstate::SqlState;
use semantic::model::Model;
use semantic::model::dimension::{Dimension, DimensionKind};
use semantic::model::offer::{Member, Offer};
use sql_functions::TypedExpr;
use std::sync::Arc;

/// What binding a model gives.
#[derive(Debug)]
pub struct ModelTypes {
    /// The cubes and views that clients see, in the order of the model.
    pub cubes: Vec<DescribedCube>,
    /// What their SQL reads.
    pub reads: Vec<Read>,
}

/// A cube or a view as a relation.
#[derive(Debug)]
pub struct DescribedCube {
    /// Its name.
    pub name: String,
    /// A column for each of its members.
    pub desc: RelationDesc,
    /// What there is to say about it, and about each column.
    pub comments: (Option<String>, Vec<Option<String>>),
}

/// Binds all SQL of a model. Errors: of the first piece that cannot be bound, with its place in the model.
pub fn describe_model(model: &Model, tables: &dyn TableResolver) -> Result<ModelTypes, SqlError> {
    let mut params = Params::none();
    let mut binder = Binder::new(tables, &mut params);
    // What clients do not see is checked as well.
    for cube in &model.cubes {
        let mut instances = Instances::new(&mut binder, model, cube)?;
        let dimensions = cube.dimensions.iter().map(Member::Dimension);
        let measures = cube.measures.iter().map(Member::Measure);
        for member in dimensions.chain(measures).chain(cube.segments.iter().map(Member::Segment)) {
            let value = instances.member(ROOT, member)?;
            if let Member::Dimension(dimension) = member {
                check_kind(cube.name(), dimension, &value)?;
            }
        }
        for join in &cube.joins {
            instances.along(&[&join.cube])?;
        }
    }
    let mut cubes = Vec::new();
    for offer in model.offers() {
        cubes.push(described(&mut binder, model, &offer)?);
    }
    binder.check_reads()?;
    Ok(ModelTypes { cubes, reads: binder.reads.into_all() })
}

fn described(binder: &mut Binder<'_>, model: &Model, offer: &Offer<'_>) -> Result<DescribedCube, SqlError> {
    let mut instances = Instances::new(binder, model, offer.root)?;
    let (mut columns, mut comments) = (Vec::new(), Vec::new());
    for offered in &offer.members {
        let at = instances.along(&offered.path)?;
        let value = instances.member(at, offered.member)?;
        let field = value.ty.field(&offered.name, true).with_data_type(value.data_type);
        columns.push((field, value.ty));
        comments.push(Some(offered.description.unwrap_or(offered.title).to_owned()));
    }
    let described = offer.described;
    let comment = Some(described.description.as_ref().unwrap_or(&described.title).clone());
    let (fields, types): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let mut desc = RelationDesc::from_schema(Arc::new(Schema::new(fields)));
    for (column, ty) in desc.columns.iter_mut().zip(types) {
        column.ty = ty;
    }
    Ok(DescribedCube { name: described.name.clone(), desc, comments: (comment, comments) })
}

/// Error 42804: a dimension is of another type than it says.
fn check_kind(cube: &str, dimension: &Dimension, value: &TypedExpr) -> Result<(), SqlError> {
    use repr::PgType::{Bool, Date, Timestamp, Timestamptz};
    let (is_right, wanted) = match dimension.kind {
        DimensionKind::Time => (matches!(value.ty, Date | Timestamp | Timestamptz), "a date, timestamp or timestamptz"),
        DimensionKind::Boolean => (value.ty == Bool, "a boolean"),
        DimensionKind::Text | DimensionKind::Number => (true, ""),
    };
    if is_right {
        return Ok(());
    }
    let described = &dimension.described;
    let message = format!(
        "dimension \"{}\" is declared as {wanted} and its sql is of type {}, at {} of cube \"{cube}\"",
        described.name,
        value.ty.name(),
        described.place
    );
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint("Write a cast."))
}
