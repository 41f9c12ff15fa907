//! The target `http_line` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{HTTP_LINE, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&HTTP_LINE), |bytes: &[u8]| (HTTP_LINE.run)(bytes));
