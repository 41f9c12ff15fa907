//! A network between two parties, which can delay what passes, and cut what is connected.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Everything that arrives at `addr` goes on to another address.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    to: SocketAddr,
    delay_ms: AtomicU64,
    is_cut: AtomicBool,
    ends: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Begins to listen on a free port.
    pub fn start(to: SocketAddr) -> std::io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        let state = Arc::new(State {
            to,
            delay_ms: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let of_thread = Arc::clone(&state);
        std::thread::spawn(move || accept(&listener, &of_thread));
        Ok(Proxy { addr, state })
    }

    /// What passes from now on takes so much longer, each way.
    pub fn delay(&self, delay: Duration) {
        self.state.delay_ms.store(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Ends all connections, in the middle of whatever they carry, and refuses others.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
        for stream in self.state.streams.lock().expect("nobody panics here").drain(..) {
            // It may have ended by itself.
            let _ended = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets everything pass again.
    pub fn heal(&self) {
        self.delay(Duration::ZERO);
        self.state.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
        self.cut();
        // Lets the thread that listens look.
        let _woken = TcpStream::connect(self.addr);
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming().flatten() {
        if state.ends.load(Ordering::SeqCst) {
            return;
        }
        if state.is_cut.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(server) = TcpStream::connect(state.to) else { continue };
        let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { continue };
        {
            let mut streams = state.streams.lock().expect("nobody panics here");
            streams.extend([client.try_clone(), server.try_clone()].into_iter().flatten());
        }
        for (from, to) in [(from_client, server), (from_server, client)] {
            let state = Arc::clone(state);
            // Without Nagle's algorithm, as the parties themselves.
            let _as_it_is = to.set_nodelay(true);
            std::thread::spawn(move || carry(from, to, &state));
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        let delay_ms = state.delay_ms.load(Ordering::SeqCst);
        if delay_ms > 0 {
            std::thread::sleep(Duration::from_millis(delay_ms));
        }
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other direction ends as well.
    let _ended = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
