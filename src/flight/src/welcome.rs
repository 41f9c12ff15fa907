//! Who calls, and in which session.
//!
//! Who: see [`door::shown`]; a token may also be one of ours ([`crate::handshake`]). The headers `database` and `options` (a JSON object of a
//! session's parameters, as behind the `?` of the HTTP door) say where. No page of a browser sends what is answered here.

use crate::handshake::{Claim, Grounds};
use crate::sending::MESSAGE_BYTES_MAX;
use crate::statement::Bound;
use crate::told::{kept_out, malformed, refused, told};
use crate::transaction::{KeptSeat, Transactions};
use adapter::error::AdapterError;
use adapter::seat::Seat;
use adapter::session::Session;
use axum::http::{HeaderMap, HeaderName, header};
use door::entrance::Entrance;
use door::place::{Place, Who, options_of};
use door::shown::{Admitted, Refused, Shown, admit, check_unheard, single};
use door::visitor::Seated;
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

const DATABASE: HeaderName = HeaderName::from_static("database");
const OPTIONS: HeaderName = HeaderName::from_static("options");
/// Bytes of a message that a client takes if it does not say: ADBC's.
const CLIENT_BYTES_MAX: usize = 16 << 20;

/// A connection.
pub(crate) type Visitor = door::visitor::Visitor<Own>;

/// What is kept of a connection.
pub(crate) struct Own {
    pub(crate) shared: Arc<Shared>,
    pub(crate) transactions: Arc<Transactions>,
    /// What is bound to prepared statements.
    pub(crate) bound: Bound,
}

/// What every connection shares.
pub(crate) struct Shared {
    pub(crate) entrance: Arc<Entrance>,
    /// The largest message that is taken from a client.
    pub(crate) request_bytes_max: usize,
    running: Mutex<HashMap<Vec<u8>, Vec<Arc<Running>>>>,
}

/// A statement that runs.
pub(crate) struct Running {
    who: Who,
    /// Of its session.
    backend_key: (u32, u32),
    is_cancelled: AtomicBool,
}

/// As long as this is held, a statement may be cancelled by its number.
pub(crate) struct Cancellable {
    shared: Arc<Shared>,
    number: Vec<u8>,
    running: Arc<Running>,
}

/// The session of a call.
pub(crate) enum Chair {
    /// Its own.
    Own(Seated<Own>),
    /// A transaction's.
    Kept(KeptSeat),
}

impl Chair {
    /// Whether what is done here goes on with other calls.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Chair::Kept(_))
    }

    /// What has come of work that ends with the session. Error 57P01 if that came first.
    pub(crate) async fn until_ended<T>(
        ended: CancellationToken,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        tokio::select! {
            biased;
            () = ended.cancelled() => Err(refused(SqlState::ADMIN_SHUTDOWN, "the session ends")),
            done = work => done,
        }
    }

    /// The call has come to this end. What has failed fails its transaction.
    pub(crate) async fn leave<T>(mut self, done: Result<T, Status>) -> Result<T, Status> {
        if done.is_err()
            && let Some(session) = self.here()
        {
            session.fail_transaction();
        }
        match self {
            Chair::Own(seated) => seated.give_back().await,
            Chair::Kept(kept) => kept.leave(),
        }
        done
    }
}

impl Deref for Chair {
    type Target = Seat;

    fn deref(&self) -> &Seat {
        match self {
            Chair::Own(seated) => seated,
            Chair::Kept(kept) => kept,
        }
    }
}

impl DerefMut for Chair {
    fn deref_mut(&mut self) -> &mut Seat {
        match self {
            Chair::Own(seated) => seated,
            Chair::Kept(kept) => kept,
        }
    }
}

/// Whose call it is.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) visitor: Arc<Visitor>,
    pub(crate) place: Place,
    /// A token that it has shown.
    pub(crate) token: Option<String>,
    /// Whether it was let in by a rule alone.
    pub(crate) is_trusted: bool,
    /// Bytes of a message that it takes.
    pub(crate) message_bytes_max: usize,
}

impl Shared {
    pub(crate) fn new(entrance: Arc<Entrance>, request_bytes_max: usize) -> Shared {
        Shared { entrance, request_bytes_max, running: Mutex::default() }
    }

    /// A statement of whoever this is runs in a session.
    pub(crate) fn run(self: &Arc<Shared>, number: &[u8], who: Who, session: &Session) -> Cancellable {
        let backend_key = session.backend_key();
        let running = Arc::new(Running { who, backend_key, is_cancelled: AtomicBool::new(false) });
        self.running.lock().entry(number.to_vec()).or_default().push(Arc::clone(&running));
        Cancellable { shared: Arc::clone(self), number: number.to_vec(), running }
    }

    /// Asks what runs of a statement of whoever this is to end; whether there is something.
    pub(crate) fn cancel(&self, number: &[u8], who: &Who) -> bool {
        let running = self.running.lock();
        let found = running.get(number).into_iter().flatten().filter(|found| found.who == *who);
        let cancelled = found.map(|found| {
            found.is_cancelled.store(true, Ordering::Relaxed);
            let (id, secret) = found.backend_key;
            self.entrance.client().cancel(id, secret);
        });
        cancelled.count() > 0
    }
}

impl Cancellable {
    /// Error 57014 if it was asked to end: between two statements a session knows nothing of that.
    pub(crate) fn check(&self) -> Result<(), Status> {
        match self.running.is_cancelled.load(Ordering::Relaxed) {
            true => Err(refused(SqlState::QUERY_CANCELED, "canceling statement due to user request")),
            false => Ok(()),
        }
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        let mut running = self.shared.running.lock();
        if let Some(all) = running.get_mut(&self.number) {
            all.retain(|of| !Arc::ptr_eq(of, &self.running));
            if all.is_empty() {
                running.remove(&self.number);
            }
        }
    }
}

/// Whose call it is, by its head. Errors: who is not let in, headers that cannot be read.
pub(crate) async fn caller(visitor: Arc<Visitor>, headers: &HeaderMap) -> Result<Caller, Status> {
    if headers.contains_key(header::ORIGIN) {
        return Err(kept_out(&Refused::Denied("pages may not call this".to_owned())));
    }
    let entrance = Arc::clone(&visitor.own.shared.entrance);
    let (database, options) = options_of(single(headers, OPTIONS).map_err(malformed)?).map_err(malformed)?;
    let database = single(headers, DATABASE).map_err(malformed)?.map(str::to_owned).or(database);
    let shown = match single(headers, header::AUTHORIZATION).map_err(malformed)? {
        Some(value) => Shown::parse(value).map_err(|why| kept_out(&why))?,
        None => Shown::Nothing,
    };
    let token = match &shown {
        Shown::Token(token) => Some(token.clone()),
        _ => None,
    };
    let shown = ours(&visitor, &entrance, shown).map_err(|why| kept_out(&why))?;
    let admitted = admit(&visitor, &entrance, shown, database).await.map_err(|why| kept_out(&why))?;
    // Its client is asked whether it is there, and nothing else ends a transaction that it has begun.
    visitor.stay();
    let Admitted { place, is_trusted } = admitted;
    let bytes_max = single(headers, HeaderName::from_static(MESSAGE_BYTES_MAX)).map_err(malformed)?;
    let message_bytes_max = match bytes_max.map(str::parse) {
        None => CLIENT_BYTES_MAX,
        Some(Ok(bytes)) => bytes,
        Some(Err(_)) => return Err(malformed(format!("the header {MESSAGE_BYTES_MAX} is no number of bytes"))),
    };
    Ok(Caller { visitor, place: Place { options, ..place }, token, is_trusted, message_bytes_max })
}

/// What is shown, where a token of ours is the name that it was given to.
fn ours(visitor: &Visitor, entrance: &Entrance, shown: Shown) -> Result<Shown, Refused> {
    let Shown::Token(token) = &shown else { return Ok(shown) };
    let Some(claim) = Claim::read(token) else { return Ok(shown) };
    check_unheard(&visitor.arrival, "a token")?;
    let holds = match claim.grounds {
        // A rule has to let it in each time.
        Grounds::Trust => claim.holds(""),
        Grounds::Password => {
            let credentials = entrance.client().credentials(&claim.user);
            credentials.refusal.is_none() && claim.holds(&credentials.verifier.to_string())
        }
    };
    match claim.grounds {
        _ if !holds => Err(Refused::Wrong("the token is not valid".to_owned())),
        Grounds::Trust => Ok(Shown::Password(claim.user, String::new())),
        Grounds::Password => Ok(Shown::Known(claim.user)),
    }
}

/// Whose call it is.
pub(crate) fn caller_of<T>(request: &Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| told(&AdapterError::internal("nobody has asked who calls")))
}

impl Caller {
    /// What every connection shares.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.visitor.own.shared
    }

    /// A session for a call: that of a transaction, once nothing else of it is being done, or another one.
    pub(crate) async fn seat(&self, transaction: Option<&[u8]>) -> Result<Chair, Status> {
        match transaction.filter(|id| !id.is_empty()) {
            Some(id) => self.visitor.own.transactions.seat(id, &self.place.who()).await.map(Chair::Kept),
            None => {
                let seated = self.visitor.seat(&self.shared().entrance, self.place.clone());
                seated.map(Chair::Own).map_err(|error| told(&error))
            }
        }
    }
}

/// Refuses what nothing here does, by its name.
pub(crate) fn unsupported(what: &str) -> Status {
    refused(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
}
