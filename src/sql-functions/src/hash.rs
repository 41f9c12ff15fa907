//! `hashtext` and `hashtextextended`: PostgreSQL's hash of texts, which is Jenkins's lookup3. Applications make numbers of names
//! with them, above all for advisory locks.

use super::library::Library;
use super::{int, text};
use repr::Datum;

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    library.add("hashtext(text) int4", |_, a| Ok(Datum::Int4(hash(text(a, 0).as_bytes(), 0) as u32 as i32)));
    library.add("hashtextextended(text, int8) int8", |_, a| {
        Ok(Datum::Int8(hash(text(a, 0).as_bytes(), int(a, 1) as u64) as i64))
    });
}

/// Three words of a key that are mixed together.
struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn add(&mut self, [a, b, c]: [u32; 3]) {
        self.a = self.a.wrapping_add(a);
        self.b = self.b.wrapping_add(b);
        self.c = self.c.wrapping_add(c);
    }

    /// After twelve bytes of the key, or the seed.
    fn mix(&mut self) {
        for rotations in [[4, 6, 8], [16, 19, 4]] {
            let State { a, b, c } = self;
            *a = a.wrapping_sub(*c) ^ c.rotate_left(rotations[0]);
            *c = c.wrapping_add(*b);
            *b = b.wrapping_sub(*a) ^ a.rotate_left(rotations[1]);
            *a = a.wrapping_add(*c);
            *c = c.wrapping_sub(*b) ^ b.rotate_left(rotations[2]);
            *b = b.wrapping_add(*a);
        }
    }

    /// After the last bytes.
    fn finish(&mut self) {
        let State { a, b, c } = self;
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(14));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(11));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(25));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(16));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(4));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(14));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(24));
    }
}

/// The words of up to twelve bytes; what is missing is zero.
fn words(bytes: &[u8]) -> [u32; 3] {
    let mut words = [0; 3];
    for (at, byte) in bytes.iter().enumerate() {
        words[at / 4] |= u32::from(*byte) << (8 * (at % 4));
    }
    words
}

/// The hash of some bytes, of which the hash without a seed is the lower half.
fn hash(key: &[u8], seed: u64) -> u64 {
    let start = 0x9e37_79b9_u32.wrapping_add(key.len() as u32).wrapping_add(3_923_095);
    let mut state = State { a: start, b: start, c: start };
    if seed != 0 {
        state.add([(seed >> 32) as u32, seed as u32, 0]);
        state.mix();
    }
    let mut chunks = key.chunks_exact(12);
    for chunk in &mut chunks {
        state.add(words(chunk));
        state.mix();
    }
    let [a, b, c] = words(chunks.remainder());
    // The lowest byte of the last word is left to the length.
    state.add([a, b, c << 8]);
    state.finish();
    u64::from(state.b) << 32 | u64::from(state.c)
}
