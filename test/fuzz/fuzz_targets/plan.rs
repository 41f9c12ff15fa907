//! The target `plan` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{PLAN, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&PLAN), |bytes: &[u8]| (PLAN.run)(bytes));
