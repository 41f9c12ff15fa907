//! The target `copy_binary` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("copy_binary"), |bytes: &[u8]| (target("copy_binary").run)(bytes));
