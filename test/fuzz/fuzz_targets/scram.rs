//! The target `scram` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("scram"), |bytes: &[u8]| (target("scram").run)(bytes));
