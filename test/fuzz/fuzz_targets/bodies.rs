//! The target `bodies` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{BODIES, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&BODIES), |bytes: &[u8]| (BODIES.run)(bytes));
