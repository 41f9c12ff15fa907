//! What Cube's clients are told of the members of a query, beside its rows.

use crate::model::Model;
use crate::model::interval::Unit;
use crate::model::meta::{dimension, named};
use crate::model::offer::{Offer, Offered};
use crate::query::{Name, Query, TimeDimension};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is told of a member here, of all that `/meta` tells.
const TOLD: [&str; 7] = ["title", "shortTitle", "description", "type", "format", "currency", "meta"];

/// Cubes and views of a query.
struct Offers<'m> {
    model: &'m Model,
    known: BTreeMap<&'m str, Offer<'m>>,
}

impl Model {
    /// The members of a query by kind and by the name that their column has. What is not there is left out.
    pub fn annotation(&self, query: &Query) -> Value {
        let names = query.names().map(|name| name.cube.as_str()).collect::<BTreeSet<_>>();
        let known =
            names.into_iter().filter_map(|name| self.offer(name)).map(|offer| (offer.described.name.as_str(), offer));
        let offers = Offers { model: self, known: known.collect() };
        let all = |names: &[Name], told: &dyn Fn(&Name) -> Option<Map<String, Value>>| {
            let told = names.iter().filter_map(|name| Some((name.to_string(), Value::Object(told(name)?))));
            Value::Object(told.collect())
        };
        let mut times = Map::new();
        for of in &query.time_dimensions {
            let (Some(granularity), Some(mut told)) = (&of.granularity, offers.dimension(&of.dimension)) else {
                continue;
            };
            let granularities = told.shift_remove("granularities");
            let mut bucket = told.clone();
            bucket.insert("granularity".to_owned(), described(granularity, granularities.as_ref()));
            times.insert(of.column(), Value::Object(bucket));
            if is_doubled(query, of) {
                times.insert(of.dimension.to_string(), Value::Object(told));
            }
        }
        json!({
            "measures": all(&query.measures, &|name| offers.measure(name)),
            "dimensions": all(&query.dimensions, &|name| offers.dimension(name)),
            "segments": all(&query.segments, &|name| offers.segment(name)),
            "timeDimensions": times,
        })
    }
}

/// Whether a bucket's time is told by the name of its dimension as well, as Cube did before buckets had names. Of several buckets of a
/// dimension it is the smallest.
pub fn is_doubled(query: &Query, of: &TimeDimension) -> bool {
    let size =
        |of: &TimeDimension| of.granularity.as_deref().map(|name| (Unit::named(name).is_none(), Unit::named(name)));
    let buckets =
        query.time_dimensions.iter().filter(|other| other.granularity.is_some() && other.dimension == of.dimension);
    let smallest = buckets.min_by_key(|other| size(other));
    !query.dimensions.contains(&of.dimension) && smallest.is_some_and(|smallest| smallest.granularity == of.granularity)
}

/// A granularity: one of the dimension's own, or a unit.
fn described(granularity: &str, own: Option<&Value>) -> Value {
    let is_it = |known: &&Value| known.get("name").and_then(Value::as_str) == Some(granularity);
    let own = own.and_then(Value::as_array).and_then(|own| own.iter().find(is_it));
    own.cloned()
        .unwrap_or_else(|| json!({"name": granularity, "title": granularity, "interval": format!("1 {granularity}")}))
}

impl<'m> Offers<'m> {
    fn of(&self, name: &Name) -> Option<(&Offer<'m>, &Offered<'m>)> {
        let offer = self.known.get(name.cube.as_str())?;
        Some((offer, offer.member(&name.member)?))
    }

    fn measure(&self, name: &Name) -> Option<Map<String, Value>> {
        let (offer, offered) = self.of(name)?;
        picked(self.model.measure(offer, offered), &["drillMembers", "drillMembersGrouped"])
    }

    fn dimension(&self, name: &Name) -> Option<Map<String, Value>> {
        let (offer, offered) = self.of(name)?;
        picked(dimension(offer, offered), &["granularities"])
    }

    fn segment(&self, name: &Name) -> Option<Map<String, Value>> {
        let (offer, offered) = self.of(name)?;
        picked(Value::Object(named(offer, offered)), &[])
    }
}

fn picked(told: Value, beside: &[&str]) -> Option<Map<String, Value>> {
    let Value::Object(told) = told else { return None };
    Some(told.into_iter().filter(|(key, _)| TOLD.contains(&key.as_str()) || beside.contains(&key.as_str())).collect())
}
