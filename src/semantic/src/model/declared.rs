//! Which cubes and views the files of a model declare, before anything of them is read.

use crate::model::fragment::{is_itself, is_name};
use crate::report::{Place, Report};
use crate::text::fields::{Fields, Text};
use crate::text::yaml::{Node, Value};

/// A cube or a view that a file declares.
#[derive(Debug)]
pub(super) struct Declared<'a> {
    pub(super) name: Text,
    pub(super) extends: Option<Text>,
    pub(super) node: &'a Node,
}

/// What some files declare.
#[derive(Debug, Default)]
pub(super) struct Declarations<'a> {
    pub(super) cubes: Vec<Declared<'a>>,
    pub(super) views: Vec<Declared<'a>>,
}

impl<'a> Declarations<'a> {
    /// Adds what a file declares. Cubes and views share their names.
    pub(super) fn add(&mut self, file: &'a Node, report: &mut Report) {
        // A file of comments alone.
        if matches!(file.value, Value::Null) {
            return;
        }
        let Some(mut fields) = Fields::new(file, "a file of a model", report) else { return };
        for node in fields.list("cubes", report) {
            let declared = self.declared("a cube", node, report);
            self.cubes.extend(declared);
        }
        for node in fields.list("views", report) {
            let declared = self.declared("a view", node, report);
            self.views.extend(declared);
        }
        fields.without_effect(&["view_groups"], "no client here shows views in groups", report);
        fields.end(report);
    }

    fn declared(&self, what: &str, node: &'a Node, report: &mut Report) -> Option<Declared<'a>> {
        let mut fields = Fields::new(node, what, report)?;
        let name = fields.required("name", report)?;
        let extends = fields.text("extends", report);
        if !is_name(&name.text) || is_itself(&name.text) {
            report.problem(&name.place, format!("`{}` is no name: letters, digits and underscores", name.text));
            return None;
        }
        let known = self.cubes.iter().chain(&self.views).find(|known| known.name.text == name.text);
        if let Some(known) = known {
            let other: &Place = &known.name.place;
            report.problem(&name.place, format!("`{}` is declared already, at {other}", name.text));
            return None;
        }
        Some(Declared { name, extends, node })
    }
}
