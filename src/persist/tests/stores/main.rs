//! What is left of a store after crashes.

mod columns;
mod durability;
mod torn;
