//! The target `bodies` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("bodies"), |bytes: &[u8]| (target("bodies").run)(bytes));
