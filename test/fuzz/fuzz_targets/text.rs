//! The target `text` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("text"), |bytes: &[u8]| (target("text").run)(bytes));
