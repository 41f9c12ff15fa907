//! What is kept of a connection of HTTP between two requests: who it has proved to be, and sessions, for their plans.

use crate::crowd::{Crowd, Origin, Turn};
use crate::entrance::{Arrival, Entrance, Port};
use crate::place::Place;
use adapter::error::AdapterError;
use adapter::seat::Seat;
use ore::task::{JoinHandle, spawn};
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Sessions that a connection keeps: of HTTP/2, where requests come beside each other, as many as are used at once by most.
const IDLE_MAX: usize = 8;
/// How long a client gets to take the last that we say.
pub const GOODBYE: Duration = Duration::from_secs(1);

/// A connection's place among those of its port, and among what a stop of the server waits for.
pub struct Present {
    pub(crate) _place: OwnedSemaphorePermit,
    pub(crate) _token: TaskTrackerToken,
}

/// A connection, with what its door keeps of it.
pub struct Visitor<T> {
    /// What the door keeps.
    pub own: T,
    /// How it has come in.
    pub arrival: Arrival,
    origin: Origin,
    /// Whose name and password came and were right: the keyed hash of both. See `shown`.
    pub(crate) proved: Mutex<Option<(String, [u8; 32])>>,
    idle: Mutex<Vec<(Place, Seat)>>,
    request_count: AtomicU64,
    stays: AtomicBool,
    /// Told when the connection has to end although its client does not read.
    abandoned: Notify,
    /// A WebSocket goes on having it.
    _present: Present,
}

/// A session that answers a request.
pub struct Seated<T> {
    /// Until it is given back.
    seat: Option<Seat>,
    place: Place,
    visitor: Arc<Visitor<T>>,
}

impl<T> Visitor<T> {
    /// Somebody who has come in.
    pub fn new(own: T, crowd: &Crowd, arrival: Arrival, present: Present) -> Visitor<T> {
        // Operators come in however crowded it is.
        let origin = crowd.origin(arrival.peer.map(|peer| peer.ip()).filter(|_| arrival.port == Port::External));
        Visitor {
            own,
            arrival,
            origin,
            proved: Mutex::default(),
            idle: Mutex::default(),
            request_count: AtomicU64::new(0),
            stays: AtomicBool::new(false),
            abandoned: Notify::new(),
            _present: present,
        }
    }

    /// A turn for a request; `None` if too many from its address are under way.
    pub fn turn(&self) -> Option<Turn> {
        self.origin.turn()
    }

    /// Notes that a request has come, which is being answered as long as this is held.
    pub(crate) fn noted(self: &Arc<Self>) -> Arc<Self> {
        self.request_count.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    /// From now on it may be silent for as long as it likes: it is no stranger, and its client says when asked that it is there.
    pub fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Returns once no request has come and none was being answered for as long as this takes. `holders` hold the visitor and are no
    /// requests.
    pub(crate) async fn rested(self: &Arc<Self>, patience: Duration, holders: usize) {
        loop {
            let before = self.request_count.load(Ordering::Relaxed);
            tokio::time::sleep(patience).await;
            if self.request_count.load(Ordering::Relaxed) == before
                && Arc::strong_count(self) <= holders
                && !self.stays.load(Ordering::Relaxed)
            {
                return;
            }
        }
    }

    /// Returns when the connection is to end although its client does not read.
    pub(crate) async fn abandoned(&self) {
        self.abandoned.notified().await;
    }

    /// Of an answer that goes on: as long as this is held, its request is under way, and the connection ends a moment after the session has,
    /// which who waits for a client to read does not see.
    pub fn watch(self: Arc<Self>, ended: CancellationToken) -> (Turn, JoinHandle<()>)
    where
        T: Send + Sync + 'static,
    {
        let turn = self.origin.another();
        let watch = spawn("session_watch", async move {
            ended.cancelled().await;
            tokio::time::sleep(GOODBYE).await;
            self.abandoned.notify_one();
        });
        (turn, watch)
    }

    /// A session for a user who may have one: one that is as new, or a new one. Errors: those of a connection.
    pub fn seat(self: &Arc<Self>, entrance: &Entrance, place: Place) -> Result<Seated<T>, AdapterError> {
        let kept = {
            let mut idle = self.idle.lock();
            let at = idle.iter().position(|(kept, _)| *kept == place);
            at.map(|at| idle.swap_remove(at).1)
        };
        let seat = match kept.filter(|seat| !seat.shutdown().is_cancelled() && seat.is_current()) {
            Some(seat) => seat,
            None => Seat::new(entrance.connect(&self.arrival, place.clone())?),
        };
        Ok(Seated { seat: Some(seat), place, visitor: Arc::clone(self) })
    }

    /// Ends the sessions that are kept.
    pub(crate) async fn leave(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        for (_, seat) in idle {
            seat.close().await;
        }
    }
}

impl<T> Seated<T> {
    /// The session, which is kept for longer than a request.
    pub fn take(mut self) -> Seat {
        self.seat.take().expect("it is given back once")
    }

    /// Keeps the session for the next request, if that cannot tell it from a new one; ends it otherwise.
    pub async fn give_back(mut self) {
        let Some(mut seat) = self.seat.take() else { return };
        let is_as_new = seat.here().is_some_and(|session| {
            let _nobody_reads = (session.take_notices(), session.take_parameter_changes());
            session.is_as_new()
        });
        let displaced = {
            let mut idle = self.visitor.idle.lock();
            if is_as_new {
                let oldest = (idle.len() >= IDLE_MAX).then(|| idle.remove(0).1);
                idle.push((std::mem::take(&mut self.place), seat));
                oldest
            } else {
                Some(seat)
            }
        };
        if let Some(seat) = displaced {
            // In room of its own: who follows something for long has none for that.
            Box::pin(seat.close()).await;
        }
    }
}

impl<T> Drop for Seated<T> {
    /// A request that was given up: what its session was at ends with it.
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            spawn("session_end", seat.close()).detach();
        }
    }
}

impl<T> Deref for Seated<T> {
    type Target = Seat;

    fn deref(&self) -> &Seat {
        self.seat.as_ref().expect("it is given back once")
    }
}

impl<T> DerefMut for Seated<T> {
    fn deref_mut(&mut self) -> &mut Seat {
        self.seat.as_mut().expect("it is given back once")
    }
}
