//! The target `lift` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("lift"), |bytes: &[u8]| (target("lift").run)(bytes));
