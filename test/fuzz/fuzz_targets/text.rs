//! The target `text` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{TEXT, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&TEXT), |bytes: &[u8]| (TEXT.run)(bytes));
