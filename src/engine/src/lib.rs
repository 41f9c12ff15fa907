//! DataFusion, configured for us: what every dialect of SQL plans onto. Of the dialects it knows names alone: of functions that cannot fail
//! ([`rules::guard`]), of `mz_now()` and of casts of it ([`temporal`]).
//!
//! A dialect's front end binds a statement to a typed `LogicalPlan` whose leaves are relations of the catalog
//! ([`CollectionTable`]). From there on everything is the engine's: the rules of the optimizer ([`rules`]), recursion
//! ([`recursion`]), temporal conditions ([`temporal`]), what a plan reads ([`reads`]), physical planning and execution at the
//! timestamp of one reader ([`runtime`]), within the session's memory ([`memory`]) and effort ([`effort`]). What a statement may
//! know of its session is [`SessionInfo`], and what is wrong with it is [`SqlError`](error::SqlError). Dialects say what the engine
//! has to know of their functions by [`Dialect`]; dataflows are made of the same plans.
//!
//! # Invariants
//! - A plan holds nothing of a session: what differs per statement is read from [`SessionInfo`] at run time.
//! - Every expression in a plan is completely typed: no cast is left for DataFusion to insert.

mod analyze;
mod checked;
mod collection;
mod compact;
mod constants;
pub mod dialect;
pub mod effort;
pub mod error;
mod estimate;
mod faults;
mod fixpoint;
pub mod fold;
mod key_filters;
pub mod memory;
mod morsels;
pub mod names;
pub mod nullable;
mod order;
mod pace;
mod partitions;
mod physical;
pub mod reads;
pub mod recursion;
pub mod rewrite;
pub mod rules;
pub mod runtime;
mod scan;
pub mod session;
mod slices;
mod sorted_joins;
mod sorts;
pub mod temporal;
mod through;
pub mod value;

pub use analyze::{Analysis, PlanFormat};
pub use collection::{CollectionReader, CollectionTable};
pub use dialect::Dialect;
pub use morsels::{Collection, InMemory, Morsel, Morsels, Places, Wanted};
pub use reads::Read;
pub use runtime::Engine;
pub use session::{CatalogFunctions, SessionInfo, Settings};
