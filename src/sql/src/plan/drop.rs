//! DROP: what goes, and in which order.
//!
//! Indexes go with their relation, sequences with the column that owns them. Anything else that depends on a dropped object keeps it from being dropped unless
//! CASCADE says that it goes, too; then the client is told.

use super::constraint::{Reference, references_to};
use super::ddl::{article, resolve_object};
use super::privileges::{check_owner, check_system};
use super::sequence::defaults_naming;
use super::{IndexDef, ItemKind, ItemRef, Plan, PlanContext};
use crate::names::resolve_item;
use crate::sequence::SequenceDef;
use engine::error::{PlanNotice, SqlError};
use engine::names::{ClusterId, DatabaseId, ObjectId, ObjectKind, Privilege, RoleId, SchemaId};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql_syntax::ast::Drop;
use sql_syntax::names::Name;
use std::collections::{BTreeMap, BTreeSet};

/// How many dependent objects a message lists, as in Postgres.
const LISTED_MAX: usize = 100;

/// DROP.
#[derive(Clone, Debug)]
pub struct DropPlan {
    /// For the command tag.
    pub kind: ObjectKind,
    /// What goes, dependents before what they depend on, each once.
    pub objects: Vec<ObjectId>,
    /// What the client is told.
    pub notices: Vec<PlanNotice>,
}

/// What is collected for one statement.
#[derive(Default)]
struct Collected {
    /// In the order in which they go.
    order: Vec<ObjectId>,
    seen: BTreeSet<ObjectId>,
    /// What only CASCADE takes, with what it depends on: `view v depends on table t`.
    cascaded: BTreeMap<ObjectId, String>,
    /// What goes without being asked.
    automatic: BTreeSet<ObjectId>,
    /// The parts of tables that only CASCADE takes, and what they need: DEFAULTs with a sequence, foreign keys with a table or a key.
    parts: Vec<(String, String)>,
}

pub(super) fn plan_drop(ctx: &PlanContext<'_>, drop: &Drop) -> Result<Plan, SqlError> {
    let mut notices = Vec::new();
    let mut named = Vec::new();
    for name in &drop.names {
        match resolve(ctx, drop.kind, name) {
            Ok(object) => {
                check_droppable(ctx, object, drop.kind, name)?;
                named.push((object, name.clone()));
            }
            Err(error) if drop.if_exists && may_be_missing(&error) => {
                notices.push(PlanNotice {
                    sqlstate: SqlState::SUCCESSFUL_COMPLETION,
                    message: format!("{} \"{}\" does not exist, skipping", drop.kind, name),
                    detail: None,
                });
            }
            Err(error) => return Err(error),
        }
    }
    if named.is_empty() {
        return Ok(Plan::NoOp { tag: drop.kind.drop_tag(), notices });
    }
    let mut collected = Collected::default();
    for (object, _) in &named {
        collect(ctx, *object, &mut collected);
    }
    // What the statement names itself, or takes along, is not a consequence.
    for object in named.iter().map(|(object, _)| object).chain(&collected.automatic) {
        collected.cascaded.remove(object);
    }
    for (object, name) in &named {
        check_not_identity(ctx, *object, name, &collected)?;
    }
    let what = match named.as_slice() {
        [(_, name)] => format!("{} {name}", drop.kind),
        _ => "desired object(s)".to_owned(),
    };
    collect_parts(ctx, &mut collected);
    if !collected.cascaded.is_empty() || !collected.parts.is_empty() {
        if !drop.cascade {
            return Err(dependents_exist(&what, &collected));
        }
        notices.push(cascade_notice(ctx, &collected));
    }
    Ok(Plan::Drop(DropPlan { kind: drop.kind, objects: collected.order, notices }))
}

/// A column that goes, and what refers to its table by it.
pub(super) struct OfColumn {
    /// Its name.
    pub(super) column: String,
    /// Whether what depends on it goes, too.
    pub(super) cascade: bool,
    /// The indexes of the table that have it in their keys and the sequences that it owns: they go without being asked.
    pub(super) indexes: Vec<GlobalId>,
    /// The views that read it.
    pub(super) views: Vec<GlobalId>,
    /// The foreign keys of other tables that refer to it.
    pub(super) references: Vec<String>,
}

/// What goes with columns of a table, dependents before what they depend on. Errors: 2BP01.
pub(super) fn plan_column_drops(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    columns: &[OfColumn],
    notices: &mut Vec<PlanNotice>,
) -> Result<Vec<ObjectId>, SqlError> {
    let mut collected = Collected::default();
    for column in columns {
        let what = format!("column {} of table {}", column.column, table.name.item);
        for index in &column.indexes {
            collected.automatic.insert(ObjectId::Item(*index));
            collect(ctx, ObjectId::Item(*index), &mut collected);
        }
        for view in &column.views {
            let view = ObjectId::Item(*view);
            let text = format!("{} depends on {what}", describe(ctx, view));
            collected.cascaded.entry(view).or_insert(text);
            collect(ctx, view, &mut collected);
        }
        for object in &collected.automatic {
            collected.cascaded.remove(object);
        }
        collected.parts.clear();
        collect_parts(ctx, &mut collected);
        // Its own DEFAULT goes with it.
        let own = default_of(&what);
        collected.parts.retain(|(default, _)| *default != own);
        collected.parts.extend(column.references.iter().map(|reference| (reference.clone(), what.clone())));
        let is_needed = !column.views.is_empty() || !collected.parts.is_empty();
        if is_needed && !column.cascade {
            return Err(dependents_exist(&what, &collected));
        }
    }
    if !collected.cascaded.is_empty() || !collected.parts.is_empty() {
        notices.push(cascade_notice(ctx, &collected));
    }
    Ok(collected.order)
}

fn resolve(ctx: &PlanContext<'_>, kind: ObjectKind, name: &Name) -> Result<ObjectId, SqlError> {
    let single = matches!(kind, ObjectKind::Database | ObjectKind::Cluster | ObjectKind::Role);
    if single && name.parts.len() > 1 {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("improper qualified name: {name}")));
    }
    resolve_object(ctx, kind, name).map_err(|error| match (error.sqlstate, kind) {
        // For an index Postgres says 42704, not that there is no relation.
        (SqlState::UNDEFINED_TABLE, ObjectKind::Index) => {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"))
        }
        (SqlState::UNDEFINED_TABLE, kind) => {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("{kind} \"{name}\" does not exist"))
        }
        (SqlState::WRONG_OBJECT_TYPE, _) => match resolve_item(ctx.catalog, ctx.scope(), name) {
            Ok(Some(item)) => {
                let kind = match item.object_kind() {
                    // It goes with its model.
                    ObjectKind::Cube => ObjectKind::SemanticModel,
                    kind => kind,
                };
                let statement = kind.to_string().to_uppercase();
                error.with_hint(format!("Use DROP {statement} to remove {} {kind}.", article(kind)))
            }
            _ => error,
        },
        _ => error,
    })
}

/// Whether IF EXISTS makes a notice of an error.
fn may_be_missing(error: &SqlError) -> bool {
    !matches!(error.sqlstate, SqlState::WRONG_OBJECT_TYPE | SqlState::DEPENDENT_OBJECTS_STILL_EXIST)
}

/// Errors: 2BP01 for the index of a key constraint, which goes with that.
fn check_no_key(ctx: &PlanContext<'_>, index: GlobalId, name: &Name) -> Result<(), SqlError> {
    let item = ctx.catalog.item(index);
    let Some(ItemKind::Index(IndexDef { on, constraint: Some(_), .. })) = item.as_ref().map(|item| &item.kind) else {
        return Ok(());
    };
    let (key, table) = (name.item(), ctx.catalog.item(*on).map(|on| on.name.item.clone()).unwrap_or_default());
    let message = format!("cannot drop index {key} because constraint {key} on table {table} requires it");
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_hint(format!("You can drop constraint {key} on table {table} instead.")))
}

fn check_droppable(ctx: &PlanContext<'_>, object: ObjectId, kind: ObjectKind, name: &Name) -> Result<(), SqlError> {
    let in_use = |message: String| Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
    match object {
        ObjectId::Role(id) if id == ctx.role => in_use("current user cannot be dropped".to_owned()),
        ObjectId::Role(_) if name.item() == ctx.session.session_user => {
            in_use("session user cannot be dropped".to_owned())
        }
        ObjectId::Role(id) => {
            check_system(ctx, Privilege::CreateRole, "permission denied to drop role")?;
            check_role_unused(ctx, id, name)
        }
        ObjectId::Database(_) if name.item() == ctx.session.database => {
            in_use("cannot drop the currently open database".to_owned())
        }
        _ => {
            check_owner(ctx, object, kind, name.item())?;
            if let ObjectId::Item(id) = object { check_no_key(ctx, id, name) } else { Ok(()) }
        }
    }
}

fn check_role_unused(ctx: &PlanContext<'_>, role: RoleId, name: &Name) -> Result<(), SqlError> {
    if name.item().starts_with("mz_") {
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop role {name} because it is required by the database system"),
        ));
    }
    let owned = ctx.catalog.owned_by(role);
    if owned.is_empty() {
        return Ok(());
    }
    let detail: Vec<String> =
        owned.iter().take(LISTED_MAX).map(|object| format!("owner of {}", describe(ctx, *object))).collect();
    Err(SqlError::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("role \"{name}\" cannot be dropped because some objects depend on it"),
    )
    .with_detail(detail.join("\n")))
}

/// Adds an object after everything that depends on it.
fn collect(ctx: &PlanContext<'_>, object: ObjectId, out: &mut Collected) {
    // An explicit stack: views can be chained without bound.
    enum Step {
        Enter(ObjectId),
        Leave(ObjectId),
    }
    let mut steps = vec![Step::Enter(object)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Leave(object) => out.order.push(object),
            Step::Enter(object) => {
                if !out.seen.insert(object) {
                    continue;
                }
                steps.push(Step::Leave(object));
                for (dependent, automatic) in dependents(ctx, object) {
                    if automatic {
                        out.automatic.insert(dependent);
                    } else {
                        let text = format!("{} depends on {}", describe(ctx, dependent), describe(ctx, object));
                        out.cascaded.entry(dependent).or_insert(text);
                    }
                    steps.push(Step::Enter(dependent));
                }
            }
        }
    }
}

/// What depends on an object, and whether it goes without being asked.
fn dependents(ctx: &PlanContext<'_>, object: ObjectId) -> Vec<(ObjectId, bool)> {
    match object {
        ObjectId::Item(id) => item_dependents(ctx, id),
        ObjectId::Schema(id) => items_of(ctx, id).into_iter().map(|item| (item, false)).collect(),
        // As in Postgres, a database goes with all that is in it. Its items are named here, too, so that they count as
        // taken by the database and not by their schemas.
        ObjectId::Database(id) => contents_of(ctx, id).into_iter().map(|object| (object, true)).collect(),
        ObjectId::Cluster(id) => maintained_in(ctx, id).into_iter().map(|item| (item, false)).collect(),
        ObjectId::Role(_) | ObjectId::System => Vec::new(),
    }
}

fn item_dependents(ctx: &PlanContext<'_>, id: GlobalId) -> Vec<(ObjectId, bool)> {
    ctx.catalog
        .dependents(id)
        .into_iter()
        .map(|dependent| {
            let goes_along =
                |kind: &ItemKind| matches!(kind, ItemKind::Index(_) | ItemKind::Sequence(_) | ItemKind::Cube(_));
            (ObjectId::Item(dependent), ctx.catalog.item(dependent).is_some_and(|item| goes_along(&item.kind)))
        })
        .collect()
}

/// `default value for column c of table t`, of a column as messages name it.
fn default_of(column: &str) -> String {
    format!("default value for {column}")
}

/// Adds the DEFAULTs of tables that stay which name a sequence that goes, and their foreign keys that refer to a table or a unique
/// index that does.
fn collect_parts(ctx: &PlanContext<'_>, out: &mut Collected) {
    for object in &out.order {
        let ObjectId::Item(id) = object else { continue };
        let Some(item) = ctx.catalog.item(*id) else { continue };
        let stays = |table: &ItemRef| !out.seen.contains(&ObjectId::Item(table.id));
        let references = match &item.kind {
            ItemKind::Sequence(_) => {
                for (table, column) in defaults_naming(ctx.catalog, item.oid).into_iter().filter(|(it, _)| stays(it)) {
                    let column = format!("column {} of table {}", table.desc.columns[column].name, table.name.item);
                    out.parts.push((default_of(&column), describe(ctx, *object)));
                }
                continue;
            }
            ItemKind::Table { .. } => references_to(ctx.catalog, &item),
            ItemKind::Index(IndexDef { on, unique: true, constraint: None, .. }) => {
                let on = ctx.catalog.item(*on).filter(|on| stays(on));
                let all = on.map(|on| references_to(ctx.catalog, &on)).unwrap_or_default();
                all.into_iter().filter(|reference| reference.key.oid == item.oid).collect()
            }
            _ => continue,
        };
        for reference in references.iter().filter(|reference| stays(&reference.child)) {
            out.parts.push((described(reference), describe(ctx, *object)));
        }
    }
}

/// `constraint c on table t`.
pub(super) fn described(reference: &Reference) -> String {
    format!("constraint {} on table {}", reference.name, reference.child.name.item)
}

/// Errors: 2BP01 for the sequence of an identity column that stays.
fn check_not_identity(
    ctx: &PlanContext<'_>,
    object: ObjectId,
    name: &Name,
    collected: &Collected,
) -> Result<(), SqlError> {
    let ObjectId::Item(id) = object else { return Ok(()) };
    let item = ctx.catalog.item(id);
    let Some(ItemKind::Sequence(SequenceDef { owner: Some(owner), .. })) = item.as_ref().map(|item| &item.kind) else {
        return Ok(());
    };
    let table = ctx.catalog.item(owner.table);
    match table.filter(|table| owner.identity.is_some() && !collected.seen.contains(&ObjectId::Item(table.id))) {
        None => Ok(()),
        Some(table) => {
            let column = format!("column {} of table {}", table.desc.columns[owner.column].name, table.name.item);
            let message = format!("cannot drop sequence {name} because {column} requires it");
            Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .with_hint(format!("You can drop {column} instead.")))
        }
    }
}

fn items_of(ctx: &PlanContext<'_>, schema: SchemaId) -> Vec<ObjectId> {
    ctx.catalog.items(schema).iter().map(|item| ObjectId::Item(item.id)).collect()
}

fn contents_of(ctx: &PlanContext<'_>, database: DatabaseId) -> Vec<ObjectId> {
    let schemas = ctx.catalog.schemas(Some(database));
    let mut all: Vec<ObjectId> = schemas.iter().map(|schema| ObjectId::Schema(schema.id)).collect();
    for schema in &schemas {
        all.extend(items_of(ctx, schema.id));
    }
    all
}

fn maintained_in(ctx: &PlanContext<'_>, cluster: ClusterId) -> Vec<ObjectId> {
    let system = ctx.catalog.schemas(None);
    let user = ctx.catalog.databases().into_iter().flat_map(|database| ctx.catalog.schemas(Some(database.id)));
    user.chain(system)
        .flat_map(|schema| ctx.catalog.items(schema.id))
        .filter(|item| item.cluster() == Some(cluster))
        .map(|item| ObjectId::Item(item.id))
        .collect()
}

fn dependents_exist(what: &str, collected: &Collected) -> SqlError {
    let parts = collected.parts.iter().map(|(part, on)| format!("{part} depends on {on}"));
    let lines: Vec<String> = parts.chain(collected.cascaded.values().cloned()).take(LISTED_MAX).collect();
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .with_detail(lines.join("\n"))
    .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

fn cascade_notice(ctx: &PlanContext<'_>, collected: &Collected) -> PlanNotice {
    let parts = collected.parts.iter().map(|(part, _)| part.clone());
    let objects: Vec<String> =
        parts.chain(collected.cascaded.keys().map(|object| describe(ctx, *object))).take(LISTED_MAX).collect();
    let (message, detail) = match objects.as_slice() {
        [one] => (format!("drop cascades to {one}"), None),
        many => {
            let lines: Vec<String> = many.iter().map(|object| format!("drop cascades to {object}")).collect();
            let message =
                format!("drop cascades to {} other objects", collected.cascaded.len() + collected.parts.len());
            (message, Some(lines.join("\n")))
        }
    };
    PlanNotice { sqlstate: SqlState::SUCCESSFUL_COMPLETION, message, detail }
}

/// `view v`, as messages name an object.
fn describe(ctx: &PlanContext<'_>, object: ObjectId) -> String {
    match object {
        ObjectId::Item(id) => match ctx.catalog.item(id) {
            Some(item) => format!("{} {}", item.object_kind(), item.name.item),
            None => format!("object {id}"),
        },
        ObjectId::Schema(id) => {
            format!("schema {}", ctx.catalog.schema(id).map(|schema| schema.name.clone()).unwrap_or_default())
        }
        ObjectId::Database(id) => {
            let name = ctx.catalog.database(id).map(|database| database.name.clone()).unwrap_or_default();
            format!("database {name}")
        }
        ObjectId::Cluster(id) => {
            format!("cluster {}", ctx.catalog.cluster(id).map(|cluster| cluster.name.clone()).unwrap_or_default())
        }
        ObjectId::Role(id) => {
            format!("role {}", ctx.catalog.role(id).map(|role| role.name.clone()).unwrap_or_default())
        }
        ObjectId::System => "the system".to_owned(),
    }
}
