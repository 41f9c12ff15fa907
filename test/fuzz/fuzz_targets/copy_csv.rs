//! The target `copy_csv` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{COPY_CSV, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&COPY_CSV), |bytes: &[u8]| (COPY_CSV.run)(bytes));
