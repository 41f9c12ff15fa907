//! What is left of a store after crashes.

mod durability;
mod torn;
