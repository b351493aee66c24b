//! Connections to the database: a few are kept, and lost ones are replaced. Knows no statement's meaning.

use super::error::PostgresError;
use super::schema;
use super::tls::Tls;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls, Statement};
use windlass_contract::sensitive::Sensitive;

/// The most connections at a time. Further searches wait.
const CONNECTIONS_MAX: usize = 8;
/// The time to connect; a database that takes longer counts as down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest silence; a connection whose other end does not even acknowledge counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The settings of every connection: they turn off what no search needs.
const SESSION: &str = "SET jit = off; SET plan_cache_mode = force_custom_plan; SET statement_timeout = '5s'; \
     SET lock_timeout = '2s'; SET idle_in_transaction_session_timeout = '60s'";
const APPLICATION: &str = "windlass";

/// The place of a base.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// `postgres://user:password@host/database`. Unless it contains `sslmode=disable`, every host but this machine is reached over TLS
    /// only.
    pub address: Sensitive<String>,
    /// The schema that holds the tables. It is made if it is missing.
    pub schema: String,
    /// The most vectors that are compared one by one; beyond it an approximate index is used. Searches whose filters leave no more
    /// records than this do not use the index.
    pub exact_max: usize,
    /// A PEM file with the certificates of the authorities that are trusted to identify the server, instead of the public ones.
    pub root_certificate: Option<PathBuf>,
}

impl PostgresSettings {
    /// The schema that holds a base unless another is named.
    pub const SCHEMA: &str = "windlass";
    /// The usual number of vectors that are compared one by one.
    pub const EXACT_MAX: usize = 10_000;

    /// A base in the usual schema.
    pub fn new(address: Sensitive<String>) -> Self {
        Self {
            address,
            schema: Self::SCHEMA.to_owned(),
            exact_max: Self::EXACT_MAX,
            root_certificate: None,
        }
    }

    /// Checks the form of the address, without asking any database.
    pub fn check(&self) -> Result<(), PostgresError> {
        self.config().map(|_| ())
    }

    fn config(&self) -> Result<Config, PostgresError> {
        let is_name = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
                && text.starts_with(|first: char| first.is_ascii_lowercase())
                && text.len() <= 63
        };
        if !is_name(&self.schema) {
            return Err(PostgresError::Schema(self.schema.clone()));
        }
        let address = self.address.expose();
        let is_address = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| address.starts_with(scheme));
        // The parser's error can repeat a part of the address, and with it the password.
        let mut config = Config::from_str(&in_words_of_the_driver(address))
            .ok()
            .filter(|config| is_address && !config.get_hosts().is_empty())
            .ok_or(PostgresError::Address)?;
        if config.get_ssl_mode() == SslMode::Prefer {
            // Optional encryption is useless: an attacker on the way can turn it off.
            config.ssl_mode(match config.get_hosts().iter().all(is_this_machine) {
                true => SslMode::Disable,
                false => SslMode::Require,
            });
        }
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE_MAX)
            .application_name(APPLICATION);
        Ok(config)
    }
}

/// Translates the address. The driver never checks a server's identity; here every server reached over TLS is checked.
fn in_words_of_the_driver(address: &str) -> String {
    let Some((place, settings)) = address.rsplit_once('?') else {
        return address.to_owned();
    };
    let settings: Vec<&str> = settings
        .split('&')
        .map(|setting| match setting {
            "sslmode=verify-full" | "sslmode=verify-ca" => "sslmode=require",
            other => other,
        })
        .collect();
    format!("{place}?{}", settings.join("&"))
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || IpAddr::from_str(name).is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// The connections to one base.
pub(super) struct Pool {
    config: Config,
    tls: Tls,
    schema: String,
    idle: Mutex<Vec<Link>>,
    places: Semaphore,
}

/// A connection, and its prepared statements.
pub(super) struct Link {
    pub(super) client: Client,
    statements: HashMap<String, Statement>,
    /// Whether it has the settings that searches through an index of vectors need.
    is_told: bool,
}

/// A connection in use. It is closed unless it is given back: a request of unknown state may still run on it.
struct Lent<'a> {
    link: Link,
    _place: SemaphorePermit<'a>,
    /// Whether it was idle, and so may have been lost unnoticed.
    was_idle: bool,
}

/// The attempts at one request: a second one on a new connection, if the first connection was lost while idle.
pub(super) struct Attempts<'a> {
    pool: &'a Pool,
    lent: Lent<'a>,
}

impl<'a> Attempts<'a> {
    pub(super) fn link(&mut self) -> &mut Link {
        &mut self.lent.link
    }

    /// The outcome, or the attempt that is still to be made.
    pub(super) async fn settle<T>(
        mut self,
        outcome: Result<T, PostgresError>,
    ) -> Result<Result<T, Self>, PostgresError> {
        match outcome {
            Ok(answer) => {
                self.pool.give_back(self.lent);
                Ok(Ok(answer))
            }
            Err(error) if error.is_connection_lost() && self.lent.was_idle => {
                // If one idle connection was lost, so were the others.
                self.pool.idle().clear();
                self.lent.link = self.pool.connect().await?;
                self.lent.was_idle = false;
                Ok(Err(self))
            }
            Err(error) => Err(error),
        }
    }
}

impl Pool {
    pub(super) fn new(settings: &PostgresSettings) -> Result<Arc<Self>, PostgresError> {
        Ok(Arc::new(Self {
            config: settings.config()?,
            tls: Tls::new(settings.root_certificate.as_deref())?,
            schema: settings.schema.clone(),
            idle: Mutex::default(),
            places: Semaphore::new(CONNECTIONS_MAX),
        }))
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// A connection for one request, kept or new.
    pub(super) async fn attempts(&self) -> Result<Attempts<'_>, PostgresError> {
        let place = self.places.acquire().await;
        let _place = place.expect("the places are never closed");
        let kept = loop {
            match self.idle().pop() {
                Some(link) if link.client.is_closed() => {}
                kept => break kept,
            }
        };
        let was_idle = kept.is_some();
        let link = match kept {
            Some(link) => link,
            None => self.connect().await?,
        };
        let lent = Lent {
            link,
            _place,
            was_idle,
        };
        Ok(Attempts { pool: self, lent })
    }

    fn give_back(&self, lent: Lent<'_>) {
        if !lent.link.client.is_closed() {
            self.idle().push(lent.link);
        }
    }

    pub(super) async fn connect(&self) -> Result<Link, PostgresError> {
        // The address may hold a password, so the error leaves the configuration out.
        let client = match self.config.get_ssl_mode() {
            SslMode::Disable => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(connection);
                client
            }
            _ => {
                let (client, connection) = self.config.connect(self.tls.clone()).await?;
                tokio::spawn(connection);
                client
            }
        };
        client.batch_execute(SESSION).await?;
        let places = schema::search_path(&client, &self.schema).await?;
        client.batch_execute(&places).await?;
        Ok(Link {
            client,
            statements: HashMap::new(),
            is_told: false,
        })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Sends settings that the connection needs only once.
    pub(super) async fn tell_once(&mut self, settings: &str) -> Result<(), PostgresError> {
        if !self.is_told {
            self.client.batch_execute(settings).await?;
            self.is_told = true;
        }
        Ok(())
    }

    /// A statement that is prepared once on each connection.
    pub(super) async fn statement(
        &mut self,
        text: &str,
        types: &[Type],
    ) -> Result<Statement, PostgresError> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(text, types).await?;
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}
