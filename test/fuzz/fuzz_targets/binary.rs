//! The target `binary` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{BINARY, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&BINARY), |bytes: &[u8]| (BINARY.run)(bytes));
