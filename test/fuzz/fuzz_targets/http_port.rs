//! The target `http_port` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{HTTP_PORT, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&HTTP_PORT), |bytes: &[u8]| (HTTP_PORT.run)(bytes));
