//! The target `http_request` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{HTTP_REQUEST, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&HTTP_REQUEST), |bytes: &[u8]| (HTTP_REQUEST.run)(bytes));
