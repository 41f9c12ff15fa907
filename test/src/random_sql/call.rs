//! Calls of aggregates and window functions.

use super::{Column, Generator, Scope, Ty};

impl Generator<'_> {
    /// An aggregate that gives a type. An aggregate over nothing but outer columns would be one of the outer query, so it is
    /// made of inner ones.
    pub(super) fn aggregate(&mut self, ty: Ty, scope: &Scope<'_>) -> String {
        let scope = &Scope { columns: scope.columns, outer: None };
        self.inside += 1;
        let distinct = if self.choices.chance(15) { "DISTINCT " } else { "" };
        let call = match ty {
            Ty::Big => match self.choices.pick(4) {
                0 => "count(*)".to_owned(),
                1 => {
                    let counted = self.any_type();
                    format!("count({distinct}{})", self.expr(counted, scope, 1))
                }
                _ => format!("sum({distinct}{})", self.expr(Ty::Int, scope, 1)),
            },
            Ty::Numeric => match self.choices.pick(4) {
                0 => format!("sum({distinct}{})", self.expr(Ty::Numeric, scope, 1)),
                1 => format!("avg({distinct}{})", self.expr(Ty::Int, scope, 1)),
                2 => format!("max({})", self.expr(Ty::Numeric, scope, 1)),
                _ => format!("sum({distinct}{})", self.expr(Ty::Big, scope, 1)),
            },
            Ty::Bool => format!("{}({})", self.choices.of(&["bool_or", "bool_and", "every"]), self.expr(ty, scope, 1)),
            Ty::Text if self.choices.chance(30) => {
                // With a type, so that PostgreSQL sees that what is ordered by is the argument.
                let value = format!("({})::text", self.expr(Ty::Text, scope, 1));
                let direction = self.direction();
                format!("string_agg({distinct}{value}, ',' ORDER BY {value}{direction})")
            }
            Ty::List if self.choices.chance(70) => {
                let value = format!("({})::int4", self.expr(Ty::Int, scope, 1));
                let direction = self.direction();
                format!("array_agg({distinct}{value} ORDER BY {value}{direction})")
            }
            Ty::Int if self.choices.chance(15) => {
                format!("{}({})", self.choices.of(&["bit_and", "bit_or"]), self.expr(Ty::Int, scope, 1))
            }
            Ty::Float if self.choices.chance(50) => {
                format!("{}({distinct}{})", self.choices.of(&["sum", "avg"]), self.expr(ty, scope, 1))
            }
            _ => format!("{}({})", self.choices.of(&["min", "max"]), self.expr(ty, scope, 1)),
        };
        let filter = match self.choices.chance(12) {
            true => format!(" FILTER (WHERE {})", self.predicate(scope, 1)),
            false => String::new(),
        };
        self.inside -= 1;
        match call.starts_with("avg") && ty == Ty::Numeric {
            // Before anything is made of it that could show the digits behind.
            true => format!("({call}{filter})::numeric(20,6)"),
            false => format!("{call}{filter}"),
        }
    }

    /// A window function over rows in a total order, or one for which ties do not matter.
    pub(super) fn window_call(&mut self, scope: &Scope<'_>) -> Column {
        self.inside += 1;
        let partition = match self.choices.pick(3) {
            0 => String::new(),
            count => {
                let keys: Vec<String> = (1..=count)
                    .map(|_| {
                        let ty = self.any_type();
                        self.column_or_literal(ty, scope)
                    })
                    .collect();
                format!("PARTITION BY {} ", keys.join(", "))
            }
        };
        // Copies of a row are alike, so an order by all columns leaves nothing open.
        let mut total: Vec<String> = Vec::new();
        for column in scope.columns {
            total.push(format!("{}{}", column.text, self.direction()));
        }
        let ty = self.any_type();
        let value = self.expr(ty, scope, 1);
        let has_total = !total.is_empty();
        let total = format!("{partition}ORDER BY {}", total.join(", "));
        let some = match self.choices.pick(2) {
            0 => partition.clone(),
            _ => format!("{partition}ORDER BY {}{}", self.column_or_literal(Ty::Int, scope), self.direction()),
        };
        let filter = match self.choices.chance(10) {
            true => {
                // Not of aggregates, which PostgreSQL does not let filter.
                let plain: Vec<Column> = scope.columns.iter().filter(|column| column.plain).cloned().collect();
                format!(" FILTER (WHERE {})", self.predicate(&Scope { columns: &plain, outer: scope.outer }, 1))
            }
            false => String::new(),
        };
        let (text, ty) = match self.choices.pick(10) {
            0 => (format!("count(*){filter} OVER ({some})"), Ty::Big),
            1 => (format!("sum({}){filter} OVER ({some})", self.expr(Ty::Int, scope, 1)), Ty::Big),
            2 => (format!("{}({value}){filter} OVER ({some})", if ty == Ty::Bool { "bool_or" } else { "max" }), ty),
            3 => (format!("{}() OVER ({some})", self.choices.of(&["rank", "dense_rank"])), Ty::Big),
            4 => (format!("{}() OVER ({some})", self.choices.of(&["percent_rank", "cume_dist"])), Ty::Float),
            _ if !has_total => ("count(*) OVER ()".to_owned(), Ty::Big),
            5 => (format!("row_number() OVER ({total})"), Ty::Big),
            6 => {
                let function = self.choices.of(&["lag", "lead", "first_value", "last_value"]);
                (format!("{function}(({value})::{}) OVER ({total})", ty.name()), ty)
            }
            7 => {
                let frame = self.choices.of(&[
                    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
                ]);
                (format!("sum({}){filter} OVER ({total} {frame})", self.expr(Ty::Int, scope, 1)), Ty::Big)
            }
            8 => {
                let frame = self.choices.of(&[
                    "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
                    "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
                    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                ]);
                let key = format!("ORDER BY {}{}", self.column_or_literal(Ty::Int, scope), self.direction());
                let sum = self.expr(Ty::Int, scope, 1);
                (format!("sum({sum}){filter} OVER ({partition}{key} {frame})"), Ty::Big)
            }
            _ => (format!("ntile(3) OVER ({total})"), Ty::Int),
        };
        self.inside -= 1;
        Column { text, ty, plain: false }
    }
}
