//! The target `flight_command` for cargo-fuzz.
#![no_main]

use glimpse_fuzz::{FLIGHT_COMMAND, corpus};

libfuzzer_sys::fuzz_target!(init: corpus::prepare(&FLIGHT_COMMAND), |bytes: &[u8]| (FLIGHT_COMMAND.run)(bytes));
