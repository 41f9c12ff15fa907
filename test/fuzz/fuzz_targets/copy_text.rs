//! The target `copy_text` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("copy_text"), |bytes: &[u8]| (target("copy_text").run)(bytes));
