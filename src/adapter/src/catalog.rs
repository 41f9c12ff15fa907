//! How the catalog is changed, and rows with it.

pub(crate) mod create_table_as;
pub(crate) mod ddl;
pub(crate) mod rewrite;
pub(crate) mod temporary;
