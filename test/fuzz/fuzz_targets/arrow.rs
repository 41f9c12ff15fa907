//! The target `arrow` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{ARROW, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&ARROW), |bytes: &[u8]| (ARROW.run)(bytes));
