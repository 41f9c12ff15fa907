//! Frames that no client sends, made from a seed.
//!
//! An [`Attack`] is the bytes of one malformed or misplaced frame, together with what has to come before it to be of interest.
//! Bytes alone do not say how they are to be sent: [`Delivery`] does.

use crate::wire::frontend;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Its length: too small for itself, negative, huge, or not that of what follows.
    Length,
    /// Its type.
    Type,
    /// Its body ends early.
    Truncated,
    /// The counts in a Parse or Bind, and the lengths of values.
    Counts,
    /// Strings that are not UTF-8.
    Encoding,
    /// Its place: no such statement, no such portal, no COPY.
    Order,
    /// Rows of a COPY.
    Copy,
    /// What should be a startup packet.
    Startup,
    /// A wish for encryption with something behind it.
    Upgrade,
}

/// All classes, each with its share of a hundred. Those after which the connection is over cost most.
pub const CLASSES: [(Class, u32); 9] = [
    (Class::Length, 5),
    (Class::Type, 5),
    (Class::Truncated, 5),
    (Class::Counts, 5),
    (Class::Encoding, 25),
    (Class::Order, 30),
    (Class::Copy, 15),
    (Class::Startup, 6),
    (Class::Upgrade, 4),
];

/// How an attack is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// To a fresh socket, instead of a startup packet.
    Opening,
    /// In a session, which may end.
    Last,
    /// In a session, which must go on.
    Amid,
}

impl Class {
    /// How attacks of this class are sent.
    pub fn delivery(self) -> Delivery {
        match self {
            Class::Length | Class::Type | Class::Truncated | Class::Counts => Delivery::Last,
            Class::Encoding | Class::Order | Class::Copy => Delivery::Amid,
            Class::Startup | Class::Upgrade => Delivery::Opening,
        }
    }
}

/// The types of messages that a client may send.
const TYPES: &[u8] = b"QPBDECSHXFdcfp";
/// Byte sequences that UTF-8 has not.
const NOT_UTF8: [&[u8]; 7] =
    [b"\xff", b"\xfe\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe4\xbd", b"\x80"];
/// The table that [`Class::Copy`] fills: `(id int4, note text)`.
pub const COPY_TABLE: &str = "hostile_copy";

/// Makes attacks.
#[derive(Debug)]
pub struct Attacker {
    random: StdRng,
}

impl Attacker {
    /// One that makes the same attacks for the same seed.
    pub fn new(seed: u64) -> Attacker {
        Attacker { random: StdRng::seed_from_u64(seed) }
    }

    /// The bytes of an attack: one bad frame, and what it needs around it.
    pub fn attack(&mut self, class: Class) -> Vec<u8> {
        match class {
            Class::Length => self.length(),
            Class::Type => self.unknown_type(),
            Class::Truncated => self.truncated(),
            Class::Counts => self.counts(),
            Class::Encoding => self.encoding(),
            Class::Order => self.order(),
            Class::Copy => self.copy(),
            Class::Startup => self.startup(),
            Class::Upgrade => self.upgrade(),
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.random_range(0..from.len())]
    }

    fn bytes(&mut self, count_max: usize) -> Vec<u8> {
        let count = self.random.random_range(0..=count_max);
        (0..count).map(|_| self.random.random()).collect()
    }

    /// A length from the edges of what 32 bits say.
    fn odd_length(&mut self) -> i32 {
        match self.random.random_range(0..5) {
            0 => self.random.random_range(0..4),
            1 => self.random.random_range(i32::MIN..0),
            2 => self.random.random_range(1 << 30..=i32::MAX),
            3 => self.pick(&[i32::MIN, -1, 0, 3, (1 << 30) - 1, 1 << 30, i32::MAX]),
            _ => self.random.random(),
        }
    }

    fn length(&mut self) -> Vec<u8> {
        let body = self.bytes(40);
        match self.random.random_range(0..4) {
            0 | 1 => {
                let tag = self.pick(TYPES);
                [&[tag], &self.odd_length().to_be_bytes()[..], &body[..]].concat()
            }
            // A message that has no business being so long.
            2 => {
                let (tag, length) = (self.pick(b"SHcXDEC"), self.random.random_range(20_000..1 << 30));
                [&[tag], &i32::to_be_bytes(length)[..], &body[..]].concat()
            }
            // Longer or shorter than what comes: what follows is part of it, or a message of its own.
            _ => {
                let mut frame = frontend::query("SELECT 1");
                let off = self.pick(&[-7_i32, -3, -1, 1, 5, 4000]);
                let length = i32::try_from(frame.len() - 1).expect("a short frame") + off;
                frame[1..5].copy_from_slice(&length.to_be_bytes());
                frame
            }
        }
    }

    fn unknown_type(&mut self) -> Vec<u8> {
        let tag = loop {
            let tag = self.random.random();
            if !TYPES.contains(&tag) {
                break tag;
            }
        };
        let body = self.bytes(40);
        frontend::frame(tag, &body)
    }

    fn well_formed(&mut self) -> Vec<u8> {
        match self.random.random_range(0..7) {
            0 => frontend::query("SELECT 1"),
            1 => frontend::parse("s", "SELECT $1::int4", &[23]),
            2 => frontend::bind("p", "s", &[1], &[Some(b"\0\0\0\x07"), None], &[0, 1]),
            3 => frontend::execute("p", 10),
            4 => frontend::describe(b'S', "s"),
            5 => frontend::close(b'P', "p"),
            _ => frontend::copy_fail("no"),
        }
    }

    fn truncated(&mut self) -> Vec<u8> {
        let whole = self.well_formed();
        // Before the last byte: without it, no message is what its type says.
        let cut = self.random.random_range(5..whole.len());
        match self.random.random_bool(0.8) {
            true => frontend::frame(whole[0], &whole[5..cut]),
            // The header promises what does not come.
            false => whole[..cut].to_vec(),
        }
    }

    fn counts(&mut self) -> Vec<u8> {
        let count = |random: &mut StdRng| u16::to_be_bytes(random.random_range(1..=u16::MAX));
        let (some, one, none) = (count(&mut self.random), [0, 1], [0, 0]);
        let length = match self.random.random_bool(0.5) {
            true => self.random.random_range(i32::MIN..-1),
            false => self.random.random_range(100..=i32::MAX),
        };
        let value = [&length.to_be_bytes()[..], b"1"].concat();
        let body = match self.random.random_range(0..5) {
            // Parameter formats, values, result formats that are not there.
            0 => [b"\0\0", &some[..], &none, &none].concat(),
            1 => [b"\0\0", &none[..], &some, &none].concat(),
            2 => [b"\0\0", &none[..], &none, &some].concat(),
            3 => [b"\0\0", &none[..], &one, &value[..], &none].concat(),
            _ => {
                let parse = [b"\0SELECT $1\0", &some[..], &[0, 0, 0]].concat();
                return frontend::frame(b'P', &parse);
            }
        };
        [frontend::parse("", "SELECT $1::text", &[]), frontend::frame(b'B', &body)].concat()
    }

    fn encoding(&mut self) -> Vec<u8> {
        let bad = self.pick(&NOT_UTF8);
        match self.random.random_range(0..6) {
            0 => frontend::frame(b'Q', &[b"SELECT '", bad, b"'\0"].concat()),
            1 => frontend::frame(b'P', &[bad, b"\0SELECT 1\0\0\0"].concat()),
            2 => frontend::frame(b'P', &[b"\0SELECT '", bad, b"'\0\0\0"].concat()),
            3 => frontend::frame(b'D', &[b"S", bad, b"\0"].concat()),
            4 => frontend::frame(b'E', &[bad, b"\0\0\0\0\0"].concat()),
            _ => {
                let format = self.random.random_range(0..2);
                let bind = frontend::bind("", "", &[format], &[Some(bad)], &[]);
                [frontend::parse("", "SELECT $1::text", &[]), bind].concat()
            }
        }
    }

    fn order(&mut self) -> Vec<u8> {
        match self.random.random_range(0..10) {
            0 => frontend::execute("nosuch", self.random.random()),
            1 => frontend::describe(b'P', "nosuch"),
            2 => frontend::describe(b'S', "nosuch"),
            3 => frontend::bind("p", "nosuch", &[], &[Some(b"1")], &[]),
            4 => frontend::copy_data(&self.bytes(20)),
            5 => [frontend::copy_done(), frontend::copy_fail("there is none")].concat(),
            6 => frontend::frame(b'F', &self.bytes(20)),
            7 => {
                [frontend::parse("", "SELECT $1::int4", &[]), frontend::bind("", "", &[], &[None, None], &[])].concat()
            }
            8 => {
                let formats = [self.random.random_range(2..=u16::MAX)];
                [frontend::parse("", "SELECT $1::int4", &[]), frontend::bind("", "", &formats, &[Some(b"1")], &[])]
                    .concat()
            }
            // Bytes that are no value of their type.
            _ => {
                let oid = self.pick(&[16, 21, 23, 20, 700, 701, 1700, 1082, 1083, 1114, 1184, 1186, 2950, 3802, 1007]);
                let value = self.bytes(30);
                [frontend::parse("", "SELECT $1", &[oid]), frontend::bind("", "", &[1], &[Some(&value[..])], &[1])]
                    .concat()
            }
        }
    }

    fn copy(&mut self) -> Vec<u8> {
        let (options, row): (&str, Vec<u8>) = match self.random.random_range(0..3) {
            0 => ("", b"1\tx\n\\N\t\\x41\\\\\n".to_vec()),
            1 => (" (FORMAT csv, HEADER)", b"id,note\n1,\"a \"\"b\"\"\nc\"\n".to_vec()),
            _ => (
                " (FORMAT binary)",
                b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x01x\xff\xff".to_vec(),
            ),
        };
        let data = match self.random.random_bool(0.2) {
            true => self.bytes(100),
            false => self.damaged(row),
        };
        let copy = format!("COPY {COPY_TABLE} FROM STDIN{options}");
        let cut = self.random.random_range(0..=data.len());
        [
            frontend::query(&copy),
            frontend::copy_data(&data[..cut]),
            frontend::copy_data(&data[cut..]),
            frontend::copy_done(),
        ]
        .concat()
    }

    /// The same bytes, some of them changed, cut off or repeated.
    fn damaged(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..self.random.random_range(1..4) {
            let at = self.random.random_range(0..bytes.len().max(1)).min(bytes.len());
            match self.random.random_range(0..4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.random.random()),
                2 => bytes.extend_from_within(..at),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = self.random.random();
                    }
                }
            }
        }
        bytes
    }

    fn startup(&mut self) -> Vec<u8> {
        let good = frontend::startup(&[("user", "materialize"), ("database", "materialize")]);
        match self.random.random_range(0..8) {
            0 => self.bytes(200),
            1 => frontend::untagged(&self.bytes(200)),
            2 => self.damaged(good),
            3 => good[..self.random.random_range(0..good.len())].to_vec(),
            4 => [&self.odd_length().to_be_bytes()[..], &good[4..]].concat(),
            5 => {
                let version: u32 = self.pick(&[0, 1 << 16, 2 << 16, 4 << 16, 80_877_100, u32::MAX]);
                frontend::untagged(&[&version.to_be_bytes()[..], &good[8..]].concat())
            }
            6 => {
                let mut key = 80_877_102_u32.to_be_bytes().to_vec();
                key.extend(self.bytes(300));
                frontend::untagged(&key)
            }
            _ => {
                let options = format!("-c {}", "x".repeat(self.random.random_range(0..12_000)));
                frontend::startup(&[("user", "materialize"), ("options", &options)])
            }
        }
    }

    fn upgrade(&mut self) -> Vec<u8> {
        let wish = match self.random.random_bool(0.5) {
            true => frontend::ssl_request(),
            false => frontend::gssenc_request(),
        };
        let behind = match self.random.random_range(0..4) {
            0 => frontend::startup(&[("user", "materialize"), ("database", "materialize")]),
            1 => frontend::query("SELECT 1"),
            2 => wish.clone(),
            _ => [&[0x16][..], &self.bytes(60)[..]].concat(),
        };
        [wish, behind].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::{Attacker, CLASSES};

    #[test]
    fn a_seed_gives_the_same_attacks_again() {
        assert_eq!(CLASSES.iter().map(|(_, share)| share).sum::<u32>(), 100);
        for (class, _) in CLASSES {
            let some = |seed| {
                let mut attacker = Attacker::new(seed);
                (0..200).map(|_| attacker.attack(class)).collect::<Vec<_>>()
            };
            assert_eq!(some(7), some(7));
            assert_ne!(some(7), some(8));
        }
    }
}
