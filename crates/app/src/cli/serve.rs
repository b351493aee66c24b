//! `windlass serve`: runs the server until a signal ends it.

use super::signals::HeardApart;
use super::{ServeArguments, load_config};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::server::{self, Handlers, Server, Setup};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use windlass_config::Config;

pub(super) fn run(arguments: &ServeArguments, handlers: Handlers) -> Result<(), Failure> {
    let config = load_config(&arguments.file, arguments.flags.keys())?;
    let runtime = runtime(&config)?;
    let patience = Duration::from_secs(config.server.shutdown_seconds.get());
    let signals = HeardApart::new(patience)?;
    let setup = Setup {
        config,
        handlers,
        watch: arguments.watch,
    };
    let outcome = runtime.block_on(serve(setup, signals));
    // What a handler still does on a thread for blocking work is not waited for.
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

async fn serve(setup: Setup, mut signals: HeardApart) -> Result<(), Failure> {
    let server = server::start(setup).await?;
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
    if let Some(notice) = server.demo_notice() {
        tracing::warn!("{notice}");
    }
    // The address itself, also where it is every one of the machine: a loopback address would say that nobody else gets in.
    Printer.result(&format!("windlass is ready at http://{address}"));
}
