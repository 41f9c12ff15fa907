//! What Cube's clients are told of a cube or a view (`/meta`).

use crate::model::Model;
use crate::model::dimension::{Dimension, DimensionKind, Direction, KeyPart, Origin, Suggestions};
use crate::model::fragment::Path;
use crate::model::measure::{Measure, MeasureKind};
use crate::model::member::Visibility;
use crate::model::offer::{Member, Offer, Offered};
use crate::model::reference::{Reference, Target};
use crate::report::Report;
use crate::security::Security;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Formats by a name, and how d3 writes them; a digit behind the name says how many digits come behind the point.
const NAMED: [(&str, &str, &str); 6] = [
    ("number", ",", "f"),
    ("decimal", ",", "f"),
    ("percent", "", "%"),
    ("currency", "$,", "f"),
    ("abbr", "", "s"),
    ("accounting", "(,", "f"),
];

impl Model {
    /// A cube or a view with the members that whoever asks may see; None if that is none.
    pub fn meta(&self, name: &str, security: &Security) -> Option<Value> {
        let offer = self.offer(name)?;
        let described = offer.described;
        let shown: Vec<&Offered<'_>> =
            offer.members.iter().filter(|member| self.is_shown(&offer, member, security)).collect();
        let of = |pick: fn(&Member<'_>) -> bool| shown.iter().filter(move |member| pick(&member.member));
        let measures = of(|member| matches!(member, Member::Measure(_)));
        let dimensions = of(|member| matches!(member, Member::Dimension(_)));
        let segments = of(|member| matches!(member, Member::Segment(_)));
        let measures: Vec<Value> = measures.map(|member| self.measure(&offer, member)).collect();
        let dimensions: Vec<Value> = dimensions.map(|member| dimension(&offer, member)).collect();
        let segments: Vec<Value> = segments.map(|member| named(&offer, member)).map(Value::Object).collect();
        if shown.is_empty() {
            return None;
        }
        let is_view = self.view(name).is_some();
        let hierarchies = if is_view { Vec::new() } else { offer.root.hierarchies.iter().collect() };
        let hierarchies = hierarchies.into_iter().filter(|known| known.visibility == Visibility::Public).map(|known| {
            let levels = known.levels.iter().filter_map(|(_, path)| Some(format!("{name}.{}", path.0.last()?)));
            json!({"name": format!("{name}.{}", known.name), "title": known.title, "public": true, "levels": levels.collect::<Vec<_>>()})
        });
        let mut meta = Map::new();
        meta.insert("name".to_owned(), json!(name));
        meta.insert("type".to_owned(), json!(if is_view { "view" } else { "cube" }));
        meta.insert("title".to_owned(), json!(described.title));
        meta.insert("isVisible".to_owned(), json!(true));
        meta.insert("public".to_owned(), json!(true));
        put(&mut meta, "description", described.description.as_ref().map(|text| json!(text)));
        put(&mut meta, "connectedComponent", (!is_view).then(|| self.component(name)).map(|number| json!(number)));
        put(&mut meta, "meta", described.meta.clone());
        meta.insert("measures".to_owned(), Value::Array(measures));
        meta.insert("dimensions".to_owned(), Value::Array(dimensions));
        meta.insert("segments".to_owned(), Value::Array(segments));
        meta.insert("hierarchies".to_owned(), Value::Array(hierarchies.collect()));
        meta.insert("folders".to_owned(), json!([]));
        meta.insert("nestedFolders".to_owned(), json!([]));
        Some(Value::Object(meta))
    }

    /// Whether some policy lets a member be seen, of the view and of the member's cube.
    fn is_shown(&self, offer: &Offer<'_>, member: &Offered<'_>, security: &Security) -> bool {
        let cube = member.path.last().and_then(|name| self.cube(name));
        let policies =
            cube.map(|cube| (cube.policies.as_slice(), cube.name(), member.member.described().name.as_str()));
        let own = (offer.policies, offer.described.name.as_str(), member.name.as_str());
        policies.into_iter().chain([own]).all(|(policies, of, name)| {
            policies.is_empty() || policies.iter().any(|policy| policy.allows(security, of, [name].into_iter()))
        })
    }

    /// A measure with all that is told of it; null of anything else.
    pub(super) fn measure(&self, offer: &Offer<'_>, offered: &Offered<'_>) -> Value {
        let Member::Measure(measure) = offered.member else { return Value::Null };
        let mut told = named(offer, offered);
        let kind = measure_type(measure.kind);
        let format = measure.format.as_ref().map(|format| resolved(format, None));
        put(&mut told, "format", format.clone());
        if kind == "number" {
            let description = description_of(format.as_ref(), measure.currency.as_deref());
            told.insert("formatDescription".to_owned(), description);
        }
        put(&mut told, "currency", measure.currency.as_ref().map(|currency| json!(currency)));
        let is_cumulative = measure.rolling_window.is_some();
        told.insert("cumulativeTotal".to_owned(), json!(is_cumulative));
        told.insert("cumulative".to_owned(), json!(is_cumulative));
        told.insert("type".to_owned(), json!(kind));
        told.insert("aggType".to_owned(), json!(aggregate(measure.kind)));
        let (measures, dimensions) = self.drill_members(offer, offered, measure);
        let all: Vec<&String> = measures.iter().chain(&dimensions).collect();
        told.insert("drillMembers".to_owned(), json!(all));
        let grouped = json!({"measures": measures, "dimensions": dimensions});
        told.insert("drillMembersGrouped".to_owned(), grouped);
        Value::Object(told)
    }

    /// Measures and dimensions that a client shows for what is behind a number; of a view those that it has.
    fn drill_members(&self, offer: &Offer<'_>, offered: &Offered<'_>, measure: &Measure) -> (Vec<String>, Vec<String>) {
        let (mut measures, mut dimensions) = (Vec::new(), Vec::new());
        let Some(cube) = offered.path.last().and_then(|name| self.cube(name)) else { return (measures, dimensions) };
        for (place, path) in &measure.drill_members {
            let path: &Path = path;
            let Some(Reference { through, target }) = self.resolve(cube, place, path, &mut Report::default()) else {
                continue;
            };
            let of = through.last().copied().unwrap_or(cube);
            let (name, list) = match target {
                Target::Measure(measure) => (&measure.described.name, &mut measures),
                Target::Dimension(dimension) => (&dimension.described.name, &mut dimensions),
                Target::Cube(_) | Target::TimeBucket(..) | Target::Segment(_) => continue,
            };
            let is_view = self.view(&offer.described.name).is_some();
            let in_view = offer
                .members
                .iter()
                .find(|member| member.path.last() == Some(&of.name()) && member.member.described().name == *name);
            match (is_view, in_view) {
                (true, Some(member)) => list.push(format!("{}.{}", offer.described.name, member.name)),
                (true, None) => {}
                (false, _) => list.push(format!("{}.{name}", of.name())),
            }
        }
        (measures, dimensions)
    }

    /// The number of the cubes that joins connect with one, whichever way they lead.
    fn component(&self, name: &str) -> usize {
        let mut near: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for cube in &self.cubes {
            for join in &cube.joins {
                near.entry(cube.name()).or_default().push(&join.cube);
                near.entry(&join.cube).or_default().push(cube.name());
            }
        }
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, cube) in self.cubes.iter().enumerate() {
            let mut open = vec![cube.name()];
            while let Some(next) = open.pop() {
                if !numbers.contains_key(next) {
                    numbers.insert(next, at + 1);
                    open.extend(near.get(next).into_iter().flatten());
                }
            }
        }
        numbers.get(name).copied().unwrap_or_default()
    }
}

/// What is told of every member.
pub(super) fn named(offer: &Offer<'_>, offered: &Offered<'_>) -> Map<String, Value> {
    let of = offer.described;
    let mut told = Map::new();
    told.insert("name".to_owned(), json!(format!("{}.{}", of.name, offered.name)));
    told.insert("title".to_owned(), json!(format!("{} {}", of.title, offered.title)));
    told.insert("shortTitle".to_owned(), json!(offered.title));
    put(&mut told, "description", offered.description.map(|text| json!(text)));
    put(&mut told, "meta", offered.member.described().meta.clone());
    told.insert("isVisible".to_owned(), json!(true));
    told.insert("public".to_owned(), json!(true));
    let is_view = offer.root.name() != of.name;
    let alias =
        is_view.then(|| Some(format!("{}.{}", offered.path.last()?, offered.member.described().name))).flatten();
    put(&mut told, "aliasMember", alias.map(|alias| json!(alias)));
    told
}

/// A dimension with all that is told of it; null of anything else.
pub(super) fn dimension(offer: &Offer<'_>, offered: &Offered<'_>) -> Value {
    let Member::Dimension(dimension) = offered.member else { return Value::Null };
    let mut told = named(offer, offered);
    let kind = dimension_type(dimension.kind);
    told.insert("type".to_owned(), json!(kind));
    told.insert("suggestFilterValues".to_owned(), json!(dimension.suggestions == Suggestions::Offered));
    let format = dimension.format.as_ref().map(|format| resolved(format, Some(dimension.kind)));
    put(&mut told, "format", format.clone());
    if dimension.kind == DimensionKind::Number {
        let description = description_of(format.as_ref(), dimension.currency.as_deref());
        told.insert("formatDescription".to_owned(), description);
    }
    put(&mut told, "currency", dimension.currency.as_ref().map(|currency| json!(currency)));
    told.insert("primaryKey".to_owned(), json!(dimension.key == KeyPart::Primary));
    put(&mut told, "granularities", (!dimension.granularities.is_empty()).then(|| granularities(dimension)));
    let order = dimension.order.map(|order| match order {
        Direction::Ascending => "asc",
        Direction::Descending => "desc",
    });
    put(&mut told, "order", order.map(|order| json!(order)));
    Value::Object(told)
}

fn granularities(dimension: &Dimension) -> Value {
    let all = dimension.granularities.iter().map(|known| {
        let mut told = Map::new();
        told.insert("name".to_owned(), json!(known.name));
        told.insert("title".to_owned(), json!(known.title));
        told.insert("interval".to_owned(), json!(known.interval.to_string()));
        match &known.origin {
            Origin::At(time) => put(&mut told, "origin", Some(json!(time.format("%Y-%m-%dT%H:%M:%S%.3f").to_string()))),
            Origin::Offset(offset) => put(&mut told, "offset", offset.as_ref().map(|offset| json!(offset.to_string()))),
        }
        Value::Object(told)
    });
    Value::Array(all.collect())
}

fn put(told: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        told.insert(key.to_owned(), value);
    }
}

fn dimension_type(kind: DimensionKind) -> &'static str {
    match kind {
        DimensionKind::Text => "string",
        DimensionKind::Number => "number",
        DimensionKind::Boolean => "boolean",
        DimensionKind::Time => "time",
    }
}

fn measure_type(kind: MeasureKind) -> &'static str {
    match kind {
        MeasureKind::Text => "string",
        MeasureKind::Boolean => "boolean",
        MeasureKind::Time => "time",
        _ => "number",
    }
}

fn aggregate(kind: MeasureKind) -> &'static str {
    match kind {
        MeasureKind::Count => "count",
        MeasureKind::CountDistinct => "countDistinct",
        MeasureKind::CountDistinctApprox => "countDistinctApprox",
        MeasureKind::Sum => "sum",
        MeasureKind::Avg => "avg",
        MeasureKind::Min => "min",
        MeasureKind::Max => "max",
        MeasureKind::Number => "number",
        MeasureKind::Text => "string",
        MeasureKind::Boolean => "boolean",
        MeasureKind::Time => "time",
    }
}

/// A format as clients know it: names that they do not know become what d3 makes of them. `of` is the dimension's type.
fn resolved(format: &Value, of: Option<DimensionKind>) -> Value {
    let Value::String(name) = format else { return format.clone() };
    if let Some(specifier) = specifier(name) {
        return json!({"type": "custom-numeric", "value": specifier, "alias": name});
    }
    let is_standard = match of {
        None => matches!(name.as_str(), "percent" | "currency" | "number"),
        Some(_) => matches!(name.as_str(), "imageUrl" | "currency" | "percent" | "number" | "id"),
    };
    match of {
        _ if is_standard => format.clone(),
        Some(DimensionKind::Time) => json!({"type": "custom-time", "value": name}),
        None | Some(DimensionKind::Number) => json!({"type": "custom-numeric", "value": name}),
        Some(DimensionKind::Text | DimensionKind::Boolean) => format.clone(),
    }
}

/// How d3 writes a format with a name. `number`, `percent` and `currency` alone are the clients' own.
fn specifier(name: &str) -> Option<String> {
    let (base, digits) = match name.split_once('_') {
        Some((base, digits)) => (base, Some(digits.parse::<u8>().ok().filter(|digits| *digits <= 6)?)),
        None if matches!(name, "decimal" | "abbr" | "accounting") => (name, None),
        None if name == "id" => return Some(".0f".to_owned()),
        None => return None,
    };
    let (_, before, behind) = NAMED.iter().find(|(known, ..)| *known == base)?;
    let digits = digits.unwrap_or(2);
    // Nothing is trimmed where there are no digits; of an SI prefix there is always something.
    let trim = if digits == 0 && *behind != "s" { "" } else { "~" };
    Some(format!("{before}.{digits}{trim}{behind}"))
}

fn description_of(format: Option<&Value>, currency: Option<&str>) -> Value {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let custom = format.filter(|format| text(format, "type").as_deref() == Some("custom-numeric"));
    let (name, specifier) = match (custom, format.and_then(Value::as_str)) {
        (Some(custom), _) => {
            let name = text(custom, "alias").unwrap_or_else(|| "custom".to_owned());
            (name, text(custom, "value").unwrap_or_default())
        }
        (None, Some("percent")) => ("percent".to_owned(), ".2~%".to_owned()),
        (None, Some("currency")) => ("currency".to_owned(), "$,.2~f".to_owned()),
        (None, Some("id")) => ("id".to_owned(), ".0f".to_owned()),
        _ => ("number".to_owned(), ",.2~f".to_owned()),
    };
    let mut described = json!({"name": name, "specifier": specifier});
    if let (Some(currency), Value::Object(described)) = (currency, &mut described) {
        described.insert("currency".to_owned(), json!(currency));
    }
    described
}
