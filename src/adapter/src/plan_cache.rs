//! Plans, made once per statement shape.
//!
//! Planning a point read costs more than ten times what answering it does, so plans are kept. The shape of a statement is its
//! text with the literals lifted out of it (`sql::plan::lift`); a literal in a position where any value gives the same plan
//! becomes a parameter, every other is part of the key. What else planning reads (role, database, search path, cluster, …)
//! is part of the key as well, and a plan is valid for as long as the catalog's revision is the one it was made under.
//!
//! Two levels: a map per session, which is looked up without a lock, in front of one that all sessions share, so that a new
//! connection finds what others have planned.
//!
//! # Invariants
//! - A plan is used only under the revision, the role and the settings it was made for: the caller compares the revision, the
//!   key holds the rest.

use crate::description::RowDesc;
use ahash::AHashMap;
use arrow::datatypes::DataType;
use compute_client::plan::PeekPlan;
use parking_lot::Mutex;
use repr::PgType;
use sql::plan::lift::{Lifted, LiteralKind};
use sql::plan::{Plan, ReadThenWritePlan, SelectPlan};
use sql_syntax::parser::ParsedStatement;
use std::sync::Arc;

/// Shapes that a session keeps; a session that sends more distinct texts than this starts over.
const SESSION_SHAPES_MAX: usize = 512;
/// Plans that all sessions keep together, unless configured.
const SHARED_PLANS_MAX: usize = 10_000;
/// Plans of one shape that a session keeps: they differ in literals that are part of the key.
const VARIANTS_MAX: usize = 16;

/// A plan, ready to run any number of times.
pub(crate) struct CachedPlan {
    /// The catalog revision that it is valid for.
    pub(crate) revision: u64,
    /// The types of its parameters.
    pub(crate) params: Vec<PgType>,
    /// The same as Arrow types.
    pub(crate) param_types: Vec<DataType>,
    /// The shape of its result, if it returns rows.
    pub(crate) desc: Option<Arc<RowDesc>>,
    /// The statement's name in messages, also its tag.
    pub(crate) name: &'static str,
    /// The statement; where its literals were lifted, with their places.
    pub(crate) text: Arc<str>,
    /// What is to be done.
    pub(crate) exec: Exec,
    /// Whether a session does its part of that so quickly that others may wait for it. How many rows there are is not known yet.
    pub(crate) is_short: bool,
}

impl CachedPlan {
    /// Whether it is answered without waiting once its time is known: an empty statement, or a query that locks nothing.
    pub(crate) fn only_reads(&self) -> bool {
        match &self.exec {
            Exec::Empty => true,
            Exec::Select(exec) => exec.select.locks.is_none(),
            _ => false,
        }
    }
}

/// A prepared statement.
#[derive(Clone)]
pub(crate) struct Prepared {
    /// Parsed, to be planned again when the catalog changes; `None` for the empty statement.
    pub(crate) statement: Option<Arc<ParsedStatement>>,
    pub(crate) plan: Arc<CachedPlan>,
    /// The settings that the plan was made under.
    pub(crate) settings: Arc<str>,
    pub(crate) made: Made,
}

/// How a prepared statement or a portal came to be.
#[derive(Clone, Default)]
pub(crate) struct Made {
    /// When, in microseconds since the epoch; `None` of what has no name, which is there for the moment only.
    pub(crate) at_us: Option<i64>,
    /// The PREPARE or DECLARE that made it; `None` if a message did.
    pub(crate) by: Option<Arc<str>>,
}

/// What a plan does.
#[allow(clippy::large_enum_variant, reason = "there is one in each cached plan, which does not move")]
pub(crate) enum Exec {
    /// Nothing: an empty statement.
    Empty,
    /// A query.
    Select(SelectExec),
    /// UPDATE, DELETE, TRUNCATE.
    ReadThenWrite(Box<ReadThenWriteExec>),
    /// A statement that is planned when it runs.
    Unplanned(Box<ParsedStatement>),
    /// Anything else.
    Other(Plan),
}

/// A query and, if an index answers it, how.
pub(crate) struct SelectExec {
    pub(crate) select: SelectPlan,
    pub(crate) peek: Option<Arc<PeekPlan>>,
}

/// A change of rows, and how the rows are found.
pub(crate) struct ReadThenWriteExec {
    pub(crate) plan: ReadThenWritePlan,
    pub(crate) select: SelectExec,
    /// Whether time has to come to now before it reads.
    pub(crate) reads_now: bool,
}

/// Which of a shape's literals are parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// For each literal of the text, in order: the parameter that it is, or `None` if it is part of the key.
    pub(crate) parameters: Vec<Option<usize>>,
}

/// The plans of one shape in one session.
pub(crate) struct Shape {
    pub(crate) roles: Roles,
    variants: Vec<Variant>,
}

struct Variant {
    kinds: Vec<LiteralKind>,
    pinned: Vec<String>,
    plan: Arc<CachedPlan>,
}

impl Shape {
    pub(crate) fn new(roles: Roles) -> Shape {
        Shape { roles, variants: Vec::new() }
    }

    /// The plan for these literals, valid or not.
    pub(crate) fn find(&self, sql: &str, lifted: &Lifted) -> Option<&Arc<CachedPlan>> {
        let matches = |variant: &&Variant| {
            let mut pinned = variant.pinned.iter();
            lifted.literals.iter().zip(&self.roles.parameters).zip(&variant.kinds).all(|((literal, role), kind)| {
                literal.kind == *kind
                    && (role.is_some() || pinned.next().is_some_and(|text| text == &sql[literal.range.clone()]))
            })
        };
        self.variants.iter().find(matches).map(|variant| &variant.plan)
    }

    /// Keeps a plan for these literals, in place of an older one.
    pub(crate) fn insert(&mut self, sql: &str, lifted: &Lifted, plan: Arc<CachedPlan>) {
        let kinds: Vec<LiteralKind> = lifted.literals.iter().map(|literal| literal.kind).collect();
        let pinned = self.pinned(sql, lifted);
        self.variants.retain(|variant| variant.kinds != kinds || variant.pinned != pinned);
        if self.variants.len() >= VARIANTS_MAX {
            self.variants.remove(0);
        }
        self.variants.push(Variant { kinds, pinned, plan });
    }

    fn pinned(&self, sql: &str, lifted: &Lifted) -> Vec<String> {
        lifted
            .literals
            .iter()
            .zip(&self.roles.parameters)
            .filter(|(_, role)| role.is_none())
            .map(|(literal, _)| sql[literal.range.clone()].to_owned())
            .collect()
    }

    /// The key under which all sessions share the plan for these literals.
    pub(crate) fn shared_key(&self, settings: &str, sql: &str, lifted: &Lifted) -> String {
        let kinds: Vec<LiteralKind> = lifted.literals.iter().map(|literal| literal.kind).collect();
        format!("{settings}\u{1}{}\u{1}{kinds:?}\u{1}{:?}", lifted.shape, self.pinned(sql, lifted))
    }
}

/// The plans of one session.
#[derive(Default)]
pub(crate) struct SessionPlans {
    shapes: AHashMap<String, Shape>,
    /// By text: what Parse gave for it, with the types that were declared then.
    parsed: AHashMap<String, (Vec<u32>, Prepared)>,
}

impl SessionPlans {
    pub(crate) fn get(&self, shape: &str) -> Option<&Shape> {
        self.shapes.get(shape)
    }

    pub(crate) fn entry(&mut self, shape: &str, roles: Roles) -> &mut Shape {
        if self.shapes.len() >= SESSION_SHAPES_MAX {
            self.shapes.clear();
        }
        self.shapes.entry(shape.to_owned()).or_insert_with(|| Shape::new(roles))
    }

    /// What Parse gave for this text and these types, valid or not.
    pub(crate) fn recall(&self, sql: &str, param_oids: &[u32]) -> Option<&Prepared> {
        self.parsed.get(sql).filter(|(oids, _)| oids == param_oids).map(|(_, prepared)| prepared)
    }

    /// Keeps what Parse gave, for clients that parse the same text again and again.
    pub(crate) fn remember(&mut self, sql: &str, param_oids: &[u32], prepared: Prepared) {
        if self.parsed.len() >= SESSION_SHAPES_MAX {
            self.parsed.clear();
        }
        self.parsed.insert(sql.to_owned(), (param_oids.to_vec(), prepared));
    }

    /// Forgets everything: the settings that plans depend on have changed.
    pub(crate) fn clear(&mut self) {
        self.shapes.clear();
        self.parsed.clear();
    }
}

/// The plans that all sessions share.
#[derive(Default)]
pub(crate) struct PlanCache {
    plans: Mutex<AHashMap<String, Arc<CachedPlan>>>,
}

impl PlanCache {
    /// The plan under a key if it is of this revision.
    pub(crate) fn get(&self, key: &str, revision: u64) -> Option<Arc<CachedPlan>> {
        self.plans.lock().get(key).filter(|plan| plan.revision == revision).cloned()
    }

    /// Keeps a plan; returns how many there are.
    pub(crate) fn insert(&self, key: String, plan: Arc<CachedPlan>) -> usize {
        let mut plans = self.plans.lock();
        if plans.len() >= SHARED_PLANS_MAX {
            let revision = plan.revision;
            plans.retain(|_, plan| plan.revision == revision);
            if plans.len() >= SHARED_PLANS_MAX {
                plans.clear();
            }
        }
        plans.insert(key, plan);
        plans.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::plan::lift::lift;

    fn lifted(sql: &str) -> Lifted {
        let mut lifted = Lifted::default();
        assert!(lift(sql, &mut lifted), "{sql}");
        lifted
    }

    fn plan(revision: u64) -> Arc<CachedPlan> {
        Arc::new(CachedPlan {
            revision,
            params: Vec::new(),
            param_types: Vec::new(),
            desc: None,
            name: "SELECT",
            text: Arc::from(""),
            exec: Exec::Empty,
            is_short: true,
        })
    }

    fn found(shape: &Shape, sql: &str) -> Option<u64> {
        shape.find(sql, &lifted(sql)).map(|plan| plan.revision)
    }

    /// The first literal is a parameter, the second one part of the key.
    #[test]
    fn a_literal_of_the_key_tells_plans_apart_and_a_parameter_does_not() {
        let texts = ["SELECT a FROM t WHERE a = 1 AND b = 5", "SELECT a FROM t WHERE a = 2 AND b = 6"];
        let mut shape = Shape::new(Roles { parameters: vec![Some(0), None] });
        for (revision, sql) in (1..).zip(texts) {
            shape.insert(sql, &lifted(sql), plan(revision));
        }
        assert_eq!(found(&shape, "SELECT a FROM t WHERE a = 7 AND b = 5"), Some(1));
        assert_eq!(found(&shape, "SELECT a FROM t WHERE a = 7 AND b = 6"), Some(2));
        assert_eq!(found(&shape, "SELECT a FROM t WHERE a = 7 AND b = 7"), None);
        assert_eq!(found(&shape, "SELECT a FROM t WHERE a = '7' AND b = 5"), None, "a literal of another kind");
        shape.insert(texts[0], &lifted(texts[0]), plan(3));
        assert_eq!(found(&shape, texts[0]), Some(3), "in place of the older one");
        let key = |sql: &str, settings| shape.shared_key(settings, sql, &lifted(sql));
        assert_eq!(key(texts[0], "s"), key("SELECT a FROM t WHERE a = 9 AND b = 5", "s"));
        assert_ne!(key(texts[0], "s"), key(texts[1], "s"));
        assert_ne!(key(texts[0], "s"), key(texts[0], "others"));
    }

    #[test]
    fn a_session_keeps_so_many_plans_of_a_shape_and_the_newest() {
        let sql = |b: usize| format!("SELECT a FROM t WHERE b = {b}");
        let mut shape = Shape::new(Roles { parameters: vec![None] });
        for b in 0..=VARIANTS_MAX {
            shape.insert(&sql(b), &lifted(&sql(b)), plan(0));
        }
        assert_eq!((found(&shape, &sql(0)), found(&shape, &sql(1))), (None, Some(0)));
        assert_eq!(found(&shape, &sql(VARIANTS_MAX)), Some(0));
    }

    #[test]
    fn what_all_sessions_share_is_of_one_revision_and_makes_room() {
        let cache = PlanCache::default();
        for at in 0..SHARED_PLANS_MAX {
            assert_eq!(cache.insert(at.to_string(), plan(1)), at + 1);
        }
        assert!(cache.get("7", 1).is_some() && cache.get("7", 2).is_none());
        assert_eq!(cache.insert("new".to_owned(), plan(2)), 1, "those of an older revision went");
        assert!(cache.get("new", 2).is_some() && cache.get("7", 1).is_none());
    }

    #[test]
    fn what_parse_gave_is_for_the_same_text_and_types() {
        let mut plans = SessionPlans::default();
        let prepared = Prepared { statement: None, plan: plan(1), settings: Arc::from(""), made: Made::default() };
        plans.remember("SELECT $1", &[23], prepared);
        assert!(plans.recall("SELECT $1", &[23]).is_some());
        assert!(plans.recall("SELECT $1", &[25]).is_none() && plans.recall("SELECT $2", &[23]).is_none());
        plans.clear();
        assert!(plans.recall("SELECT $1", &[23]).is_none());
    }
}
