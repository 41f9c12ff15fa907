//! The target `shown` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{SHOWN, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&SHOWN), |bytes: &[u8]| (SHOWN.run)(bytes));
