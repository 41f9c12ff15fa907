//! Each model holds as the product has it, and each mistake is found. See `glimpse_model`.

mod publication {
    use glimpse_model::publication::{Mistake, check};

    #[test]
    fn a_read_finds_every_write_that_was_acknowledged_before() {
        check(Mistake::None);
    }

    #[test]
    #[should_panic(expected = "finds nothing in a snapshot")]
    fn a_word_raised_before_the_clock_is_found() {
        check(Mistake::RaisedBeforeClock);
    }

    #[test]
    #[should_panic(expected = "the oracle says")]
    fn an_early_acknowledgement_is_found() {
        check(Mistake::AcknowledgedBeforeRaised);
    }

    #[test]
    #[should_panic(expected = "finds nothing in a snapshot")]
    fn a_clock_seen_before_the_time_is_found() {
        check(Mistake::ClockSeenBeforeTime);
    }
}

mod lease {
    use glimpse_model::lease::{Mistake, Successor, check};

    #[test]
    fn nobody_is_told_a_time_that_a_patient_successor_has_outdated() {
        check(Successor::Patient, Mistake::None);
    }

    #[test]
    fn nobody_is_told_a_time_that_a_take_over_has_outdated() {
        check(Successor::TakesOver, Mistake::None);
    }

    #[test]
    #[should_panic(expected = "the owner says")]
    fn a_beat_trusted_from_its_answer_on_is_found() {
        check(Successor::TakesOver, Mistake::TrustedFromAnswer);
    }

    #[test]
    #[should_panic(expected = "the owner says")]
    fn a_beat_of_a_former_epoch_is_found() {
        check(Successor::TakesOver, Mistake::BeatOfAnyEpoch);
    }

    #[test]
    #[should_panic(expected = "the owner says")]
    fn a_take_over_that_does_not_wait_is_found() {
        check(Successor::TakesOver, Mistake::NotWaitedFor);
    }

    #[test]
    #[should_panic(expected = "the owner says")]
    fn a_successor_without_patience_is_found() {
        check(Successor::Patient, Mistake::NotWaitedFor);
    }

    #[test]
    #[should_panic(expected = "the owner says")]
    fn an_owner_that_ignores_its_lease_is_found() {
        check(Successor::Patient, Mistake::LeaseIgnored);
    }
}

mod tickets {
    use glimpse_model::tickets::{Mistake, check};

    const SEED: u64 = 20_261_122;
    const ORDERS: usize = 20_000;

    #[test]
    fn an_answer_is_from_a_call_that_began_after_the_question() {
        check(Mistake::None, SEED, ORDERS);
    }

    #[test]
    #[should_panic(expected = "was acknowledged, told")]
    fn a_call_that_begins_too_early_is_found() {
        check(Mistake::CalledBeforeNoted, SEED, ORDERS);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_worker_woken_too_early_is_found() {
        check(Mistake::WokenBeforeTicket, SEED, ORDERS);
    }
}
