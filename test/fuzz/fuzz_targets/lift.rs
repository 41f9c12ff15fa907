//! The target `lift` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{LIFT, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&LIFT), |bytes: &[u8]| (LIFT.run)(bytes));
