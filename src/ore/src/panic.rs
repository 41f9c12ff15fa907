//! What becomes of a panic that was caught: it is logged with the name of what it ended, and goes on from there.

use std::any::Any;
use std::panic::resume_unwind;

/// What a panic takes down with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnPanic {
    EndTask,
    EndProcess,
}

/// Logs a caught panic, then aborts the process or resumes the unwinding.
pub(crate) fn report_panic(kind: &str, name: &str, on_panic: OnPanic, payload: Box<dyn Any + Send>) -> ! {
    log_panic(kind, name, on_panic, payload.as_ref());
    match on_panic {
        OnPanic::EndTask => resume_unwind(payload),
        OnPanic::EndProcess => std::process::abort(),
    }
}

pub(crate) fn log_panic(kind: &str, name: &str, on_panic: OnPanic, payload: &(dyn Any + Send)) {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    tracing::error!(kind, name, message, fatal = (on_panic == OnPanic::EndProcess), "panicked");
}
