//! FOR UPDATE and FOR SHARE.
//!
//! What the clauses ask for goes into the plan, for whoever runs it; here it is seen to that who asks has the right to UPDATE, and what makes
//! one row of several is refused, as PostgreSQL does.

use super::Binder;
use crate::bind::name::object_name;
use crate::row_locks::{Busy, RowLocks, RowStrength};
use datafusion::logical_expr::LogicalPlan;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sql_syntax::parser::fold;
use sqlparser::ast::{
    Distinct, GroupByExpr, LockClause, LockType, NonBlock, Query, Select, SetExpr, TableAlias, TableFactor,
    TableWithJoins,
};

impl Binder<'_> {
    /// Checks the locks that a query asks for, whose bound body is `plan`. Errors: 0A000, 42P01, 42501, 42601, 42809.
    pub(super) fn check_locks(&self, query: &Query, plan: &LogicalPlan) -> Result<(), SqlError> {
        query.locks.iter().try_for_each(|lock| {
            let (clause, locks) = (format!("FOR {}", lock.lock_type), asked(lock));
            let mut locking = Locking { binder: self, clause, locks, around: Vec::new() };
            let select = locking.lockable(query, Some(plan))?;
            match &lock.of {
                Some(of) => locking.named(select, &object_name(of)?),
                None => locking.all(select),
            }
        })
    }
}

fn asked(lock: &LockClause) -> RowLocks {
    RowLocks {
        strength: match lock.lock_type {
            LockType::Share => RowStrength::Share,
            LockType::Update => RowStrength::Update,
        },
        busy: match lock.nonblock {
            None => Busy::Wait,
            Some(NonBlock::SkipLocked) => Busy::Skip,
            Some(NonBlock::Nowait) => Busy::Fail,
        },
    }
}

/// What stands in FROM.
enum Source<'q> {
    Relation(Vec<String>),
    Subquery(&'q Query),
    /// Something of which no row can be locked, and what it is called.
    Other(&'static str),
}

/// One clause, and where it has come to.
struct Locking<'b, 'q> {
    binder: &'b Binder<'b>,
    clause: String,
    locks: RowLocks,
    /// The subqueries that it is in, whose WITH gives names.
    around: Vec<&'q Query>,
}

impl<'q> Locking<'_, 'q> {
    /// OF.
    fn named(&mut self, select: &'q Select, name: &[String]) -> Result<(), SqlError> {
        let [name] = name else {
            let message = format!("{} must specify unqualified relation names", self.clause);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        let mut sources = self.sources(&select.from).into_iter();
        match sources.find(|(visible, _)| visible.as_ref() == Some(name)) {
            Some((_, source)) => self.lock(source),
            None => {
                let message = format!("relation \"{name}\" in {} clause not found in FROM clause", self.clause);
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }

    fn all(&mut self, select: &'q Select) -> Result<(), SqlError> {
        let sources = self.sources(&select.from).into_iter();
        let mut locked = sources.filter(|(_, source)| !matches!(source, Source::Other(_)));
        locked.try_for_each(|(_, source)| self.lock(source))
    }

    fn lock(&mut self, source: Source<'q>) -> Result<(), SqlError> {
        match source {
            Source::Relation(name) => self.binder.coercer.tables.check_lock(&name, self.locks),
            // The rows of VALUES are no table's: there is nothing to lock.
            Source::Subquery(query) if matches!(query.body.as_ref(), SetExpr::Values(_)) => Ok(()),
            Source::Subquery(query) => {
                let select = self.lockable(query, None)?;
                self.around.push(query);
                let locked = self.all(select);
                self.around.pop();
                locked
            }
            Source::Other(what) => Err(refusal(format!("{} cannot be applied to {what}", self.clause))),
        }
    }

    /// The SELECT of a query, if each of its rows stands for rows of what it reads.
    fn lockable(&self, query: &'q Query, plan: Option<&LogicalPlan>) -> Result<&'q Select, SqlError> {
        let clause = &self.clause;
        let refused = match query.body.as_ref() {
            SetExpr::Query(query) => return self.lockable(query, plan),
            SetExpr::Values(_) => return Err(refusal(format!("{clause} cannot be applied to VALUES"))),
            SetExpr::Select(select) => match stated(select).or_else(|| plan.and_then(computed)) {
                None => return Ok(select),
                Some(feature) => feature,
            },
            _ => "UNION/INTERSECT/EXCEPT",
        };
        Err(refusal(format!("{clause} is not allowed with {refused}")))
    }

    /// What stands in FROM, by the names under which it is seen.
    fn sources(&self, from: &'q [TableWithJoins]) -> Vec<(Option<String>, Source<'q>)> {
        let factors = from.iter().flat_map(|item| {
            let joined = item.joins.iter().map(|join| &join.relation);
            std::iter::once(&item.relation).chain(joined)
        });
        factors.flat_map(|factor| self.source(factor)).collect()
    }

    fn source(&self, factor: &'q TableFactor) -> Vec<(Option<String>, Source<'q>)> {
        let visible = |alias: &Option<TableAlias>| alias.as_ref().map(|alias| fold(&alias.name));
        let found = match factor {
            TableFactor::Table { name, alias, args, .. } => {
                let names = object_name(name).unwrap_or_default();
                let visible = visible(alias).or_else(|| names.last().cloned());
                let source = match names.as_slice() {
                    _ if args.is_some() => Source::Other("a function"),
                    [name] if self.is_cte(name) => Source::Other("a WITH query"),
                    _ => Source::Relation(names),
                };
                (visible, source)
            }
            TableFactor::Derived { subquery, alias, .. } => (visible(alias), Source::Subquery(subquery)),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                return self.sources(std::slice::from_ref(table_with_joins));
            }
            TableFactor::Function { alias, .. } | TableFactor::UNNEST { alias, .. } => {
                (visible(alias), Source::Other("a function"))
            }
            _ => return Vec::new(),
        };
        vec![found]
    }

    fn is_cte(&self, name: &str) -> bool {
        let with = self.around.iter().filter_map(|query| query.with.as_ref());
        self.binder.cte(name).is_some()
            || with.flat_map(|with| &with.cte_tables).any(|cte| fold(&cte.alias.name) == name)
    }
}

/// What a SELECT says that makes one row of several.
fn stated(select: &Select) -> Option<&'static str> {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let features = [
        (!matches!(select.distinct, None | Some(Distinct::All)), "DISTINCT clause"),
        (is_grouped, "GROUP BY clause"),
        (select.having.is_some(), "HAVING clause"),
    ];
    features.into_iter().find_map(|(is_there, feature)| is_there.then_some(feature))
}

/// The same of what it computes.
fn computed(plan: &LogicalPlan) -> Option<&'static str> {
    match plan {
        LogicalPlan::Aggregate(_) => Some("aggregate functions"),
        LogicalPlan::Window(_) => Some("window functions"),
        LogicalPlan::Projection(projection) => computed(&projection.input),
        LogicalPlan::Filter(filter) => computed(&filter.input),
        LogicalPlan::Sort(sort) => computed(&sort.input),
        LogicalPlan::Limit(limit) => computed(&limit.input),
        _ => None,
    }
}

fn refusal(message: String) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
