//! The target `frames` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("frames"), |bytes: &[u8]| (target("frames").run)(bytes));
