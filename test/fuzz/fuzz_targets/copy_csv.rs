//! The target `copy_csv` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{corpus, target};

libfuzzer_sys::fuzz_target!(init: corpus::prepare("copy_csv"), |bytes: &[u8]| (target("copy_csv").run)(bytes));
