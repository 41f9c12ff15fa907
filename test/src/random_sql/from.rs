//! FROM: tables, derived tables, VALUES and the joins of them.

use super::{Column, Generator, Relation, Scope, TABLES, Ty};

impl Generator<'_> {
    /// A FROM clause and the columns that it brings into scope.
    pub(super) fn from(&mut self, outer: Option<&Scope<'_>>) -> (String, Vec<Column>) {
        let (mut sql, mut columns) = self.item(outer);
        while self.may(30) {
            self.fuel -= 1;
            self.inside += 1;
            let join = self.choices.pick(11);
            if join == 10 {
                let scope = Scope { columns: &columns, outer };
                let (function, added) = self.function(&scope);
                sql = format!("{sql} CROSS JOIN {function}");
                columns.extend(added);
            } else if join == 9 {
                let scope = Scope { columns: &columns, outer };
                let (derived, added) = self.derived(Some(&scope));
                sql = match self.choices.pick(2) {
                    0 => format!("{sql} CROSS JOIN LATERAL {derived}"),
                    _ => format!("{sql} LEFT JOIN LATERAL {derived} ON true"),
                };
                columns.extend(added);
            } else {
                let (right, added) = self.item(outer);
                let left = columns.clone();
                columns.extend(added.clone());
                let scope = Scope { columns: &columns, outer };
                sql = match join {
                    0..=3 => format!("{sql} JOIN {right} ON {}", self.join_condition(&left, &added, &scope)),
                    4 | 5 => format!("{sql} LEFT JOIN {right} ON {}", self.join_condition(&left, &added, &scope)),
                    6 => format!("{sql} RIGHT JOIN {right} ON {}", self.join_condition(&left, &added, &scope)),
                    // PostgreSQL joins fully by equality only.
                    7 => match self.equality(&left, &added) {
                        Some(equal) => format!("{sql} FULL JOIN {right} ON {equal}"),
                        None => format!("{sql} CROSS JOIN {right}"),
                    },
                    _ => format!("{sql} CROSS JOIN {right}"),
                };
            }
            self.inside -= 1;
        }
        (sql, columns)
    }

    fn join_condition(&mut self, left: &[Column], right: &[Column], scope: &Scope<'_>) -> String {
        match self.equality(left, right) {
            Some(equal) if self.choices.chance(80) => match self.choices.chance(20) {
                true => format!("{equal} AND {}", self.predicate(scope, 1)),
                false => equal,
            },
            _ => self.predicate(scope, 1),
        }
    }

    fn equality(&mut self, left: &[Column], right: &[Column]) -> Option<String> {
        let pairs: Vec<(&Column, &Column)> =
            left.iter().flat_map(|l| right.iter().filter(|r| r.ty == l.ty).map(move |r| (l, r))).collect();
        if pairs.is_empty() {
            return None;
        }
        let (l, r) = pairs[self.choices.pick(pairs.len())];
        Some(format!("{} = {}", l.text, r.text))
    }

    fn item(&mut self, outer: Option<&Scope<'_>>) -> (String, Vec<Column>) {
        match self.choices.pick(22) {
            20 => self.function(&Scope { columns: &[], outer }),
            21 => self.using(),
            18 if self.fuel > 0 => self.derived(outer),
            19 => {
                let types: Vec<Ty> = (0..1 + self.choices.pick(2)).map(|_| self.any_type()).collect();
                let values = self.values(&types);
                self.aliased(&format!("({values})"), &types)
            }
            16 | 17 if !self.ctes.is_empty() => {
                let Relation { name, columns } = self.ctes[self.choices.pick(self.ctes.len())].clone();
                let alias = self.fresh("t");
                let column =
                    |(column, ty): &(String, Ty)| Column { text: format!("{alias}.{column}"), ty: *ty, plain: true };
                let columns = columns.iter().map(column).collect();
                (format!("{name} {alias}"), columns)
            }
            at => {
                let (name, columns) = TABLES[at % TABLES.len()];
                let alias = self.fresh("t");
                let column = |(column, _, ty): &(&str, &str, Ty)| Column {
                    text: format!("{alias}.{column}"),
                    ty: *ty,
                    plain: true,
                };
                let columns = columns.iter().map(column).collect();
                (format!("{name} {alias}"), columns)
            }
        }
    }

    /// A function that gives rows, over what stands to its left.
    fn function(&mut self, scope: &Scope<'_>) -> (String, Vec<Column>) {
        match self.choices.pick(3) {
            0 => {
                let first = self.column_or_literal(Ty::Int, scope);
                self.aliased(&format!("generate_series({first}, 3)"), &[Ty::Int])
            }
            1 => {
                let list = self.column_or_literal(Ty::List, scope);
                self.aliased(&format!("unnest({list})"), &[Ty::Int])
            }
            _ => {
                let ty = self.any_type();
                let ty = if ty == Ty::List { Ty::Text } else { ty };
                let items = (self.column_or_literal(ty, scope), self.column_or_literal(ty, scope));
                self.aliased(&format!("unnest(ARRAY[{}, {}])", items.0, items.1), &[ty])
            }
        }
    }

    /// Two tables joined by a column of one name.
    fn using(&mut self) -> (String, Vec<Column>) {
        let join = self.choices.of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let (left, right) = (self.fresh("t"), self.fresh("t"));
        let tables = match self.choices.pick(3) {
            0 => format!("SELECT a, {left}.b, {right}.n FROM r1 {left} {join} r2 {right} USING (a)"),
            1 => format!("SELECT id, {left}.a, {right}.n FROM r1 {left} {join} r2 {right} USING (id, a)"),
            _ => format!("SELECT a, {left}.h, {right}.n FROM r3 {left} NATURAL {join} r2 {right}"),
        };
        self.aliased(&format!("({tables})"), &[Ty::Int, Ty::Int, Ty::Numeric])
    }

    /// A derived table, correlated if it may be.
    fn derived(&mut self, outer: Option<&Scope<'_>>) -> (String, Vec<Column>) {
        self.fuel = self.fuel.saturating_sub(1);
        let types: Vec<Ty> = (0..1 + self.choices.pick(3)).map(|_| self.any_type()).collect();
        self.inside += 1;
        let query = self.query(&types, outer);
        self.inside -= 1;
        self.aliased(&format!("({query})"), &types)
    }

    fn aliased(&mut self, sql: &str, types: &[Ty]) -> (String, Vec<Column>) {
        let alias = self.fresh("t");
        let names: Vec<String> = (0..types.len()).map(|at| format!("c{at}")).collect();
        let column = |(name, ty): (&String, &Ty)| Column { text: format!("{alias}.{name}"), ty: *ty, plain: true };
        let columns = names.iter().zip(types).map(column).collect();
        (format!("{sql} {alias}({})", names.join(", ")), columns)
    }
}
