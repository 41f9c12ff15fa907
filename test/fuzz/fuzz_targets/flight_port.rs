//! The target `flight_port` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{FLIGHT_PORT, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&FLIGHT_PORT), |bytes: &[u8]| (FLIGHT_PORT.run)(bytes));
