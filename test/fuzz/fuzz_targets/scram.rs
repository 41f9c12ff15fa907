//! The target `scram` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{SCRAM, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&SCRAM), |bytes: &[u8]| (SCRAM.run)(bytes));
