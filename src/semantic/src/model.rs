//! A model: cubes and views that have been read and that fit together.
//!
//! 1. Jinja makes texts of the files ([`crate::text::jinja`]).
//! 2. Each text is a YAML document, a tree with places ([`crate::text::yaml`]).
//! 3. The trees declare cubes and views ([`declared`]); what extends another is put together ([`extends`]).
//! 4. Each is read ([`cube`], [`view`]): keys, words, pieces of SQL.
//! 5. What they say of each other is checked ([`check`]): references, joins, circles.
//!
//! Each step but the last says all that is wrong and goes on with the rest; the last is for a model of which everything could be read.

pub mod annotation;
mod check;
pub mod cube;
mod declared;
pub mod dimension;
mod extends;
pub mod fragment;
pub mod interval;
pub mod measure;
pub mod member;
mod meta;
pub mod offer;
mod paths;
pub mod policy;
pub mod reference;
pub mod rollup;
mod title;
pub mod view;
pub mod view_members;

use crate::report::Report;
use crate::text::jinja::Jinja;
use crate::text::yaml;
use cube::Cube;
use declared::Declarations;
use std::collections::BTreeMap;
use std::sync::Arc;
use view::View;

/// Cubes and views, each in the order of its files and in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub cubes: Vec<Cube>,
    pub views: Vec<View>,
}

impl Model {
    /// Reads the files of a model: texts by their names, which are paths relative to the model's directory.
    ///
    /// Files that end in `.yml` or `.yaml`, or so and in `.jinja`, declare; others are there to be included. None if the report has
    /// problems.
    pub fn read(files: &BTreeMap<Arc<str>, String>, report: &mut Report) -> Option<Model> {
        let jinja = Jinja::new(files);
        let mut trees = Vec::new();
        for (name, text) in files.iter().filter(|(name, _)| declares(name)) {
            let text = jinja.render(name, text, report);
            trees.extend(text.and_then(|text| yaml::read(name, &text, report)));
        }
        let mut declarations = Declarations::default();
        for tree in &trees {
            declarations.add(tree, report);
        }
        let cubes = extends::put_together(&declarations.cubes, report);
        let views = extends::put_together(&declarations.views, report);
        let model = Model {
            cubes: cubes.iter().filter_map(|node| Cube::read(node, report)).collect(),
            views: views.iter().filter_map(|node| View::read(node, report)).collect(),
        };
        // What could not be read would be missed.
        if report.problems.is_empty() {
            check::check(&model, report);
        }
        report.problems.sort();
        report.problems.is_empty().then_some(model)
    }

    pub fn cube(&self, name: &str) -> Option<&Cube> {
        self.cubes.iter().find(|cube| cube.name() == name)
    }

    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name() == name)
    }
}

/// Whether a file of this name declares cubes and views.
pub fn declares(name: &str) -> bool {
    let name = name.strip_suffix(".jinja").unwrap_or(name);
    name.ends_with(".yml") || name.ends_with(".yaml")
}
