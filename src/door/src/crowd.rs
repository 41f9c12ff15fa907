//! How many requests of one address are under way: one address is not to have all of the server.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Addresses from which on those are looked for that nobody comes from any more.
const KNOWN_MIN: usize = 1024;

/// The addresses from which somebody is connected.
pub struct Crowd {
    turns_max: usize,
    known: Mutex<Known>,
}

/// Addresses, and the requests of each.
struct Known {
    counts: HashMap<IpAddr, Weak<AtomicUsize>>,
    /// How many there may be before those are forgotten that nobody comes from: twice as many as were left, so that this is rare.
    forget_at: usize,
}

/// An address from which somebody is connected, and the requests of which are under way.
pub struct Origin {
    count: Arc<AtomicUsize>,
    turns_max: usize,
}

/// A request that is under way.
pub struct Turn(Arc<AtomicUsize>);

impl Crowd {
    /// Nobody yet; `turns_max` requests of one address at the most, any number if 0.
    pub fn new(turns_max: usize) -> Crowd {
        Crowd { turns_max, known: Mutex::new(Known { counts: HashMap::new(), forget_at: KNOWN_MIN }) }
    }

    /// Somebody who is connected; without a limit if no address is given.
    pub fn origin(&self, address: Option<IpAddr>) -> Origin {
        let turns_max = self.turns_max;
        let Some(address) = address.filter(|_| turns_max > 0).map(|address| address.to_canonical()) else {
            return Origin { count: Arc::default(), turns_max: 0 };
        };
        let mut known = self.known.lock();
        if let Some(count) = known.counts.get(&address).and_then(Weak::upgrade) {
            return Origin { count, turns_max };
        }
        if known.counts.len() >= known.forget_at {
            known.counts.retain(|_, count| count.strong_count() > 0);
            known.forget_at = KNOWN_MIN.max(2 * known.counts.len());
        }
        let count = Arc::default();
        known.counts.insert(address, Arc::downgrade(&count));
        Origin { count, turns_max }
    }
}

impl Origin {
    /// A turn for a request; `None` if there are too many.
    pub fn turn(&self) -> Option<Turn> {
        let turn = self.another();
        (self.turns_max == 0 || self.count.load(Ordering::Relaxed) <= self.turns_max).then_some(turn)
    }

    /// The same for one that has a turn and goes on.
    pub fn another(&self) -> Turn {
        self.count.fetch_add(1, Ordering::Relaxed);
        Turn(Arc::clone(&self.count))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn an_address_has_so_many_turns_whatever_its_connections() {
        let crowd = Crowd::new(2);
        let (one, same) =
            (crowd.origin(address(1)), crowd.origin(Some("::ffff:10.0.0.1".parse().expect("an address"))));
        let other = crowd.origin(address(2));
        let (first, second) = (one.turn().expect("there is one"), same.turn().expect("there are two"));
        assert!(one.turn().is_none() && same.turn().is_none() && other.turn().is_some());
        drop(first);
        let third = same.turn().expect("one is free");
        assert!(one.turn().is_none());
        drop((second, third));
        assert!(one.turn().is_some(), "those that were refused took none");
    }

    #[test]
    fn addresses_that_nobody_comes_from_are_forgotten() {
        let crowd = Crowd::new(1);
        let kept = crowd.origin(address(0));
        for at in 0..100_000_u32 {
            crowd.origin(Some(IpAddr::from((at + (11 << 24)).to_be_bytes())));
        }
        let known = crowd.known.lock().counts.len();
        assert!(known <= KNOWN_MIN, "{known}");
        let turn = kept.turn();
        assert!(turn.is_some() && crowd.origin(address(0)).turn().is_none(), "who is here is known");
    }

    #[test]
    fn without_a_limit_everybody_has_a_turn() {
        let origin = Crowd::new(0).origin(address(1));
        let turns: Vec<_> = (0..10_000).map(|_| origin.turn()).collect();
        assert!(turns.iter().all(Option::is_some));
    }
}
