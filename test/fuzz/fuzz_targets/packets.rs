//! The target `packets` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("packets"), |bytes: &[u8]| (target("packets").run)(bytes));
