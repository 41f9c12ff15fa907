//! One SELECT: plain, grouped, in grouping sets, with window functions, DISTINCT.

use super::{Column, Generator, Scope, Ty};

impl Generator<'_> {
    /// A SELECT of these columns, called `c0`, `c1`, ….
    pub(super) fn select(&mut self, types: &[Ty], outer: Option<&Scope<'_>>) -> String {
        let (from, columns) = self.from(outer);
        let scope = Scope { columns: &columns, outer };
        self.inside += 1;
        let filter =
            if self.choices.chance(50) { format!(" WHERE {}", self.predicate(&scope, 2)) } else { String::new() };
        self.inside -= 1;
        let mut tail = format!(" FROM {from}{filter}");
        let mut shown = columns.clone();
        if self.choices.chance(25) {
            let (group_by, grouped) = self.grouped(&scope);
            tail += &group_by;
            shown = grouped;
        }
        if self.choices.chance(12) {
            let calls: Vec<Column> =
                (0..1 + self.choices.pick(2)).map(|_| self.window_call(&Scope { columns: &shown, outer })).collect();
            shown.extend(calls);
        }
        let scope = Scope { columns: &shown, outer };
        let distinct = self.choices.pick(100);
        let distinct_on = distinct >= 96;
        if distinct >= 86 {
            self.inside += 1;
        }
        let items: Vec<String> =
            types.iter().enumerate().map(|(at, ty)| format!("{} AS c{at}", self.select_item(*ty, &scope))).collect();
        if distinct >= 86 {
            self.inside -= 1;
        }
        let items = items.join(", ");
        match distinct {
            _ if distinct_on => {
                let order = self.total_order(types.len()).join(", ");
                // Inside another one, because it has an order of its own.
                let alias = self.fresh("t");
                format!("SELECT * FROM (SELECT DISTINCT ON (c0) {items}{tail} ORDER BY {order}) {alias}")
            }
            86.. => format!("SELECT DISTINCT {items}{tail}"),
            _ => format!("SELECT {items}{tail}"),
        }
    }

    /// An item of the select list, now and then one of several rows.
    fn select_item(&mut self, ty: Ty, scope: &Scope<'_>) -> String {
        match ty != Ty::List && self.choices.chance(2) {
            true => {
                let (first, second) = (self.expr(ty, scope, 1), self.expr(ty, scope, 1));
                format!("unnest(ARRAY[{first}, {second}])")
            }
            false => self.expr(ty, scope, 2),
        }
    }

    /// GROUP BY and HAVING, and what can be selected then.
    fn grouped(&mut self, scope: &Scope<'_>) -> (String, Vec<Column>) {
        let mut keys: Vec<Column> = Vec::new();
        for _ in 0..self.choices.pick(4) {
            let ty = self.any_type();
            let plain: Vec<Column> = scope.columns.iter().filter(|column| column.plain).cloned().collect();
            if plain.is_empty() || self.choices.chance(20) {
                self.inside += 1;
                keys.push(Column { text: self.expr(ty, scope, 1), ty, plain: false });
                self.inside -= 1;
            } else {
                keys.push(plain[self.choices.pick(plain.len())].clone());
            }
        }
        // A constant would be a position.
        keys.retain(|key| key.plain || scope.columns.iter().any(|column| key.text.contains(&column.text)));
        let mut shown = keys.clone();
        for _ in 0..1 + self.choices.pick(3) {
            let ty = self.any_type();
            let call = self.aggregate(ty, scope);
            shown.push(Column { text: call, ty, plain: false });
        }
        let mut sql = String::new();
        if !keys.is_empty() && keys.iter().all(|key| key.plain) && self.choices.chance(25) {
            let asked = &keys[self.choices.pick(keys.len())].text;
            shown.push(Column { text: format!("grouping({asked})"), ty: Ty::Int, plain: false });
            sql += &format!(" GROUP BY {}", self.grouping_sets(&keys));
        } else if !keys.is_empty() {
            let keys: Vec<&str> = keys.iter().map(|key| key.text.as_str()).collect();
            sql += &format!(" GROUP BY {}", keys.join(", "));
        }
        if self.choices.chance(25) {
            self.inside += 1;
            sql += &format!(" HAVING {}", self.predicate(&Scope { columns: &shown, outer: scope.outer }, 1));
            self.inside -= 1;
        }
        (sql, shown)
    }

    fn grouping_sets(&mut self, keys: &[Column]) -> String {
        let keys: Vec<&str> = keys.iter().map(|key| key.text.as_str()).collect();
        let (first, all) = (keys[0], keys.join(", "));
        match self.choices.pick(5) {
            0 => format!("ROLLUP ({all})"),
            1 => format!("CUBE ({all})"),
            2 => format!("GROUPING SETS (({all}), ({first}))"),
            3 => format!("GROUPING SETS (({first}), ROLLUP ({all}), ())"),
            _ => format!("{first}, ROLLUP ({all})"),
        }
    }
}
