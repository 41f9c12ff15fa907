//! Values as PostgreSQL writes them, and back.

mod golden;
mod properties;
