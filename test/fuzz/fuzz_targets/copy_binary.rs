//! The target `copy_binary` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{COPY_BINARY, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&COPY_BINARY), |bytes: &[u8]| (COPY_BINARY.run)(bytes));
