//! CREATE and ALTER SEMANTIC MODEL: the files are read, and all SQL in them is bound over the relations that there are.

use super::name::{already_exists, new_item};
use super::{check_owner_of, missing};
use crate::bind::{self, DescribedCube, ModelTypes};
use crate::names::{is_temporary, resolve_item, unknown_relation};
use crate::plan::resolver::{Dependencies, definition};
use crate::plan::{DefContext, ItemKind, ItemRef, ModelDef, Plan, PlanContext};
use engine::error::{PlanNotice, SqlError};
use engine::names::{ObjectKind, SchemaId};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use semantic::model::Model;
use semantic::report::{Remark, Report};
use sql_syntax::ast::{AlterModel, CreateModel, ModelFile};
use sql_syntax::names::{FullName, Name, quote_literal};
use sql_syntax::parser::ONLY_FILE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a model's files at most.
const MODEL_BYTES_MAX: usize = 4 << 20;

/// CREATE SEMANTIC MODEL.
#[derive(Clone, Debug)]
pub struct CreateModelPlan {
    /// In which schema; its cubes are there as well.
    pub schema: SchemaId,
    /// Its full name.
    pub name: FullName,
    /// Its definition.
    pub model: ModelDef,
    /// Its cubes.
    pub cubes: Arc<Vec<DescribedCube>>,
    /// What in it has no effect.
    pub notices: Vec<PlanNotice>,
    /// Whether IF NOT EXISTS was given, should the name be taken meanwhile.
    pub if_not_exists: bool,
}

/// ALTER SEMANTIC MODEL … AS.
#[derive(Clone, Debug)]
pub struct AlterModelPlan {
    /// Which.
    pub id: GlobalId,
    /// Its new definition.
    pub model: ModelDef,
    /// The cubes that it then has.
    pub cubes: Arc<Vec<DescribedCube>>,
    /// What in it has no effect.
    pub notices: Vec<PlanNotice>,
}

impl ModelDef {
    /// A model that is stored. If this version reads models otherwise and cannot read it, it has no cubes until it is altered.
    pub fn stored(files: BTreeMap<Arc<str>, String>, context: DefContext) -> ModelDef {
        let model = Arc::new(Model::read(&files, &mut Report::default()).unwrap_or_default());
        ModelDef { files, model, context }
    }
}

impl ModelDef {
    /// Whether the same was written, in the same place.
    fn says_the_same(&self, other: &ModelDef) -> bool {
        let (own, others) = (&self.context, &other.context);
        self.files == other.files && (&own.database, &own.search_path) == (&others.database, &others.search_path)
    }
}

pub(in crate::plan) fn plan_create_model(ctx: &PlanContext<'_>, create: &CreateModel) -> Result<Plan, SqlError> {
    let (schema, name, existing) = new_item(ctx, &create.name)?;
    if existing.is_some() {
        return already_exists(&name.item, create.if_not_exists, "CREATE SEMANTIC MODEL");
    }
    let (model, types, notices) = read(ctx, &create.files)?;
    for cube in &types.cubes {
        let taken = ctx.catalog.item_by_name(schema.id, &cube.name).is_some() || cube.name == name.item;
        check_name(cube, taken)?;
    }
    let (cubes, if_not_exists) = (Arc::new(types.cubes), create.if_not_exists);
    Ok(Plan::CreateModel(CreateModelPlan { schema: schema.id, name, model, cubes, notices, if_not_exists }))
}

pub(in crate::plan) fn plan_alter_model(ctx: &PlanContext<'_>, alter: &AlterModel) -> Result<Plan, SqlError> {
    let kind = ObjectKind::SemanticModel;
    let item = match resolve_model(ctx, &alter.name) {
        Ok(item) => item,
        Err(error) => return missing(kind, &alter.name, alter.if_exists, kind.alter_tag(), error),
    };
    check_owner_of(ctx, &item)?;
    let (model, types, notices) = read(ctx, &alter.files)?;
    if model.says_the_same(definition(&item)?) {
        return Ok(Plan::NoOp { tag: kind.alter_tag(), notices });
    }
    let own = cubes_of(ctx, item.id);
    for cube in &types.cubes {
        let there = ctx.catalog.item_by_name(item.schema, &cube.name);
        check_name(cube, there.is_some_and(|there| own.iter().all(|own| own.id != there.id)))?;
    }
    // What has been made of the cubes was made of what they were.
    let dependents = own.iter().flat_map(|cube| {
        let dependents = ctx.catalog.dependents(cube.id).into_iter().filter_map(|id| ctx.catalog.item(id));
        dependents.map(|by| format!("{} {} depends on cube {}", by.object_kind(), by.name.item, cube.name.item))
    });
    let dependents: Vec<String> = dependents.collect();
    if !dependents.is_empty() {
        let message = format!("cannot change semantic model {} because other objects depend on it", item.name.item);
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_detail(dependents.join("\n"))
            .with_hint("Drop them, change the model, and create them again."));
    }
    Ok(Plan::AlterModel(AlterModelPlan { id: item.id, model, cubes: Arc::new(types.cubes), notices }))
}

/// The columns that the cubes of a model have over the relations that there are now. Errors: it cannot be bound.
pub fn describe_cubes(ctx: &PlanContext<'_>, item: &ItemRef) -> Result<ModelTypes, SqlError> {
    let ctx = PlanContext { from_tables: true, ..*ctx };
    Dependencies::new().trusted(&ctx).describe(definition(item)?, item.owner)
}

/// What stands behind `CREATE SEMANTIC MODEL name`.
pub(in crate::plan) fn model_sql(model: &ModelDef) -> String {
    let mut files: Vec<String> = Vec::with_capacity(model.files.len());
    for (name, text) in &model.files {
        if model.files.len() == 1 && name.as_ref() == ONLY_FILE {
            return format!("AS {}", quote_literal(text));
        }
        files.push(format!("FILE {} {}", quote_literal(name), quote_literal(text)));
    }
    format!("AS {}", files.join(", "))
}

/// The cubes of a model.
fn cubes_of(ctx: &PlanContext<'_>, model: GlobalId) -> Vec<Arc<ItemRef>> {
    let dependents = ctx.catalog.dependents(model).into_iter().filter_map(|id| ctx.catalog.item(id));
    dependents.filter(|item| matches!(item.kind, ItemKind::Cube(_))).collect()
}

fn check_name(cube: &DescribedCube, is_taken: bool) -> Result<(), SqlError> {
    if !is_taken {
        return Ok(());
    }
    let message = format!("relation \"{}\" already exists", cube.name);
    Err(SqlError::new(SqlState::DUPLICATE_TABLE, message)
        .with_detail("Cubes and views of a semantic model are relations in the schema of the model.")
        .with_hint("Create the model in another schema than that of its tables."))
}

/// Errors: 42704 if there is none, 42809 if it is something else.
fn resolve_model(ctx: &PlanContext<'_>, name: &Name) -> Result<Arc<ItemRef>, SqlError> {
    let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("semantic model \"{name}\" does not exist"));
    let item = resolve_item(ctx.catalog, ctx.scope(), name).map_err(|_| unknown_relation(name))?;
    let item = item.ok_or_else(unknown)?;
    match item.kind {
        ItemKind::SemanticModel(_) => Ok(item),
        _ => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a semantic model", item.name.item))),
    }
}

/// A model of these files, and its cubes. Errors: 42P17 with all that is wrong, 54000, those of its SQL.
fn read(ctx: &PlanContext<'_>, files: &[ModelFile]) -> Result<(ModelDef, ModelTypes, Vec<PlanNotice>), SqlError> {
    if files.iter().map(|file| file.text.len()).sum::<usize>() > MODEL_BYTES_MAX {
        let message = format!("a semantic model has at most {MODEL_BYTES_MAX} bytes");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let files: BTreeMap<Arc<str>, String> =
        files.iter().map(|file| (Arc::from(file.name.as_str()), file.text.clone())).collect();
    let mut report = Report::default();
    let model = Model::read(&files, &mut report).ok_or_else(|| problems(&report.problems))?;
    if model.offers().next().is_none() {
        let message = "the semantic model declares no cube or view that clients see";
        return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message).with_hint(
            "A file of a model is YAML with `cubes:` or `views:`; files are declared by names that end in .yml.",
        ));
    }
    let ctx = PlanContext { from_tables: true, ..*ctx };
    let dependencies = Dependencies::new();
    let types = bind::describe_model(&model, &dependencies.resolver(&ctx))?;
    let is_temporary = |id: &GlobalId| ctx.catalog.item(*id).is_some_and(|item| is_temporary(&item.name.schema));
    if dependencies.all().iter().any(is_temporary) {
        return Err(SqlError::unsupported("a semantic model over a temporary table"));
    }
    let is_cube = |id: &GlobalId| ctx.catalog.item(*id).is_some_and(|item| matches!(item.kind, ItemKind::Cube(_)));
    if dependencies.all().iter().any(is_cube) {
        return Err(SqlError::unsupported("a semantic model over a cube")
            .with_hint("Declare a view over the cubes of one model."));
    }
    let notice = |remark: &Remark| PlanNotice {
        sqlstate: SqlState::SUCCESSFUL_COMPLETION,
        message: remark.to_string(),
        detail: None,
    };
    let notices = report.notices.iter().map(notice).collect();
    let def = ModelDef { files, model: Arc::new(model), context: ctx.written_here(dependencies.named()) };
    Ok((def, types, notices))
}

fn problems(problems: &[Remark]) -> SqlError {
    let message = match problems {
        [only] => format!("the semantic model has a mistake, at {}: {}", only.place, only.message),
        all => format!("the semantic model has {} mistakes", all.len()),
    };
    let error = SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
    match problems {
        [Remark { hint: Some(hint), .. }] => error.with_hint(hint),
        [_] => error,
        all => error.with_detail(all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}
