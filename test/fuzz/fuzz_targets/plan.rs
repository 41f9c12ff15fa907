//! The target `plan` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("plan"), |bytes: &[u8]| (target("plan").run)(bytes));
