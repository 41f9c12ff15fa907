//! Work of a door that would hold up the other connections of a thread.

use adapter::error::AdapterError;
use repr::sqlstate::SqlState;
use std::panic::resume_unwind;

/// Does work on a thread that nobody waits for; `None` if the server stops first.
///
/// # Cancellation
/// The work goes on.
///
/// # Panics
/// If the work does.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => None,
        },
    }
}

/// The same of work that may fail, also because the server stops: 57P01.
pub async fn elsewhere<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<AdapterError> + Send + 'static,
{
    let stops = || AdapterError::new(SqlState::ADMIN_SHUTDOWN, "the server stops");
    apart(work).await.unwrap_or_else(|| Err(stops().into()))
}
