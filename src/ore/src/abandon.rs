//! Futures that are given up: for tests of what `# Cancellation` promises.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future so often, does `between` after each time, and drops it. What it gives, if it came to its end before.
pub fn polled<F: Future>(future: F, times: usize, mut between: impl FnMut()) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        between();
    }
    None
}

/// Gives something up after 0 polls, after 1, and so on, until it comes to its end: `attempt` is told after how many it is to be
/// dropped, and says whether it was done before. How often it was polled then. Panics if there is no end within `polls_max`.
pub fn at_every_poll(polls_max: usize, attempt: impl FnMut(usize) -> bool) -> usize {
    let done = (0..=polls_max).map(attempt).position(|is_done| is_done);
    done.unwrap_or_else(|| panic!("it did not come to its end within {polls_max} polls"))
}

#[cfg(test)]
mod tests {
    use super::{at_every_poll, polled};
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::task::Poll;

    #[test]
    fn a_future_is_given_up_at_every_poll_until_it_ends() {
        let (given_up, betweens) = (Cell::new(0), Cell::new(0));
        let polls = at_every_poll(10, |times| {
            let mut left = 3;
            let future = poll_fn(|_| {
                left -= 1;
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            });
            let done = polled(future, times, || betweens.set(betweens.get() + 1)).is_some();
            given_up.set(given_up.get() + u32::from(!done));
            done
        });
        assert_eq!((polls, given_up.get(), betweens.get()), (3, 3, 1 + 2 + 2));
    }

    #[test]
    #[should_panic(expected = "within 2 polls")]
    fn what_never_ends_is_a_mistake() {
        at_every_poll(2, |times| polled(std::future::pending::<()>(), times, || {}).is_some());
    }
}
