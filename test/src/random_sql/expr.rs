//! Expressions of a type, and predicates.

use super::{Column, Generator, Scope, Ty};

impl Generator<'_> {
    /// An expression of a type, at most so many operators deep.
    pub(super) fn expr(&mut self, ty: Ty, scope: &Scope<'_>, depth: usize) -> String {
        if depth == 0 || self.choices.pick(10) < 6 {
            return self.column_or_literal(ty, scope);
        }
        if ty == Ty::Bool && self.choices.chance(70) {
            return format!("({})", self.predicate(scope, depth - 1));
        }
        match self.choices.pick(8) {
            0..=2 => self.operation(ty, scope, depth - 1),
            3 => {
                let (first, second) = (self.expr(ty, scope, depth - 1), self.expr(ty, scope, depth - 1));
                let function = match ty {
                    Ty::Bool => "coalesce",
                    _ => self.choices.of(&["coalesce", "nullif", "greatest", "least"]),
                };
                format!("{function}({first}, {second})")
            }
            4 => {
                let condition = self.predicate(scope, depth - 1);
                let (then, otherwise) = (self.expr(ty, scope, depth - 1), self.expr(ty, scope, depth - 1));
                format!("CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
            }
            5 => {
                let tested = self.any_type();
                let value = self.column_or_literal(tested, scope);
                let first = self.literal(tested);
                let (then, otherwise) = (self.expr(ty, scope, depth - 1), self.expr(ty, scope, depth - 1));
                format!("CASE {value} WHEN {first} THEN {then} ELSE {otherwise} END")
            }
            _ if self.may(60) => self.scalar_subquery(ty, scope),
            _ => self.operation(ty, scope, depth - 1),
        }
    }

    /// A column in scope, or one around it, or a literal.
    pub(super) fn column_or_literal(&mut self, ty: Ty, scope: &Scope<'_>) -> String {
        let mut from = scope;
        let mut is_outer = false;
        while let Some(outer) = from.outer
            && self.choices.chance(25)
        {
            from = outer;
            is_outer = true;
        }
        let usable = |column: &&Column| column.ty == ty && (column.plain || !is_outer);
        let found: Vec<&Column> = from.columns.iter().filter(usable).collect();
        if found.is_empty() || self.choices.chance(12) {
            return self.literal(ty);
        }
        found[self.choices.pick(found.len())].text.clone()
    }

    pub(super) fn literal(&mut self, ty: Ty) -> String {
        if self.choices.chance(7) {
            return format!("NULL::{}", ty.name());
        }
        self.choices.of(ty.literals()).to_owned()
    }

    /// An operator or function that gives a type.
    fn operation(&mut self, ty: Ty, scope: &Scope<'_>, depth: usize) -> String {
        let of = |generator: &mut Self, ty| generator.expr(ty, scope, depth);
        match ty {
            Ty::Int => match self.choices.pick(13) {
                0 | 1 => format!("({} + {})", of(self, ty), of(self, ty)),
                2 => format!("({} - {})", of(self, ty), of(self, ty)),
                3 => format!("({} * {})", of(self, ty), self.literal(ty)),
                4 => format!("length({})", of(self, Ty::Text)),
                5 => format!("abs({})", of(self, ty)),
                6 => format!("extract(day FROM {})::int4", of(self, Ty::Date)),
                7 => format!("({})[{}]", of(self, Ty::List), self.literal(ty)),
                8 => format!("cardinality({})", of(self, Ty::List)),
                9 => format!("strpos({}, {})", of(self, Ty::Text), self.literal(Ty::Text)),
                10 => format!("({} - {})", of(self, Ty::Date), of(self, Ty::Date)),
                11 => format!("sign({})::int4", of(self, ty)),
                _ => self.quotient(ty, scope, depth),
            },
            Ty::Big => match self.choices.pick(3) {
                0 => format!("({} + {})", of(self, ty), of(self, Ty::Int)),
                1 => format!("{}::int8", of(self, Ty::Int)),
                _ => format!("({} - {})", of(self, ty), of(self, ty)),
            },
            Ty::Numeric => match self.choices.pick(7) {
                0 => format!("({} + {})", of(self, ty), of(self, ty)),
                1 => format!("({} - {})", of(self, ty), of(self, Ty::Int)),
                2 => format!("({} * {})", of(self, ty), self.literal(Ty::Int)),
                3 => format!("round({}, 1)", of(self, ty)),
                4 => format!("{}({})", self.choices.of(&["floor", "ceil", "abs", "trunc"]), of(self, ty)),
                5 => format!("{}::numeric", of(self, Ty::Big)),
                _ => format!("{}::numeric(10,2)", of(self, Ty::Int)),
            },
            Ty::Float => match self.choices.pick(3) {
                0 => format!("({} + {})", of(self, ty), of(self, ty)),
                1 => format!("({} * {})", of(self, ty), self.literal(ty)),
                _ => format!("{}::float8", of(self, Ty::Int)),
            },
            Ty::Text => match self.choices.pick(9) {
                0 => format!("({} || {})", of(self, ty), of(self, ty)),
                1 => format!("upper({})", of(self, ty)),
                2 => format!("substring({}, 1, 1)", of(self, ty)),
                3 => format!("{}::text", of(self, Ty::Int)),
                4 => {
                    let shown = self.choices.of(&[Ty::Bool, Ty::Date, Ty::Big, Ty::Timestamp, Ty::List]);
                    format!("({})::text", of(self, shown))
                }
                5 => format!("replace({}, {}, {})", of(self, ty), self.literal(ty), of(self, ty)),
                6 => format!("lpad({}, 3, {})", of(self, ty), self.literal(ty)),
                7 => format!("coalesce({}, {})", of(self, ty), of(self, ty)),
                _ => format!("concat({}, {})", of(self, ty), of(self, Ty::Int)),
            },
            Ty::Bool => format!("({})", self.predicate(scope, depth)),
            Ty::Date => match self.choices.pick(2) {
                0 => format!("({} + {})", of(self, ty), self.literal(Ty::Int)),
                _ => format!("{}::date", of(self, Ty::Timestamp)),
            },
            // Without items that are NULL, whose place in the order of lists is another one than PostgreSQL's.
            Ty::List => match self.choices.pick(5) {
                0 => format!("({} || {})", of(self, ty), of(self, ty)),
                1 => format!("array_remove(array_append({}, {}), NULL)", of(self, ty), of(self, Ty::Int)),
                2 => format!("array_remove(ARRAY[{}, {}]::int4[], NULL)", of(self, Ty::Int), of(self, Ty::Int)),
                3 => format!("array_remove({}, {})", of(self, ty), self.literal(Ty::Int)),
                _ => format!("({})[1:2]", of(self, ty)),
            },
            Ty::Timestamp => match self.choices.pick(4) {
                0 => format!("date_trunc('month', {})", of(self, ty)),
                1 => format!("({} + INTERVAL '1 day')", of(self, ty)),
                2 => format!("({} - INTERVAL '1 month')", of(self, ty)),
                _ => format!("{}::timestamp", of(self, Ty::Date)),
            },
        }
    }

    /// A division: mostly by what cannot be zero.
    fn quotient(&mut self, ty: Ty, scope: &Scope<'_>, depth: usize) -> String {
        let dividend = self.expr(ty, scope, depth);
        match self.choices.pick(4) {
            0 => format!("({dividend} / 2)"),
            1 => format!("({dividend} % 3)"),
            2 => {
                let divisor = self.column_or_literal(ty, scope);
                format!("CASE WHEN {divisor} <> 0 THEN {dividend} / {divisor} ELSE 0 END")
            }
            _ => {
                let divisor = self.column_or_literal(ty, scope);
                if !divisor.contains('.') {
                    // PostgreSQL divides constants when it plans, whether there is a row or not.
                    return format!("({dividend} / 2)");
                }
                self.order_matters |= self.inside > 0;
                format!("({dividend} / {divisor})")
            }
        }
    }

    /// A subquery of at most one row, usually.
    fn scalar_subquery(&mut self, ty: Ty, scope: &Scope<'_>) -> String {
        self.fuel -= 1;
        self.inside += 1;
        let sql = match self.choices.pick(8) {
            0..=4 => {
                let (from, columns) = self.from(Some(scope));
                let here = Scope { columns: &columns, outer: Some(scope) };
                let value = self.aggregate(ty, &here);
                let filter = match self.choices.chance(70) {
                    true => format!(" WHERE {}", self.predicate(&here, 1)),
                    false => String::new(),
                };
                format!("(SELECT {value} FROM {from}{filter})")
            }
            5 | 6 => {
                let query = self.select(&[ty], Some(scope));
                let order = self.total_order(1).join("");
                format!("({query} ORDER BY {order} LIMIT 1)")
            }
            _ => {
                // Perhaps of several rows.
                self.order_matters |= self.inside > 1;
                format!("({})", self.select(&[ty], Some(scope)))
            }
        };
        self.inside -= 1;
        sql
    }

    /// A condition.
    pub(super) fn predicate(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        match self.choices.pick(if depth == 0 { 12 } else { 22 }) {
            0..=4 => {
                let ty = self.any_type();
                let op = self.choices.of(&["=", "<", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                let (left, right) = (self.expr(ty, scope, depth), self.expr(ty, scope, depth));
                format!("({left} {op} {right})")
            }
            5 => {
                let ty = self.any_type();
                let value = self.expr(ty, scope, depth);
                format!("{value} {}", self.choices.of(&["IS NULL", "IS NOT NULL"]))
            }
            6 => {
                let ty = self.any_type();
                let value = self.expr(ty, scope, depth);
                let list: Vec<String> = (0..1 + self.choices.pick(3)).map(|_| self.literal(ty)).collect();
                format!("{value} {} ({})", self.choices.of(&["IN", "NOT IN"]), list.join(", "))
            }
            7 => {
                let ty = self.any_number();
                let value = self.expr(ty, scope, depth);
                format!("({value} BETWEEN {} AND {})", self.literal(ty), self.column_or_literal(ty, scope))
            }
            8 => {
                let value = self.expr(Ty::Text, scope, depth);
                format!("{value} {}", self.choices.of(&["LIKE 'a%'", "NOT LIKE '%b'", "ILIKE '_'"]))
            }
            9 => self.column_or_literal(Ty::Bool, scope),
            10 => {
                let (value, list) = (self.expr(Ty::Int, scope, depth), self.expr(Ty::List, scope, depth));
                let op = self.choices.of(&["= ANY", "<> ALL", "< ANY", ">= ALL"]);
                // With a cast, so that a subquery is one list and not its rows.
                format!("({value} {op} (({list})::int4[]))")
            }
            11 => self.row_comparison(scope, depth),
            12 | 13 => format!("({} AND {})", self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)),
            14 | 15 => format!("({} OR {})", self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)),
            16 => format!("NOT {}", self.predicate(scope, depth - 1)),
            17 => {
                let test = self.choices.of(&["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS UNKNOWN"]);
                format!("({}) {test}", self.predicate(scope, depth - 1))
            }
            _ if self.fuel > 0 => self.subquery_predicate(scope, depth - 1),
            _ => self.predicate(scope, depth - 1),
        }
    }

    fn row_comparison(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        let types = [self.any_type(), self.any_type()];
        let row = |generator: &mut Self| types.map(|ty| generator.expr(ty, scope, depth)).join(", ");
        let left = row(self);
        match self.choices.pick(3) {
            0 => {
                let op = self.choices.of(&["=", "<>", "<", ">="]);
                format!("(({left}) {op} ({}))", row(self))
            }
            1 => {
                let word = self.choices.of(&["IN", "NOT IN"]);
                format!("(({left}) {word} (({}), ({})))", row(self), row(self))
            }
            _ => {
                let op = self.choices.of(&["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                format!("(({left}) {op} ({}))", row(self))
            }
        }
    }

    fn subquery_predicate(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        self.fuel -= 1;
        self.inside += 1;
        let ty = self.any_type();
        let sql = match self.choices.pick(6) {
            0 | 1 => {
                let word = self.choices.of(&["EXISTS", "NOT EXISTS"]);
                format!("{word} ({})", self.query(&[ty], Some(scope)))
            }
            2..=4 => {
                let value = self.expr(ty, scope, depth);
                let word = self.choices.of(&["IN", "NOT IN"]);
                format!("{value} {word} ({})", self.query(&[ty], Some(scope)))
            }
            _ => {
                let ty = self.any_number();
                let value = self.expr(ty, scope, depth);
                let op = self.choices.of(&["=", "<", ">=", "<>"]);
                let word = self.choices.of(&["ANY", "ALL"]);
                format!("{value} {op} {word} ({})", self.query(&[ty], Some(scope)))
            }
        };
        self.inside -= 1;
        sql
    }

    fn any_number(&mut self) -> Ty {
        let ty = self.any_type();
        if ty.is_number() { ty } else { Ty::Int }
    }
}
