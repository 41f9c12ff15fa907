//! Jinja in the files of a model: loops over cubes, macros, includes of other files of the model.
//!
//! A template sees the other files, and nothing of the machine: no environment, no clock, no other directory. What it may do is
//! bounded by the number of its steps and the length of its text, so that a model cannot hold up who reads it.

use crate::report::{Place, Report};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value, context};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Steps of a template's program. A loop over a hundred members takes some thousands.
const FUEL: u64 = 5_000_000;
/// A nested include or call.
const DEPTH_MAX: usize = 64;

/// What renders the files of one model.
pub struct Jinja {
    environment: Environment<'static>,
}

impl Jinja {
    /// Over the texts of all files, by their names.
    pub fn new(files: &BTreeMap<Arc<str>, String>) -> Jinja {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(DEPTH_MAX);
        // As in Cube: what is printed is JSON, which is YAML, unless it is marked as safe.
        environment.set_auto_escape_callback(|_| AutoEscape::Json);
        environment.add_function("env_var", env_var);
        let files = files.clone();
        environment.set_loader(move |name| Ok(files.get(name).cloned()));
        Jinja { environment }
    }

    /// What a file is after Jinja: itself, if it has none. None, and a problem, if it fails.
    pub fn render(&self, file: &Arc<str>, text: &str, report: &mut Report) -> Option<String> {
        if !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
            return Some(text.to_owned());
        }
        // Nobody asks while a model is read: it is the same for all.
        let nobody = context! { COMPILE_CONTEXT => context! { securityContext => context! {}, security_context => context! {} } };
        let rendered = self.environment.get_template(file).and_then(|template| template.render(nobody));
        rendered
            .map_err(|error| {
                let file = error.name().map_or_else(|| Arc::clone(file), Arc::from);
                let line = error.line().unwrap_or(0) as u64;
                let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
                report.problem(&Place { file, line, column: 1 }, format!("{}{detail}", error.kind()));
            })
            .ok()
    }
}

/// The default of a variable of the environment, which a model does not see.
fn env_var(name: String, default: Option<String>) -> Result<Value, Error> {
    let message = format!("a model does not see the environment: give `{name}` a default");
    default.map(Value::from).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(files: &[(&str, &str)]) -> Result<String, String> {
        let files: BTreeMap<Arc<str>, String> =
            files.iter().map(|(name, text)| (Arc::from(*name), (*text).to_owned())).collect();
        let mut report = Report::default();
        let main = Arc::from("main.yml");
        let text = Jinja::new(&files).render(&main, &files[&main], &mut report);
        text.ok_or_else(|| report.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn loops_and_macros_of_other_files() {
        let text = rendered(&[
            (
                "main.yml",
                "{% from 'm.jinja' import column %}{% for name in ['a', 'b'] %}{{ column(name) }};{% endfor %}",
            ),
            ("m.jinja", "{% macro column(name) %}{CUBE}.{{ name | safe }}{% endmacro %}"),
        ]);
        assert_eq!(text, Ok("{CUBE}.a;{CUBE}.b;".to_owned()));
    }

    #[test]
    fn a_text_without_jinja_stays_as_it_is() {
        assert_eq!(rendered(&[("main.yml", "sql: \"{CUBE}.a\"\n")]), Ok("sql: \"{CUBE}.a\"\n".to_owned()));
    }

    #[test]
    fn what_is_printed_is_yaml() {
        let text = rendered(&[(
            "main.yml",
            "{{ '2024' }} {{ 'a: b' }} {{ none }} {{ 7 }} {{ 'x' | safe }} {{ env_var('S', 'public') }}\
             {% if COMPILE_CONTEXT.securityContext.tenant %}!{% endif %}",
        )]);
        assert_eq!(text, Ok("\"2024\" \"a: b\" null 7 x \"public\"".to_owned()));
    }

    #[test]
    fn what_fails_is_told_with_its_line() {
        let unknown = rendered(&[("main.yml", "a: 1\nb: {{ missing() }}\n")]);
        assert!(
            unknown.as_ref().is_err_and(|error| error.starts_with("main.yml:2:1: unknown function")),
            "{unknown:?}"
        );
        let unseen = rendered(&[("main.yml", "{{ env_var('HOME') }}")]);
        assert!(unseen.is_err_and(|error| error.contains("does not see the environment")));
        let other = rendered(&[("main.yml", "{% include 'other.yml' %}"), ("other.yml", "\n{% for %}")]);
        assert!(other.as_ref().is_err_and(|error| error.starts_with("other.yml:2:1: ")), "{other:?}");
    }

    #[test]
    fn a_template_ends() {
        let text = "{% for a in range(9000) %}{% for b in range(9000) %}x{% endfor %}{% endfor %}";
        let endless = rendered(&[("main.yml", text)]);
        assert!(endless.as_ref().is_err_and(|error| error.contains("fuel")), "{endless:?}");
        let itself = rendered(&[("main.yml", "{% include 'main.yml' %}")]);
        assert!(itself.is_err(), "{itself:?}");
    }
}
