//! Who calls, and in which session.
//!
//! Who: see [`door::shown`]; a token may also be one of ours ([`crate::handshake`]). The headers `database` and `options` (a JSON object of a
//! session's parameters, as behind the `?` of the HTTP door) say where. No page of a browser sends what is answered here.

use crate::handshake;
use crate::sending::MESSAGE_BYTES_MAX;
use crate::statement::Bound;
use crate::told::{kept_out, malformed, refused, told};
use crate::transaction::{Chair, Transactions};
use adapter::error::AdapterError;
use axum::http::{HeaderMap, HeaderName, header};
use door::entrance::Entrance;
use door::shown::{Admitted, Refused, Shown, admit, check_unheard};
use door::visitor::{Place, options_of};
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use std::collections::HashMap;
use std::sync::Arc;
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
    pub(crate) transactions: Transactions,
    /// What is bound to prepared statements.
    pub(crate) bound: Bound,
}

/// What every connection shares.
pub(crate) struct Shared {
    pub(crate) entrance: Arc<Entrance>,
    /// The largest message that is taken from a client.
    pub(crate) request_bytes_max: usize,
    running: Mutex<HashMap<Number, Running>>,
}

/// What a statement is known by while it runs.
pub(crate) type Number = Vec<u8>;

/// A statement that runs.
struct Running {
    user: String,
    /// Of its session.
    backend_key: (u32, u32),
}

/// As long as this is held, a statement may be cancelled by its number.
pub(crate) struct Cancellable {
    shared: Arc<Shared>,
    number: Number,
}

/// Whose call it is.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) visitor: Arc<Visitor>,
    pub(crate) place: Place,
    /// A token that it has shown.
    pub(crate) token: Option<String>,
    /// Bytes of a message that it takes.
    pub(crate) message_bytes_max: usize,
}

impl Shared {
    pub(crate) fn new(entrance: Arc<Entrance>, request_bytes_max: usize) -> Shared {
        Shared { entrance, request_bytes_max, running: Mutex::default() }
    }

    /// A statement runs in a session.
    pub(crate) fn run(self: &Arc<Shared>, number: Number, user: &str, backend_key: (u32, u32)) -> Cancellable {
        self.running.lock().insert(number.clone(), Running { user: user.to_owned(), backend_key });
        Cancellable { shared: Arc::clone(self), number }
    }

    /// Asks a statement of this user to end; whether there is one.
    pub(crate) fn cancel(&self, number: &[u8], user: &str) -> bool {
        let running = self.running.lock();
        let Some(Running { backend_key: (id, secret), .. }) = running.get(number).filter(|found| found.user == user)
        else {
            return false;
        };
        self.entrance.client().cancel(*id, *secret);
        true
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        self.shared.running.lock().remove(&self.number);
    }
}

/// Whose call it is, by its head. Errors: who is not let in, headers that cannot be read.
pub(crate) async fn caller(visitor: Arc<Visitor>, headers: &HeaderMap) -> Result<Caller, Status> {
    if headers.contains_key(header::ORIGIN) {
        return Err(kept_out(&Refused::Denied("pages may not call this".to_owned())));
    }
    let entrance = Arc::clone(&visitor.own.shared.entrance);
    let (database, options) = options_of(single(headers, &OPTIONS)?).map_err(malformed)?;
    let database = single(headers, &DATABASE)?.map(str::to_owned).or(database);
    let shown = match single(headers, &header::AUTHORIZATION)? {
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
    let Admitted { user, database, .. } = admitted;
    let bytes_max = single(headers, &HeaderName::from_static(MESSAGE_BYTES_MAX))?;
    let message_bytes_max = match bytes_max.map(str::parse) {
        None => CLIENT_BYTES_MAX,
        Some(Ok(bytes)) => bytes,
        Some(Err(_)) => return Err(malformed(format!("the header {MESSAGE_BYTES_MAX} is no number of bytes"))),
    };
    Ok(Caller { visitor, place: Place { user, database, options }, token, message_bytes_max })
}

/// What is shown, where a token of ours is the name that it was given to.
fn ours(visitor: &Visitor, entrance: &Entrance, shown: Shown) -> Result<Shown, Refused> {
    let Shown::Token(token) = &shown else { return Ok(shown) };
    let Some(user) = handshake::claimed(token) else { return Ok(shown) };
    check_unheard(&visitor.arrival, "a token")?;
    let credentials = entrance.client().credentials(&user);
    match credentials.refusal.is_none() && handshake::is_of(token, &user, &credentials.verifier.to_string()) {
        true => Ok(Shown::Known(user)),
        false => Err(Refused::Wrong("the token is not valid".to_owned())),
    }
}

/// The value of a header that may come once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Status> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(malformed(format!("the header {name} came more than once")));
    }
    let text = first.map(|value| value.to_str()).transpose();
    text.map_err(|_| malformed(format!("the header {name} is no text")))
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
            Some(id) => self.visitor.own.transactions.seat(id, &self.place.user).await,
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
