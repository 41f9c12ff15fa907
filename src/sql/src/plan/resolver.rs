//! Table names in queries, bound to the catalog.
//!
//! Checks the privileges of whoever reads (the session's role, or inside a view the view's owner) on what is read once that
//! is known, inlines views by planning their text in the scope in which they were created, and records what was used.

use super::privileges::{Right, check_columns, check_schema};
use super::{CatalogView, DefContext, ItemKind, ItemRef, ModelDef, PlanContext, RoleRef, ViewDef, ViewRead};
use crate::bind::{self, BindModel, CubeRef, ModelTypes, Params, PlannedQuery, ResolvedTable, TableResolver};
use crate::names::{is_temporary, resolve_cube, resolve_item, resolve_schema, unknown_relation};
use crate::row_locks::RowLocks;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use engine::error::SqlError;
use engine::names::{ObjectKind, Privilege, RoleId, Scope};
use engine::{Read, SessionInfo};
use pgrepr::options::Locale;
use repr::sqlstate::SqlState;
use repr::{Datum, GlobalId, PgType, Reg, RelationDesc};
use semantic::security::Security;
use sql_syntax::names::Name;
use sql_syntax::types::from_ast;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// How deep views may be nested in views.
const VIEW_DEPTH_MAX: usize = 64;

/// What a statement used.
#[derive(Debug, Default)]
struct Used {
    /// Everything, also below views.
    all: BTreeSet<GlobalId>,
    /// What the statement's own text names, with the number of its columns.
    named: BTreeMap<Vec<String>, (GlobalId, usize)>,
    /// What it asks for of rows that others see.
    locks: Option<RowLocks>,
    /// What was read under whose rights.
    rights: Vec<Right>,
    /// Whether access policies have a say.
    has_policies: bool,
}

/// Resolves the names of one statement, or of one view below it.
pub(super) struct Resolver<'a> {
    ctx: &'a PlanContext<'a>,
    scope: Scope<'a>,
    /// Where the names were written, if they are not the statement's own.
    within: Option<&'a DefContext>,
    /// Who reads: the statement's role, or the owner of what the names are in.
    role: RoleId,
    /// Whose rights are checked; nobody's where they were checked before, or are not what decides.
    reader: Option<RoleId>,
    /// A relation that may be scanned without SELECT: what an UPDATE or DELETE changes. What it reads of it is for
    /// [`super::dml`] to check.
    exempt: Option<GlobalId>,
    used: &'a Mutex<Used>,
    depth: usize,
}

/// Owns what the resolvers of one statement record.
#[derive(Debug, Default)]
pub(super) struct Dependencies(Mutex<Used>);

impl Dependencies {
    pub(super) fn new() -> Dependencies {
        Dependencies::default()
    }

    /// A resolver for the statement's own names, which its role may read.
    pub(super) fn resolver<'a>(&'a self, ctx: &'a PlanContext<'a>) -> Resolver<'a> {
        Resolver { reader: Some(ctx.role), ..self.trusted(ctx) }
    }

    /// A resolver that asks nobody for rights: for what is planned once more, or for the system's own purposes.
    pub(super) fn trusted<'a>(&'a self, ctx: &'a PlanContext<'a>) -> Resolver<'a> {
        Resolver {
            ctx,
            scope: ctx.scope(),
            within: None,
            role: ctx.role,
            reader: None,
            exempt: None,
            used: &self.0,
            depth: 0,
        }
    }

    /// Records a relation that is used but not through a name in a query.
    pub(super) fn add(&self, id: GlobalId) {
        self.0.lock().expect("nobody panics while holding it").all.insert(id);
    }

    /// Everything that was used.
    pub(super) fn all(&self) -> Vec<GlobalId> {
        self.0.lock().expect("nobody panics while holding it").all.iter().copied().collect()
    }

    /// What locks the statement asks for on rows that others see.
    pub(super) fn locks(&self) -> Option<RowLocks> {
        self.0.lock().expect("nobody panics while holding it").locks
    }

    /// Error 0A000 if access policies have a say, so that what is maintained would be for whoever made it, as it was allowed then.
    pub(super) fn check_no_policies(&self, what: &str) -> Result<(), SqlError> {
        if !self.0.lock().expect("nobody panics while holding it").has_policies {
            return Ok(());
        }
        Err(SqlError::unsupported(format!("{what} over a cube with an access policy"))
            .with_hint("Who may see what changes with roles: write a view, or maintain what the cube is made of."))
    }

    /// What was read under whose rights.
    pub(super) fn rights(&self) -> Vec<Right> {
        self.0.lock().expect("nobody panics while holding it").rights.clone()
    }

    /// What the statement's own text names, not that of a view below it.
    pub(super) fn named(&self) -> Vec<ViewRead> {
        let used = self.0.lock().expect("nobody panics while holding it");
        let read = |(parts, (id, columns)): (&Vec<String>, &(GlobalId, usize))| ViewRead {
            name: Name { parts: parts.clone() },
            id: *id,
            columns: *columns,
            names: Vec::new(),
        };
        used.named.iter().map(read).collect()
    }
}

impl<'a> Resolver<'a> {
    /// Lets one relation be scanned without the SELECT privilege.
    pub(super) fn exempting(mut self, id: GlobalId) -> Resolver<'a> {
        self.exempt = Some(id);
        self
    }

    /// Binds the query of a view, whose names stand for what they did when it was created, and are read by `owner`.
    pub(super) fn view(&self, view: &ViewDef, owner: RoleId) -> Result<PlannedQuery, SqlError> {
        let query = sql_syntax::parser::parse_query(&view.query)?;
        let inner = self.inside(&view.context, owner)?;
        bind::plan_query(&query, &inner, &mut Params::none()).map_err(inside_view)
    }

    /// What the query of a view reads of the relations that it names.
    pub(super) fn reads(&self, view: &ViewDef, owner: RoleId) -> Result<Vec<Read>, SqlError> {
        let query = sql_syntax::parser::parse_query(&view.query)?;
        bind::reads(&query, &self.inside(&view.context, owner)?, &mut Params::none()).map_err(inside_view)
    }

    /// Binds all that a semantic model says.
    pub(super) fn describe(&self, model: &ModelDef, owner: RoleId) -> Result<ModelTypes, SqlError> {
        bind::describe_model(&model.model, &self.inside(&model.context, owner)?)
    }

    /// The semantic model with this id.
    fn model(&self, id: GlobalId) -> Result<Arc<ItemRef>, SqlError> {
        self.ctx.catalog.item(id).ok_or_else(|| SqlError::internal(format!("there is no semantic model {id}")))
    }

    /// A resolver for the names in a definition.
    fn inside<'b>(&'b self, context: &'b DefContext, owner: RoleId) -> Result<Resolver<'b>, SqlError> {
        if self.depth == VIEW_DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "views are nested too deeply"));
        }
        Ok(Resolver {
            ctx: self.ctx,
            scope: Scope {
                database: &context.database,
                search_path: &context.search_path,
                user: self.scope.user,
                temporary: None,
            },
            within: Some(context),
            role: owner,
            reader: self.reader.map(|_| owner),
            exempt: None,
            used: self.used,
            depth: self.depth + 1,
        })
    }

    /// What a name stands for, how many of its columns are seen, and under which names if these are not its own: in a view, what
    /// was so when it was created.
    fn lookup(&self, name: Name) -> Result<(Arc<ItemRef>, usize, Vec<String>), SqlError> {
        let read = self.within.and_then(|within| within.reads.iter().find(|read| read.name == name));
        let item = match read {
            Some(read) => self.ctx.catalog.item(read.id),
            None => resolve_item(self.ctx.catalog, self.scope, &name)?,
        };
        let item = item.ok_or_else(|| unknown_relation(&name))?;
        if let kind @ (ObjectKind::Secret | ObjectKind::SemanticModel) = item.object_kind() {
            let message = format!("\"{}\" is a {kind}, which nobody reads", item.name.item);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let columns = read.map_or(item.desc.arity(), |read| read.columns);
        let names = read.map(|read| read.names.clone()).unwrap_or_default();
        Ok((item, columns, names))
    }

    fn record(&self, name: &[String], item: &ItemRef) {
        let mut used = self.used.lock().expect("nobody panics while holding it");
        // What a sequence has given does not change what is read of it: nothing is expected of one.
        if !matches!(item.kind, ItemKind::Sequence(_)) {
            used.all.insert(item.id);
        }
        if self.depth == 0 {
            used.named.insert(name.to_vec(), (item.id, item.desc.arity()));
        }
    }
}

/// What a semantic model says.
pub(super) fn definition(item: &ItemRef) -> Result<&ModelDef, SqlError> {
    match &item.kind {
        ItemKind::SemanticModel(model) => Ok(model),
        _ => Err(SqlError::internal(format!("{} is no semantic model", item.name))),
    }
}

/// The security context of a role, for the policies of cubes: its name, the roles that it is a member of, and if it is the session's what the
/// session's token says.
pub fn security_of(catalog: &dyn CatalogView, role: RoleId, session: &SessionInfo) -> Security {
    let is_in = |other: &Arc<RoleRef>| catalog.is_member(role, other.id);
    let groups: BTreeSet<String> =
        catalog.roles().iter().filter(|role| is_in(role)).map(|role| role.name.clone()).collect();
    let own = catalog.role(role).map(|role| role.name.clone());
    let claims = [("role", serde_json::json!(own)), ("groups", serde_json::json!(groups))];
    let claims = claims.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let is_sessions = catalog.role(role).is_some_and(|role| role.name == session.user);
    let vouched =
        session.claims.as_deref().filter(|_| is_sessions).and_then(|claims| serde_json::from_str(claims).ok());
    let security = Security { groups, claims };
    match vouched {
        Some(vouched) => security.vouched(vouched),
        None => security,
    }
}

impl TableResolver for Resolver<'_> {
    fn resolve(&self, parts: &[String]) -> Result<ResolvedTable, SqlError> {
        let (item, columns, names) = self.lookup(Name { parts: parts.to_vec() })?;
        self.ctx.session.check_interrupts()?;
        if let Some(effort) = &self.ctx.session.effort {
            effort.relation()?;
        }
        if matches!(item.kind, ItemKind::Index(_)) {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot open relation \"{}\"", item.name.item),
            )
            .with_detail("This operation is not supported for indexes."));
        }
        if let Some(reader) = self.reader {
            check_schema(self.ctx.catalog, reader, &item)?;
        }
        self.record(parts, &item);
        let primary = item.constraints().iter().find(|constraint| constraint.is_primary());
        let primary_key = primary.map(|primary| primary.columns().to_vec()).unwrap_or_default();
        let desc = Arc::clone(&item.desc);
        let name = self.within.is_none().then(|| item.name.clone());
        let collection =
            || ResolvedTable::Collection { name: name.clone(), id: item.id, desc, columns, names, primary_key };
        match &item.kind {
            ItemKind::SystemTable if self.ctx.catalog.is_always_empty(item.id) => {
                // Known to be empty, so that the optimizer drops what would be computed from it.
                let schema = DFSchema::try_from(Arc::clone(&item.desc.schema))?;
                let empty = EmptyRelation { produce_one_row: false, schema: Arc::new(schema) };
                let (plan, desc) = (LogicalPlan::EmptyRelation(empty), item.desc.as_ref().clone());
                let planned = PlannedQuery { plan, desc, origins: Vec::new() }.truncated(columns)?;
                Ok(ResolvedTable::View { name, id: item.id, query: Box::new(planned) })
            }
            ItemKind::Sequence(_) if self.ctx.from_tables => {
                Err(SqlError::unsupported("a sequence in what is maintained"))
            }
            // The rows of a materialized view are its own: whoever reads it depends on it and on nothing below it.
            ItemKind::Table { .. } | ItemKind::SystemTable | ItemKind::MaterializedView(_) | ItemKind::Sequence(_) => {
                Ok(collection())
            }
            ItemKind::View(view) => {
                let mut planned = self.view(view, item.owner)?;
                planned.desc = under_names(&planned.desc, &item.desc)
                    .ok_or_else(|| SqlError::internal(format!("the definition of view {} has changed", item.name)))?;
                // An indexed view is read from its index. It was planned all the same, for what it depends on.
                if self.ctx.from_tables || self.ctx.catalog.indexes_on(item.id).is_empty() {
                    Ok(ResolvedTable::View { name, id: item.id, query: Box::new(planned.truncated(columns)?) })
                } else {
                    Ok(collection())
                }
            }
            ItemKind::Cube(cube) => {
                let model = self.model(cube.model)?;
                let model = Arc::clone(&definition(&model)?.model);
                let cube = CubeRef { id: item.id, name: item.name.item.clone(), model };
                Ok(ResolvedTable::Cube { name, cube, desc: Arc::clone(&item.desc) })
            }
            ItemKind::Index(_) | ItemKind::Secret(_) | ItemKind::SemanticModel(_) => {
                Err(SqlError::internal(format!("a {} was resolved as a relation", item.object_kind())))
            }
        }
    }

    fn cube(&self, name: &str) -> Vec<String> {
        let of = |read: &&ViewRead| {
            let item = self.ctx.catalog.item(read.id);
            read.name.parts.last().is_some_and(|last| last == name)
                && item.is_some_and(|item| matches!(item.kind, ItemKind::Cube(_)))
        };
        // In a view what was so when it was created.
        if let Some(read) = self.within.and_then(|within| within.reads.iter().find(of)) {
            return read.name.parts.clone();
        }
        let found = resolve_cube(self.ctx.catalog, self.scope, name);
        found.map_or_else(|| vec![name.to_owned()], |item| vec![item.name.schema.clone(), item.name.item.clone()])
    }

    fn in_model(&self, cube: GlobalId, bind: BindModel<'_>) -> Result<(), SqlError> {
        let item = self.ctx.catalog.item(cube);
        let Some(ItemKind::Cube(cube)) = item.as_ref().map(|item| &item.kind) else {
            return Err(SqlError::internal(format!("{cube} is no cube")));
        };
        let model = self.model(cube.model)?;
        bind(&self.inside(&definition(&model)?.context, model.owner)?)
    }

    fn note_policy(&self) {
        self.used.lock().expect("nobody panics while holding it").has_policies = true;
    }

    fn security(&self) -> Security {
        security_of(self.ctx.catalog, self.role, self.ctx.session)
    }

    fn check_reads(&self, reads: &[Read]) -> Result<(), SqlError> {
        let Some(reader) = self.reader else { return Ok(()) };
        for read in reads.iter().filter(|read| self.exempt != Some(read.id)) {
            let item = self.ctx.catalog.item(read.id).expect("it was resolved in this catalog");
            check_columns(self.ctx.catalog, reader, &item, Privilege::Select, &read.columns)?;
            let right = Right { role: reader, id: read.id, columns: read.columns.clone() };
            self.used.lock().expect("nobody panics while holding it").rights.push(right);
        }
        Ok(())
    }

    fn check_lock(&self, name: &[String], locks: RowLocks) -> Result<(), SqlError> {
        let (item, ..) = self.lookup(Name { parts: name.to_vec() })?;
        if let kind @ (ObjectKind::MaterializedView | ObjectKind::Sequence | ObjectKind::Source | ObjectKind::Cube) =
            item.object_kind()
        {
            let message = format!("cannot lock rows in {kind} \"{}\"", item.name.item);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if let Some(reader) = self.reader {
            check_columns(self.ctx.catalog, reader, &item, Privilege::Update, &BTreeSet::new())?;
        }
        if !is_temporary(&item.name.schema) {
            let mut used = self.used.lock().expect("nobody panics while holding it");
            used.locks = Some(used.locks.map_or(locks, |others| others.and(locks)));
        }
        Ok(())
    }

    fn resolve_reg(&self, kind: Reg, text: &str) -> Result<u32, SqlError> {
        let name = || {
            let parts = crate::vars::split_qualified(text);
            parts.map(|parts| Name { parts }).ok_or_else(|| SqlError::new(SqlState("42602"), "invalid name syntax"))
        };
        match kind {
            Reg::Class => {
                let name = name()?;
                let item = resolve_item(self.ctx.catalog, self.scope, &name)?;
                item.map(|item| item.oid).ok_or_else(|| unknown_relation(&name))
            }
            Reg::Namespace => resolve_schema(self.ctx.catalog, self.scope, &name()?).map(|schema| schema.oid),
            Reg::Type => {
                let data_type = sql_syntax::parser::parse_data_type(text)?;
                from_ast(&data_type).map(|ty| pgrepr::types::oid(&ty))
            }
            Reg::Proc | Reg::Procedure | Reg::Role => {
                let function = format!("{}in", kind.name());
                match self.ctx.session.call_catalog(&function, &[Datum::Text(text.into())])? {
                    Datum::Oid(oid) => Ok(oid),
                    _ => Err(SqlError::internal(format!("{function} gives an oid"))),
                }
            }
        }
    }

    fn check_copy(&self, plan: &LogicalPlan) -> Result<(), SqlError> {
        self.ctx.session.effort.as_ref().map_or(Ok(()), |effort| effort.copied(plan))
    }

    fn check_interrupts(&self) -> Result<(), SqlError> {
        self.ctx.session.check_interrupts()
    }

    fn locale(&self) -> Locale {
        self.within.map_or(self.ctx.session.locale, |within| within.locale)
    }
}

impl PlanContext<'_> {
    /// What a definition that is written in this session depends on.
    pub(super) fn written_here(&self, reads: Vec<ViewRead>) -> DefContext {
        DefContext {
            database: self.session.database.clone(),
            search_path: self.session.search_path.clone(),
            locale: self.session.locale.for_reading(),
            reads,
        }
    }
}

/// The columns of a planned view under the names that it was created with. How they are stored follows from what the view
/// reads, and may have changed with that; `None` if more has.
pub(super) fn under_names(planned: &RelationDesc, created: &RelationDesc) -> Option<RelationDesc> {
    let same = planned.arity() == created.arity()
        && planned.columns.iter().zip(&created.columns).all(|(a, b)| is_same_type(&a.ty, &b.ty));
    if !same {
        return None;
    }
    let fields: Vec<_> = planned
        .schema
        .fields()
        .iter()
        .zip(&created.columns)
        .map(|(field, column)| field.as_ref().clone().with_name(&column.name))
        .collect();
    let mut renamed = RelationDesc::from_schema(Arc::new(arrow::datatypes::Schema::new(fields)));
    for (renamed, planned) in renamed.columns.iter_mut().zip(&planned.columns) {
        renamed.ty = planned.ty.clone();
    }
    Some(renamed)
}

/// A place inside a view's text is no place in the statement.
fn inside_view(mut error: SqlError) -> SqlError {
    error.location = None;
    error.position = None;
    error
}

/// How a numeric prints differs between expressions, and is part of [`PgType`] but not of its type in Postgres.
pub(in crate::plan) fn is_same_type(a: &PgType, b: &PgType) -> bool {
    pgrepr::types::oid(a) == pgrepr::types::oid(b) && pgrepr::types::typmod(a) == pgrepr::types::typmod(b)
}
