//! How often the threads of a busy server look at its sockets. With hundreds of people talking, a frame arrives every few
//! microseconds, and a thread that wakes for each of them pays more for waking than for the frame. One that looks once a tick
//! finds many at a time, and each of them waits a tick at most.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::watch;

/// With fewer voice clients than these a look that waited finds a few frames more, which saves less than the wait is worth: of 200
/// clients a frame cost a tenth less, and waited twice as long (docs/performance.md).
const CONNECTIONS_MIN: usize = 300;

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
        self.set_with(builder, std::thread::sleep);
    }

    fn set_with(
        self: &Arc<Self>,
        builder: &mut Builder,
        pause: impl Fn(Duration) + Send + Sync + 'static,
    ) {
        if self.tick.is_zero() {
            return;
        }
        let (before, after) = (self.clone(), self.clone());
        builder
            .on_thread_park(move || {
                if let Some(looked_at) = LOOKED_AT.take() {
                    pause(before.rest(looked_at.elapsed()));
                }
            })
            .on_thread_unpark(move || {
                if after.is_kept() {
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
        match self.is_kept() {
            true => self.tick.saturating_sub(since),
            false => Duration::ZERO,
        }
    }

    fn is_kept(&self) -> bool {
        let connections = self.connections.get();
        connections.is_some_and(|connections| *connections.borrow() >= CONNECTIONS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::runtime::Builder;
    use tokio::sync::watch;

    const TICK: Duration = Duration::from_micros(500);

    #[test]
    fn a_tick_is_kept_from_three_hundred_clients_on_and_what_was_worked_counts() {
        let (sender, receiver) = watch::channel(0);
        let pace = Pace::new(TICK);
        let micros = |since| u64::try_from(pace.rest(Duration::from_micros(since)).as_micros());
        assert_eq!(micros(0), Ok(0), "nobody is followed yet");
        pace.follow(receiver);
        for (connections, since, rest) in [
            (0, 0, 0),
            (299, 0, 0),
            (300, 0, 500),
            (300, 150, 350),
            (300, 501, 0),
            (100_000, 20_000, 0),
            (100_000, 0, 500),
        ] {
            sender.send_replace(connections);
            assert_eq!(micros(since), Ok(rest), "{connections} clients, {since} µs");
        }
    }

    #[test]
    fn whoever_follows_first_counts() {
        let pace = Pace::new(TICK);
        pace.follow(watch::channel(300).1);
        pace.follow(watch::channel(0).1);
        assert_eq!(pace.rest(Duration::ZERO), TICK);
    }

    #[test]
    fn threads_that_keep_the_pace_lose_no_wake_up() {
        let pace = Pace::new(TICK);
        pace.follow(watch::channel(300).1);
        run(|builder| pace.set(builder));
    }

    #[test]
    fn threads_pause_while_so_many_are_connected_and_not_otherwise() {
        // Longer than all of it takes, so that something is left of each tick.
        let (few, many) = (watch::channel(299).1, watch::channel(300).1);
        for (connections, pauses) in [(few, false), (many, true)] {
            let pace = Pace::new(Duration::from_secs(3_600));
            pace.follow(connections);
            let paused = Arc::new(AtomicBool::new(false));
            let told = paused.clone();
            run(|builder| {
                pace.set_with(builder, move |rest| {
                    told.fetch_or(!rest.is_zero(), Ordering::Relaxed);
                });
            });
            assert_eq!(paused.load(Ordering::Relaxed), pauses);
        }
    }

    /// Twenty clients talk to an echo on two threads that keep a pace.
    fn run(set: impl FnOnce(&mut Builder)) {
        let mut builder = Builder::new_multi_thread();
        set(&mut builder);
        let runtime = builder.worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(async {
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
            let talk = |client| tokio::spawn(talk(address, client));
            for client in (0..20).map(talk).collect::<Vec<_>>() {
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
