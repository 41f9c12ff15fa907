//! The target `copy_text` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{COPY_TEXT, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&COPY_TEXT), |bytes: &[u8]| (COPY_TEXT.run)(bytes));
