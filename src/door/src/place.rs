//! Whose a session is, and where it goes.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whose session it is, and how it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Of this role.
    pub user: String,
    /// In this database.
    pub database: String,
    /// Its parameters.
    pub options: Vec<(String, String)>,
    /// What its token says, a JSON object.
    pub claims: Option<Arc<str>>,
}

/// Who somebody is, whom nobody else may be taken for: several come as one role with tokens that say something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    user: String,
    claims: Option<Arc<str>>,
}

impl Place {
    /// Who goes there.
    pub fn who(&self) -> Who {
        Who { user: self.user.clone(), claims: self.claims.clone() }
    }
}

/// The parameters of a session that stand in a text, a JSON object, and among them the database. Errors: what is none of these.
pub fn options_of(text: Option<&str>) -> Result<(Option<String>, Vec<(String, String)>), String> {
    let Some(text) = text else { return Ok((None, Vec::new())) };
    let options = serde_json::from_str(text).map_err(|error| format!("the options are no JSON object: {error}"))?;
    session_options(options)
}

/// Parameters of a session, and among them the database. Errors: a value that is none.
pub fn session_options(options: BTreeMap<String, Value>) -> Result<(Option<String>, Vec<(String, String)>), String> {
    let (mut database, mut others) = (None, Vec::new());
    for (name, value) in options {
        let value = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return Err(format!("the option \"{name}\" is no string")),
        };
        match name.as_str() {
            "database" => database = Some(value),
            _ => others.push((name, value)),
        }
    }
    Ok((database, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parameters_of_a_session() {
        let options = |text: &str| options_of(Some(text));
        let (database, others) =
            options(r#"{"database":"d","statement_timeout":100,"cluster":"c"}"#).expect("they are");
        let others: Vec<_> = others.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!((database.as_deref(), others), (Some("d"), vec![("cluster", "c"), ("statement_timeout", "100")]));
        assert!(options("[]").is_err());
        assert!(options(r#"{"cluster":null}"#).is_err());
    }
}
