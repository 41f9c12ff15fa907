//! The target `binary` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("binary"), |bytes: &[u8]| (target("binary").run)(bytes));
