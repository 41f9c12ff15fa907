//! The target `packets` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{PACKETS, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&PACKETS), |bytes: &[u8]| (PACKETS.run)(bytes));
