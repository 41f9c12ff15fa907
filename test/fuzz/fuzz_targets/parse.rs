//! The target `parse` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{PARSE, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&PARSE), |bytes: &[u8]| (PARSE.run)(bytes));
