//! Inputs that are nearly right: some seed, changed in some places.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What an input is put together from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Bytes: bits flip, integers become extreme.
    Bytes,
    /// Words, as of SQL: they go, come twice, change places, come from other seeds. Now and then bytes.
    Words,
}

/// No input is longer.
const BYTES_MAX: usize = 2048;
/// One change is likely, and each further one as likely as not.
const CHANGES_MAX: usize = 24;
/// Numbers at which something ends.
const EDGES: [u32; 10] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/// Makes the inputs of one target.
#[derive(Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    grain: Grain,
}

impl Mutator {
    /// From these seeds, of which there is at least one.
    pub fn new(seeds: Vec<Vec<u8>>, words: &[&str], grain: Grain) -> Mutator {
        assert!(!seeds.is_empty(), "there is nothing to begin from");
        Mutator { seeds, words: words.iter().map(|word| word.as_bytes().to_vec()).collect(), grain }
    }

    /// The input that has this number.
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        let mut random = StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut input = self.seed(&mut random).to_vec();
        for _ in 0..CHANGES_MAX {
            match self.grain {
                Grain::Words if random.random_ratio(7, 8) => self.change_words(&mut random, &mut input),
                Grain::Bytes | Grain::Words => self.change_bytes(&mut random, &mut input),
            }
            if random.random_bool(0.4) {
                break;
            }
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn seed(&self, random: &mut StdRng) -> &[u8] {
        &self.seeds[random.random_range(0..self.seeds.len())]
    }

    fn change_bytes(&self, random: &mut StdRng, input: &mut Vec<u8>) {
        let at = random.random_range(0..=input.len());
        let end = random.random_range(at..=input.len().min(at + 16));
        match random.random_range(0..9) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => {
                let copy = input[at..end].to_vec();
                insert(input, at, &copy);
            }
            3 => insert(input, at, &[random.random()]),
            4 if !self.words.is_empty() => insert(input, at, &self.words[random.random_range(0..self.words.len())]),
            4 | 5 => overwrite(input, at, &edge(random)),
            6 => {
                let other = self.seed(random);
                let from = random.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            7 => overwrite(input, at, &[1 << random.random_range(0..8)]),
            _ => overwrite(input, at, &[random.random()]),
        }
    }

    fn change_words(&self, random: &mut StdRng, input: &mut Vec<u8>) {
        let words = words(input);
        let at = random.random_range(0..=words.len());
        let place = words.get(at).map_or(input.len(), |word| word.start);
        let word = words.get(at).map(|word| input[word.clone()].to_vec());
        match (random.random_range(0..7), word) {
            (0, Some(word)) => drop(input.drain(place..place + word.len())),
            (1, Some(word)) => insert(input, place, &word),
            (2, Some(word)) => {
                // It changes places with another.
                let other = words[random.random_range(0..words.len())].clone();
                let other_word = input[other.clone()].to_vec();
                let (first, second) = if place <= other.start { (&other_word, &word) } else { (&word, &other_word) };
                let mine = place..place + word.len();
                let (low, high) = if place <= other.start { (mine, other) } else { (other, mine) };
                if low.end <= high.start {
                    drop(input.splice(high, second.iter().copied()));
                    drop(input.splice(low, first.iter().copied()));
                }
            }
            (3, Some(word)) => {
                // A word from elsewhere in its place.
                let other = self.seed(random);
                let others = self::words(other);
                if !others.is_empty() {
                    let from = others[random.random_range(0..others.len())].clone();
                    drop(input.splice(place..place + word.len(), other[from].iter().copied()));
                }
            }
            (4, Some(word)) if !self.words.is_empty() => {
                let new = &self.words[random.random_range(0..self.words.len())];
                drop(input.splice(place..place + word.len(), new.iter().copied()));
            }
            (5, _) => {
                // A stretch of another seed.
                let other = self.seed(random);
                let others = self::words(other);
                if !others.is_empty() {
                    let first = random.random_range(0..others.len());
                    let last = random.random_range(first..others.len());
                    let stretch = [b" ", &other[others[first].start..others[last].end], b" "].concat();
                    insert(input, place, &stretch);
                }
            }
            _ if !self.words.is_empty() => {
                let new = &self.words[random.random_range(0..self.words.len())];
                insert(input, place, &[&new[..], b" "].concat());
            }
            _ => input.truncate(place),
        }
        input.truncate(BYTES_MAX);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if input.len() + bytes.len() <= BYTES_MAX {
        drop(input.splice(at..at, bytes.iter().copied()));
    }
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    for (byte, new) in input.iter_mut().skip(at).zip(bytes) {
        *byte = *new;
    }
}

/// An extreme number of one, two or four bytes, as the protocol writes it.
fn edge(random: &mut StdRng) -> Vec<u8> {
    let bytes = EDGES[random.random_range(0..EDGES.len())].to_be_bytes();
    bytes[[0, 2, 3][random.random_range(0..3)]..].to_vec()
}

/// Where words are: letters and digits together, white space together, anything else by itself.
fn words(input: &[u8]) -> Vec<std::ops::Range<usize>> {
    let kind = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 => 0,
        byte if byte.is_ascii_whitespace() => 1,
        _ => 2,
    };
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, &byte) in input.iter().enumerate() {
        match found.last_mut() {
            Some(word) if kind(byte) != 2 && kind(input[word.start]) == kind(byte) => word.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Grain, Mutator, words};

    #[test]
    fn words_are_what_sql_is_made_of() {
        let text = b"select a1+\"b\" , 'c'";
        let found: Vec<&[u8]> = words(text).into_iter().map(|word| &text[word]).collect();
        let expected = ["select", " ", "a1", "+", "\"", "b", "\"", " ", ",", " ", "'", "c", "'"];
        assert_eq!(found, expected.map(str::as_bytes));
    }

    #[test]
    fn an_input_follows_from_its_number() {
        for grain in [Grain::Bytes, Grain::Words] {
            let seeds = || vec![b"select a from t".to_vec(), Vec::new()];
            let (one, other) = (Mutator::new(seeds(), &["where"], grain), Mutator::new(seeds(), &["where"], grain));
            let mut different = 0;
            for number in 0..2000 {
                let input = one.input(7, number);
                assert_eq!(input, other.input(7, number));
                assert!(input.len() <= BYTES_MAX);
                different += usize::from(input != one.input(8, number));
            }
            assert!(different > 1000, "{different}");
        }
    }
}
