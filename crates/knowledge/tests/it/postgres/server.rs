//! The PostgreSQL server that the test set-up has started, and bases in schemas of their own there.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio_postgres::config::Host;
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::postgres::{PostgresBase, PostgresError, PostgresSettings, publish};
use windlass_knowledge::{KnowledgeBase, Observer, Options};

/// The address of the server, as `cargo xtask test` gives it.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";
/// Nothing here takes a fraction of that. A longer wait would never end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is a server. Says so if not, unless `CI` is set and one is needed.
pub(crate) fn is_there() -> bool {
    let is_there = std::env::var_os(VARIABLE).is_some();
    let is_needed = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(is_there || !is_needed, "{VARIABLE} names no server");
    if !is_there {
        println!("skipped: {VARIABLE} names no server; `cargo xtask test` starts one");
    }
    is_there
}

pub(crate) fn address() -> String {
    let address = std::env::var_os(VARIABLE).and_then(|address| address.into_string().ok());
    address.expect("a test that asks for the server has asked whether it is there")
}

/// A way to the server and back.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// For those who stand between a base and the server.
pub(crate) async fn connect() -> io::Result<Box<dyn Wire>> {
    let config: tokio_postgres::Config = address().parse().unwrap();
    Ok(match &config.get_hosts()[0] {
        Host::Unix(folder) => Box::new(UnixStream::connect(folder.join(".s.PGSQL.5432")).await?),
        Host::Tcp(host) => {
            let port = config.get_ports().first().copied().unwrap_or(5432);
            Box::new(TcpStream::connect((host.as_str(), port)).await?)
        }
    })
}

/// Does something again and again, until it has come to what it should.
#[expect(
    clippy::disallowed_methods,
    reason = "what never comes is not waited for"
)]
pub(crate) fn until(mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < PATIENCE, "it never comes");
    }
}

/// A schema that no other test uses.
pub(crate) fn settings(address: String) -> PostgresSettings {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    PostgresSettings {
        schema: format!("test_{}_{count}", std::process::id()),
        ..PostgresSettings::new(Sensitive(address))
    }
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    });
    let limited = async { tokio::time::timeout(PATIENCE, future).await };
    runtime.block_on(limited).expect("the database answers")
}

pub(crate) fn write(
    settings: &PostgresSettings,
    base: &KnowledgeBase,
) -> Result<windlass_knowledge::postgres::Published, PostgresError> {
    let mut observer = Observer {
        clock_ms: &|| 0,
        progress: &mut |_| (),
    };
    wait(publish(settings, base, &mut observer))
}

/// One value that a statement answers.
pub(crate) fn ask<T: for<'a> tokio_postgres::types::FromSql<'a>>(
    settings: &PostgresSettings,
    statement: &str,
) -> T {
    wait(async {
        let client = client(settings).await;
        let answer = client.query_one(statement, &[]).await.unwrap();
        answer.get(0)
    })
}

pub(crate) fn execute(settings: &PostgresSettings, statements: &str) {
    wait(async {
        let client = client(settings).await;
        client.batch_execute(statements).await.unwrap();
    });
}

async fn client(settings: &PostgresSettings) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&address(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let path = format!("SET search_path = {}, public", settings.schema);
    client.batch_execute(&path).await.unwrap();
    client
}

/// A base that was written into the database; its schema goes with it.
pub(crate) struct Published {
    pub(crate) settings: PostgresSettings,
    pub(crate) base: PostgresBase,
}

impl Published {
    pub(crate) fn of(base: &KnowledgeBase, options: &Options) -> Self {
        let settings = settings(address());
        write(&settings, base).unwrap();
        Self {
            base: wait(PostgresBase::open(&settings, options)).unwrap(),
            settings,
        }
    }

    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        wait(future)
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop_schema(&self.settings);
        }
    }
}

pub(crate) fn drop_schema(settings: &PostgresSettings) {
    let statement = format!("DROP SCHEMA IF EXISTS {} CASCADE", settings.schema);
    execute(settings, &statement);
}
