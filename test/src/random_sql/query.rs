//! Queries around their SELECTs: WITH, set operations, VALUES, ORDER BY with LIMIT.

use super::{Generator, Relation, Scope, Ty};

impl Generator<'_> {
    /// A query of these columns, called `c0`, `c1`, ….
    pub(super) fn query(&mut self, types: &[Ty], outer: Option<&Scope<'_>>) -> String {
        let ctes = self.ctes.len();
        let with = if outer.is_none() && self.may(8) { self.with() } else { String::new() };
        let body = match self.may(12) {
            true => self.set_operation(types, outer),
            false => self.select(types, outer),
        };
        self.ctes.truncate(ctes);
        let limit = if self.choices.chance(10) { self.limit(types.len()) } else { String::new() };
        format!("{with}{body}{limit}")
    }

    fn with(&mut self) -> String {
        self.fuel -= 1;
        let width = 1 + self.choices.pick(3);
        let types: Vec<Ty> = (0..width).map(|_| self.any_type()).collect();
        let name = self.fresh("w");
        self.inside += 1;
        let body = self.query(&types, None);
        self.inside -= 1;
        let columns = types.iter().enumerate().map(|(at, ty)| (format!("c{at}"), *ty)).collect();
        self.ctes.push(Relation { name: name.clone(), columns });
        format!("WITH {name} AS ({body}) ")
    }

    fn set_operation(&mut self, types: &[Ty], outer: Option<&Scope<'_>>) -> String {
        self.fuel -= 1;
        self.inside += 1;
        let op = self.choices.of(&["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
        let left = self.select(types, outer);
        let right = if self.choices.chance(15) { self.values(types) } else { self.select(types, outer) };
        self.inside -= 1;
        format!("({left}) {op} ({right})")
    }

    /// VALUES of literals.
    pub(super) fn values(&mut self, types: &[Ty]) -> String {
        let rows: Vec<String> = (0..1 + self.choices.pick(3))
            .map(|_| {
                let row: Vec<String> = types.iter().map(|ty| self.literal(*ty)).collect();
                format!("({})", row.join(", "))
            })
            .collect();
        format!("VALUES {}", rows.join(", "))
    }

    /// An order by everything that shows, and a limit.
    fn limit(&mut self, width: usize) -> String {
        // An error may hide in a row that the limit leaves out.
        self.order_matters = true;
        let mut sql = format!(" ORDER BY {}", self.total_order(width).join(", "));
        let (count, skip) = (self.choices.pick(5), self.choices.pick(3));
        match self.choices.pick(4) {
            0 | 1 => sql += &format!(" LIMIT {count}"),
            2 => sql += &format!(" LIMIT {count} OFFSET {skip}"),
            _ => sql += &format!(" OFFSET {skip}"),
        }
        sql
    }

    /// Positions of all columns with directions.
    pub(super) fn total_order(&mut self, width: usize) -> Vec<String> {
        (1..=width).map(|at| format!("{at}{}", self.direction())).collect()
    }

    pub(super) fn direction(&mut self) -> &'static str {
        self.choices.of(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
    }
}
