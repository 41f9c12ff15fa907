//! The target `parse` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("parse"), |bytes: &[u8]| (target("parse").run)(bytes));
