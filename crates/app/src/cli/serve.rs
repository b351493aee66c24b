//! `windlass serve`: runs the server until a signal ends it.

use super::signals::HeardApart;
use super::{ServeArguments, expect_folders, expect_network, load};
use crate::access::{KeyChange, KeyFile, NewKey};
use crate::clock;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::server::{self, Handlers, Server, Setup};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use windlass_config::{Config, LogLevel};
use windlass_contract::sensitive::Sensitive;
use windlass_store::SqliteStore;

/// The first key's name, and the user whom it speaks for.
const OPERATOR: &str = "operator";

pub(super) fn run(arguments: &ServeArguments, handlers: Handlers) -> Result<(), Failure> {
    arguments.flags.check()?;
    let keys = [arguments.place.keys(), arguments.flags.keys()].concat();
    expect_folders(&keys)?;
    let config = load(&arguments.file, keys, LogLevel::Info)?.config;
    expect_network()?;
    let runtime = runtime(&config)?;
    let patience = Duration::from_secs(config.server.shutdown_seconds.get());
    let signals = HeardApart::new(patience)?;
    let first_key = match arguments.first_key {
        true => FirstKey::make(&config)?,
        false => None,
    };
    let setup = Setup {
        config,
        handlers,
        watch: arguments.watch,
    };
    let outcome = runtime.block_on(serve(setup, first_key, signals));
    // Blocking work that a handler still does on its thread is not waited for.
    runtime.shutdown_background();
    outcome
}

fn runtime(config: &Config) -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = config.server.worker_threads {
        builder.worker_threads(threads.count());
    }
    builder
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("no threads can be started: {error}")))
}

async fn serve(
    setup: Setup,
    first_key: Option<FirstKey>,
    mut signals: HeardApart,
) -> Result<(), Failure> {
    let started = server::start(setup).await;
    if let Some(key) = first_key {
        match &started {
            Ok(server) => key.say(server.address()),
            Err(_) => key.take_back(),
        }
    }
    let server = started?;
    say_ready(&server);
    signals.come(1).await;
    tracing::info!("shutting down; a second signal ends at once");
    tokio::select! {
        () = server.shut_down() => {
            tracing::info!("ended");
            Ok(())
        }
        () = signals.come(2) => Err(Failure::Failed("ended before all sessions had".to_owned())),
    }
}

fn say_ready(server: &Server) {
    let address = server.address();
    for line in server.models() {
        tracing::info!("{line}");
    }
    // The address itself, also where the server listens on all addresses: a loopback address would suggest that other machines cannot
    // connect.
    Printer.outcome(
        &format!("windlass is ready at http://{address}"),
        &json!({ "ready": format!("http://{address}") }),
    );
}

/// A key that was made for the reader of the first start's output.
struct FirstKey {
    key: Sensitive<String>,
    data: PathBuf,
    /// The name under which the server answers, where the configuration has one.
    host: Option<String>,
}

impl FirstKey {
    /// `None` where there are keys already.
    fn make(config: &Config) -> Result<Option<Self>, Failure> {
        let data: PathBuf = (*config.folders.data).into();
        SqliteStore::make_folder(&data).map_err(Failure::of)?;
        let file = KeyFile::of(&data);
        if !file.read().map_err(Failure::of)?.is_empty() {
            return Ok(None);
        }
        let made = file.change(KeyChange::Add {
            key: NewKey {
                name: OPERATOR.to_owned(),
                roles: BTreeSet::new(),
                user: Some(OPERATOR.to_owned()),
                tenant: None,
            },
            keys_max: config.access.keys_max.count(),
            now_unix_ms: clock::now_unix_ms(),
        });
        let host = config.server.allowed_hosts.first();
        Ok(made.map_err(Failure::of)?.map(|key| Self {
            key,
            data,
            host: host.map(|host| host.as_str().to_owned()),
        }))
    }

    /// The page reads the ticket after `#ticket=`, and a browser sends a fragment to no server.
    fn say(&self, address: SocketAddr) {
        let place = match &self.host {
            Some(host) => format!("https://{host}"),
            None if address.ip().is_unspecified() => format!("http://localhost:{}", address.port()),
            None => format!("http://{address}"),
        };
        let link = format!("{place}/#ticket={}", self.key.expose());
        Printer.outcome(
            &format!("sign in as the operator, with a key that is shown this once: {link}"),
            &json!({ "signIn": link }),
        );
    }

    /// Revokes the key of a start that failed: it was never shown.
    fn take_back(&self) {
        let revoke = KeyChange::Revoke { name: OPERATOR };
        if let Err(error) = KeyFile::of(&self.data).change(revoke) {
            tracing::warn!(%error, "the key that nobody has seen stays; `windlass keys revoke operator` takes it away");
        }
    }
}
