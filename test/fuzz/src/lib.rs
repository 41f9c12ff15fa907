//! Fuzzing: what reads the bytes of strangers, given bytes that are nearly right.
//!
//! A [`Target`] is a function of bytes that panics when something is wrong, with inputs to begin from. [`mutate`] changes
//! those, [`drive`] runs targets on what comes out. There coverage guides nothing: an input follows from target, seed and its
//! number alone, so that any run can be repeated from any place, and a bug that needs luck is looked for by numbers. The programs
//! in `fuzz_targets` are the same targets for cargo-fuzz, which is guided by coverage; they begin with what [`corpus`] writes.
//!
//! # Where to look
//! - [`doors`]: HTTP and Flight: connections, bodies, Arrow, what clients show.
//! - [`wire`]: frames, messages, startup packets, SCRAM, COPY; they are functions of `pgwire` itself.
//! - [`values`]: values of every type in both formats.
//! - [`statements`]: the parser, the lifting of literals, the planner over a small catalog.
//!
//! # Invariants
//! - No target needs a file or a socket.

// The small catalog of the planner's own tests, which knows the crate by this name.
extern crate sql as glimpse_sql;

#[path = "../../../src/sql/tests/support/catalog.rs"]
mod catalog;
pub mod corpus;
pub mod doors;
pub mod drive;
pub mod mutate;
pub mod statements;
pub mod values;
pub mod wire;

use mutate::Grain;

/// One thing to be fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Returns if all is well with these bytes, and panics otherwise.
    pub run: fn(&[u8]),
    /// Inputs that are right.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What inputs are put together from.
    pub grain: Grain,
    /// What is worth putting in.
    pub words: &'static [&'static str],
}

/// The target with this name. Panics if there is none.
pub fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|target| target.name == name).expect("a target with this name")
}

/// All targets.
pub const TARGETS: [Target; 19] = [
    FRAMES,
    BODIES,
    PACKETS,
    SCRAM,
    COPY_TEXT,
    COPY_CSV,
    COPY_BINARY,
    BINARY,
    TEXT,
    PARSE,
    LIFT,
    PLAN,
    ARROW,
    SHOWN,
    HTTP_REQUEST,
    HTTP_LINE,
    HTTP_PORT,
    FLIGHT_COMMAND,
    FLIGHT_PORT,
];

/// A stream of Arrow batches.
pub const ARROW: Target =
    Target { name: "arrow", run: door::fuzz::arrow, seeds: doors::arrow, grain: Grain::Bytes, words: &[] };

/// What the sender of a request shows, and the parameters of its session.
pub const SHOWN: Target = Target {
    name: "shown",
    run: door::fuzz::shown,
    seeds: doors::shown,
    grain: Grain::Bytes,
    words: doors::SHOWN_WORDS,
};

/// Bodies of statements in JSON.
pub const HTTP_REQUEST: Target = Target {
    name: "http_request",
    run: web::fuzz::request,
    seeds: doors::http_requests,
    grain: Grain::Bytes,
    words: doors::JSON_WORDS,
};

/// Lines of JSON objects, and addresses.
pub const HTTP_LINE: Target = Target {
    name: "http_line",
    run: web::fuzz::line,
    seeds: doors::http_lines,
    grain: Grain::Bytes,
    words: doors::JSON_WORDS,
};

/// Connections of the HTTP port.
pub const HTTP_PORT: Target = Target {
    name: "http_port",
    run: web::fuzz::port,
    seeds: doors::http_conversations,
    grain: Grain::Bytes,
    words: doors::HTTP_WORDS,
};

/// Commands, tickets and handles of Flight.
pub const FLIGHT_COMMAND: Target = Target {
    name: "flight_command",
    run: flight::fuzz::command,
    seeds: doors::flight_commands,
    grain: Grain::Bytes,
    words: &[],
};

/// Connections of the Flight port.
pub const FLIGHT_PORT: Target = Target {
    name: "flight_port",
    run: flight::fuzz::port,
    seeds: doors::flight_conversations,
    grain: Grain::Bytes,
    words: &[],
};

/// Frames cut out of a stream.
pub const FRAMES: Target =
    Target { name: "frames", run: pgwire::fuzz::frames, seeds: wire::streams, grain: Grain::Bytes, words: &[] };

/// Bodies of messages.
pub const BODIES: Target =
    Target { name: "bodies", run: pgwire::fuzz::bodies, seeds: wire::bodies, grain: Grain::Bytes, words: &[] };

/// Startup packets.
pub const PACKETS: Target = Target {
    name: "packets",
    run: pgwire::fuzz::packets,
    seeds: wire::packets,
    grain: Grain::Bytes,
    words: wire::PACKET_WORDS,
};

/// What a client says in SCRAM.
pub const SCRAM: Target =
    Target { name: "scram", run: door::fuzz::scram, seeds: wire::scram, grain: Grain::Bytes, words: wire::SCRAM_WORDS };

/// COPY in text.
pub const COPY_TEXT: Target = Target {
    name: "copy_text",
    run: pgwire::fuzz::copy_text,
    seeds: wire::copy_text,
    grain: Grain::Bytes,
    words: wire::COPY_WORDS,
};

/// COPY in csv.
pub const COPY_CSV: Target = Target {
    name: "copy_csv",
    run: pgwire::fuzz::copy_csv,
    seeds: wire::copy_csv,
    grain: Grain::Bytes,
    words: wire::COPY_WORDS,
};

/// COPY in binary.
pub const COPY_BINARY: Target = Target {
    name: "copy_binary",
    run: pgwire::fuzz::copy_binary,
    seeds: wire::copy_binary,
    grain: Grain::Bytes,
    words: &[],
};

/// Values in binary.
pub const BINARY: Target =
    Target { name: "binary", run: values::binary, seeds: values::binary_seeds, grain: Grain::Bytes, words: &[] };

/// Values in text.
pub const TEXT: Target =
    Target { name: "text", run: values::text, seeds: values::text_seeds, grain: Grain::Bytes, words: values::WORDS };

/// The parser.
pub const PARSE: Target = Target {
    name: "parse",
    run: statements::parse,
    seeds: statements::parser_seeds,
    grain: Grain::Words,
    words: statements::WORDS,
};

/// The lifting of literals.
pub const LIFT: Target = Target {
    name: "lift",
    run: statements::lift,
    seeds: statements::parser_seeds,
    grain: Grain::Words,
    words: statements::WORDS,
};

/// The planner.
pub const PLAN: Target = Target {
    name: "plan",
    run: statements::plan,
    seeds: statements::plan_seeds,
    grain: Grain::Words,
    words: statements::WORDS,
};
