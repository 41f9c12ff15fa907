//! The target `frames` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{FRAMES, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&FRAMES), |bytes: &[u8]| (FRAMES.run)(bytes));
