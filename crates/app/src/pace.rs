//! How often the threads of a busy server look at its sockets. With hundreds of people talking, a frame arrives every few
//! microseconds, and a thread that wakes for each of them pays more for waking than for the frame. One that looks once a tick
//! finds many at a time, and each of them waits a tick at most.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::watch;

/// With fewer voice clients than these a wake-up finds a frame or two, however long it waited.
const CONNECTIONS_MIN: usize = 100;
/// With so many and more the tick has its full length; with fewer it is shorter in proportion, as so is what it saves.
const CONNECTIONS_OF_FULL_TICK: usize = 500;

thread_local! {
    /// When this thread last began to work on what it had found.
    static LOOKED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Shared with the threads from before there is a server.
pub(crate) struct Pace {
    tick: Duration,
    connections: OnceLock<watch::Receiver<usize>>,
}

impl Pace {
    /// Zero for looking as soon as anything arrives.
    pub(crate) fn new(tick: Duration) -> Arc<Self> {
        Arc::new(Self {
            tick,
            connections: OnceLock::new(),
        })
    }

    /// Makes every worker thread keep the pace before it goes to sleep for lack of work.
    pub(crate) fn set(self: &Arc<Self>, builder: &mut Builder) {
        if self.tick.is_zero() {
            return;
        }
        let (before, after) = (self.clone(), self.clone());
        builder
            .on_thread_park(move || {
                if let Some(looked_at) = LOOKED_AT.take() {
                    std::thread::sleep(before.rest(looked_at.elapsed()));
                }
            })
            .on_thread_unpark(move || {
                if !after.tick_now().is_zero() {
                    LOOKED_AT.set(Some(Instant::now()));
                }
            });
    }

    /// From now on so many voice clients are connected. A runtime has one server, so that the first call counts.
    pub(crate) fn follow(&self, connections: watch::Receiver<usize>) {
        self.connections.get_or_init(|| connections);
    }

    /// What is left of the tick for a thread that looked so long ago.
    fn rest(&self, since: Duration) -> Duration {
        self.tick_now().saturating_sub(since)
    }

    fn tick_now(&self) -> Duration {
        let connections = self
            .connections
            .get()
            .map_or(0, |connections| *connections.borrow());
        match connections {
            0..CONNECTIONS_MIN => Duration::ZERO,
            few @ CONNECTIONS_MIN..CONNECTIONS_OF_FULL_TICK => self
                .tick
                .mul_f64(few as f64 / CONNECTIONS_OF_FULL_TICK as f64),
            CONNECTIONS_OF_FULL_TICK.. => self.tick,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::runtime::Builder;
    use tokio::sync::watch;

    const TICK: Duration = Duration::from_micros(500);

    #[test]
    fn the_tick_grows_with_the_clients_and_what_was_worked_counts() {
        let (sender, receiver) = watch::channel(0);
        let pace = Pace::new(TICK);
        let micros = |since| u64::try_from(pace.rest(Duration::from_micros(since)).as_micros());
        assert_eq!(micros(0), Ok(0), "nobody is followed yet");
        pace.follow(receiver);
        for (connections, since, rest) in [
            (0, 0, 0),
            (99, 0, 0),
            (100, 0, 100),
            (200, 0, 200),
            (200, 150, 50),
            (200, 201, 0),
            (499, 0, 499),
            (500, 0, 500),
            (500, 20_000, 0),
            (100_000, 0, 500),
        ] {
            sender.send_replace(connections);
            assert_eq!(micros(since), Ok(rest), "{connections} clients, {since} µs");
        }
    }

    #[test]
    fn whoever_follows_first_counts() {
        let pace = Pace::new(TICK);
        pace.follow(watch::channel(500).1);
        pace.follow(watch::channel(0).1);
        assert_eq!(pace.rest(Duration::ZERO), TICK);
    }

    #[test]
    fn threads_that_keep_the_pace_lose_no_wake_up() {
        let pace = Pace::new(TICK);
        pace.follow(watch::channel(500).1);
        let mut builder = Builder::new_multi_thread();
        pace.set(&mut builder);
        let runtime = builder
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let echo = tokio::spawn(async move {
                for _ in 0..20 {
                    let (mut stream, _) = listener.accept().await.expect("a client");
                    tokio::spawn(async move {
                        let (mut from, mut to) = stream.split();
                        tokio::io::copy(&mut from, &mut to).await
                    });
                }
            });
            let clients: Vec<_> = (0..20u8)
                .map(|client| tokio::spawn(talk(address, client)))
                .collect();
            for client in clients {
                assert_eq!(client.await.expect("a client"), 50);
            }
            echo.await.expect("the echo");
        });
    }

    /// Each word waits for the echo of the one before, over a socket, through a timer and a thread for blocking work.
    async fn talk(address: std::net::SocketAddr, client: u8) -> usize {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let mut heard = 0;
        for word in 0..50 {
            stream.write_all(&[client, word]).await.expect("written");
            let mut echo = [0; 2];
            stream.read_exact(&mut echo).await.expect("read");
            assert_eq!(echo, [client, word]);
            tokio::time::sleep(Duration::from_micros(1)).await;
            heard += tokio::task::spawn_blocking(|| 1).await.expect("one");
        }
        heard
    }
}
