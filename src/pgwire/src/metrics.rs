//! What connections count. All handles are made once, so that no query looks up a label.

use ore::counter::Counter;
use ore::metrics::{Gauge, Histogram, Registry};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Messages that took longer than this are counted.
const SLOW: Duration = Duration::from_millis(10);

/// Which listener a connection came in through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    External,
    Internal,
}

/// Which request was slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Query,
    Parse,
    Bind,
    Describe,
    Execute,
    Sync,
    CopyIn,
}

/// The names of [`MessageKind`]'s variants, in their order.
const MESSAGE_KINDS: [&str; 7] = ["query", "parse", "bind", "describe", "execute", "sync", "copy_in"];

/// The metrics of the wire server. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    external: SourceMetrics,
    internal: SourceMetrics,
    slow_messages: [Histogram; MESSAGE_KINDS.len()],
}

#[derive(Clone, Debug)]
pub(crate) struct SourceMetrics {
    /// Connections that ended with the client's goodbye.
    pub(crate) success: Counter,
    /// Connections that ended in any other way, or never got a session.
    pub(crate) error: Counter,
    /// Connections that are open now.
    pub(crate) open: Gauge,
}

impl Metrics {
    /// Makes the handles. Once per registry.
    pub fn register(registry: &Registry) -> Metrics {
        let status = registry.counter_vec(
            "mz_connection_status",
            "Connections that ended, by listener and outcome.",
            &["source", "status"],
        );
        let open = registry.gauge_vec("mz_connections_open", "Connections that are open, by listener.", &["source"]);
        let slow = registry.histogram_seconds_vec(
            "mz_slow_message_handling",
            "Time of those client messages that took longer than 10 ms, from when they began to wait.",
            &["message_kind"],
        );
        let source = |name: &str| SourceMetrics {
            success: status.with(&[name, "success"]),
            error: status.with(&[name, "error"]),
            open: open.with(&[name]),
        };
        Metrics {
            external: source("external"),
            internal: source("internal"),
            slow_messages: MESSAGE_KINDS.map(|kind| slow.with(&[kind])),
        }
    }

    pub(crate) fn source(&self, source: Source) -> &SourceMetrics {
        match source {
            Source::External => &self.external,
            Source::Internal => &self.internal,
        }
    }

    /// Does work that may take long but waits for nothing, and counts it if it was slow.
    pub(crate) fn time<T>(&self, kind: MessageKind, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.count_if_slow(kind, started.elapsed());
        result
    }

    fn count_if_slow(&self, kind: MessageKind, elapsed: Duration) {
        if elapsed >= SLOW {
            self.slow_messages[kind as usize].observe_duration(elapsed);
        }
    }

    /// Runs `work`, and counts it if it was slow.
    ///
    /// The clock is not read for work that is done without waiting, which is all that a point read does. The work is
    /// pinned by the caller: a future that takes another by value has room for it twice.
    pub(crate) async fn watch<F: Future + ?Sized>(&self, kind: MessageKind, mut work: Pin<&mut F>) -> F::Output {
        let mut started = None;
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(result) => {
                if let Some(started) = started {
                    self.count_if_slow(kind, Instant::elapsed(&started));
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                started.get_or_insert_with(Instant::now);
                Poll::Pending
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_KINDS, MessageKind, Metrics};
    use ore::metrics::Registry;
    use std::pin::pin;

    #[tokio::test]
    async fn only_slow_messages_are_counted() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry);
        metrics.watch(MessageKind::Query, pin!(async {})).await;
        metrics.watch(MessageKind::Sync, pin!(tokio::time::sleep(super::SLOW))).await;
        let text = registry.gather_text();
        let count = |kind: &str| format!("mz_slow_message_handling_count{{message_kind=\"{kind}\"}}");
        assert!(text.contains(&format!("{} 0", count("query"))), "{text}");
        assert!(text.contains(&format!("{} 1", count("sync"))), "{text}");
        assert_eq!(MESSAGE_KINDS[MessageKind::CopyIn as usize], "copy_in");
    }
}
