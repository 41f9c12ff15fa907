//! A thread that moves bytes for callers that block.
//!
//! The stores that several processes share are asked by asynchronous libraries, from threads of all kinds: the committer's, those of
//! compaction, and tasks that may not wait for another runtime. So the question runs on the caller's thread, whatever that is, and
//! sockets and timers on the one here.

use std::future::Future;

use futures::executor::block_on;
use tokio::runtime::{Builder, Runtime};

use crate::error::PersistError;

/// See the module. The thread ends with it.
#[derive(Debug)]
pub(crate) struct Background {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Background {
    /// Starts the thread.
    pub(crate) fn start(name: &'static str) -> Result<Background, PersistError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build();
        let runtime = runtime.map_err(|error| PersistError::io("starting threads for a shared store", error))?;
        Ok(Background { runtime: Some(runtime) })
    }

    /// Runs something on the caller's thread.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _within = self.runtime.as_ref().expect("it is there until the drop").enter();
        block_on(future)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last one to hold us may be a task, which must not wait for threads.
            runtime.shutdown_background();
        }
    }
}
