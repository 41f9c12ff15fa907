//! Who asks: the groups by which policies are chosen, and what policies can read of whoever asks.

use crate::model::fragment::Path;
use crate::model::policy::{Includes, Policy, PolicyValue, RowFilter, RowLevel};
use crate::query::dates::Clock;
use crate::query::error::QueryError;
use crate::query::{Condition, Filter, Name};
use chrono_tz::Tz;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The group that everybody is in.
const EVERYBODY: &str = "*";

/// The security context of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security {
    pub groups: BTreeSet<String>,
    pub claims: Map<String, Value>,
}

impl Policy {
    /// Whether it is for whoever asks, and lets all these members of the cube or view `of` be seen.
    pub fn allows<'n>(&self, security: &Security, of: &str, mut members: impl Iterator<Item = &'n str>) -> bool {
        let is_own = |group: &String| group == EVERYBODY || security.groups.contains(group);
        self.groups.iter().any(is_own) && members.all(|member| self.shows(of, member))
    }

    fn shows(&self, of: &str, member: &str) -> bool {
        let is_it =
            |name: &str| name.strip_prefix(of).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name) == member;
        let is_included = match &self.members.includes {
            Includes::All => true,
            Includes::Named(names) => names.iter().any(|name| is_it(&name.text)),
        };
        is_included && !self.members.excludes.iter().any(|name| is_it(&name.text))
    }

    /// What rows of the cube or view `of` have to be for whoever asks; None if all are theirs.
    pub fn rows(&self, security: &Security, of: &str) -> Result<Option<Filter>, QueryError> {
        match &self.rows {
            RowLevel::All => Ok(None),
            RowLevel::Where(filters) => all(filters, security, of).map(Some),
        }
    }
}

impl RowFilter {
    fn filter(&self, security: &Security, of: &str) -> Result<Filter, QueryError> {
        match self {
            RowFilter::And(filters) => all(filters, security, of),
            RowFilter::Or(filters) => {
                let any = filters.iter().map(|filter| filter.filter(security, of));
                Ok(Filter::Or(any.collect::<Result<_, _>>()?))
            }
            RowFilter::Member { member, operator, values, .. } => {
                let name = Name { cube: of.to_owned(), member: member.0.last().cloned().unwrap_or_default() };
                let mut known = Vec::with_capacity(values.len());
                for value in values {
                    match value {
                        PolicyValue::Null => known.push(None),
                        PolicyValue::Text(text) => known.push(Some(text.clone())),
                        PolicyValue::Claim(path) => match security.claim(path) {
                            Some(claimed) => known.extend(claimed),
                            // What is not known lets nothing pass, whatever the operator.
                            None => return Ok(Filter::Member(name, Condition::Equals(Vec::new()))),
                        },
                    }
                }
                let clock = Clock { now: None, zone: Tz::UTC };
                Ok(Filter::Member(name, Condition::new(*operator, known, clock, &format!("a policy of {of}"))?))
            }
        }
    }
}

fn all(filters: &[RowFilter], security: &Security, of: &str) -> Result<Filter, QueryError> {
    Ok(Filter::And(filters.iter().map(|filter| filter.filter(security, of)).collect::<Result<_, _>>()?))
}

impl Security {
    /// The same of somebody for whom others have vouched that this is so of it: `groups` are more groups, and of what both know what is
    /// vouched for counts. What is in the object `u` counts as well, as in Cube.
    #[must_use]
    pub fn vouched(mut self, mut claims: Map<String, Value>) -> Security {
        if let Some(Value::Object(legacy)) = claims.remove("u") {
            for (name, value) in legacy {
                claims.entry(name).or_insert(value);
            }
        }
        let named = claims.remove("groups").and_then(|groups| match groups {
            Value::Array(groups) => groups.iter().map(|group| group.as_str().map(str::to_owned)).collect(),
            Value::String(group) => Some(vec![group]),
            _ => None,
        });
        self.groups.extend(named.unwrap_or_default());
        self.claims.insert("groups".to_owned(), Value::from_iter(self.groups.iter().cloned()));
        self.claims.extend(claims);
        self
    }

    /// The values of a claim; None if there is none.
    fn claim(&self, path: &Path) -> Option<Vec<Option<String>>> {
        let (first, rest) = path.0.split_first()?;
        let found = rest.iter().try_fold(self.claims.get(first)?, |value, name| value.get(name))?;
        let text = |value: &Value| match value {
            Value::String(text) => Some(Some(text.clone())),
            Value::Bool(_) | Value::Number(_) => Some(Some(value.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        match found {
            Value::Array(items) => items.iter().map(text).collect(),
            one => text(one).map(|text| vec![text]),
        }
        .filter(|values: &Vec<_>| !values.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_vouched_for_is_known() {
        let Value::Object(own) = json!({"role": "app", "groups": ["app"]}) else { panic!("an object") };
        let Value::Object(claims) = json!({"tenant": "a", "role": "x", "groups": ["b"], "u": {"id": 7, "tenant": "c"}})
        else {
            panic!("an object")
        };
        let security = Security { groups: BTreeSet::from(["app".to_owned()]), claims: own }.vouched(claims);
        assert_eq!(security.groups, BTreeSet::from(["app".to_owned(), "b".to_owned()]));
        let expected = json!({"role": "x", "groups": ["app", "b"], "tenant": "a", "id": 7});
        assert_eq!(Value::Object(security.claims), expected);
    }

    #[test]
    fn claims() {
        let claims = json!({"tenant": "a", "of": {"regions": ["x", 2]}, "none": [], "null": null, "deep": [[1]]});
        let Value::Object(claims) = claims else { panic!("an object") };
        let security = Security { groups: BTreeSet::new(), claims };
        let claim = |path: &str| security.claim(&Path::new(path).expect("a path"));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(claim("tenant"), Some(vec![text("a")]));
        assert_eq!(claim("of.regions"), Some(vec![text("x"), text("2")]));
        for missing in ["none", "null", "deep", "of", "tenant.x", "other"] {
            assert_eq!(claim(missing), None, "{missing}");
        }
    }
}
