//! `windlass sim`: runs a simulated provider until it is ended.

use super::{SimArguments, SimulatedProvider, SimulatorArguments};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::server::cannot_listen;
use crate::simulator::{Service, Simulator};
use crate::text_simulator::TextSimulator;
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use tokio::sync::watch;
use windlass_sim::runner::Options;
use windlass_sim::script::Script;
use windlass_sim::text::Protocol;

pub(super) fn run(arguments: &SimArguments) -> Result<(), Failure> {
    match &arguments.provider {
        SimulatedProvider::GeminiLive(arguments) => live(arguments, Service::GeminiLive),
        SimulatedProvider::OpenaiRealtime(arguments) => live(arguments, Service::OpenaiRealtime),
        SimulatedProvider::Gemini(arguments) => text(arguments, Protocol::Gemini),
        SimulatedProvider::Openai(arguments) => text(arguments, Protocol::ChatCompletions),
    }
}

fn options(arguments: &SimulatorArguments) -> Result<Options, Failure> {
    let Some(path) = &arguments.script else {
        return Ok(Options::demo());
    };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "the script {name} cannot be read: {error}; name another with --script"
        ))
    })?;
    let script = Script::parse(&name, &text).map_err(Failure::of)?;
    Ok(Options::scripted(script))
}

fn live(arguments: &SimulatorArguments, service: Service) -> Result<(), Failure> {
    run_one(arguments, "ws", async |address, options, over| {
        let simulator = Simulator::bind(address, service, options).await?;
        Ok((simulator.address()?, simulator.serve(over)))
    })
}

fn text(arguments: &SimulatorArguments, protocol: Protocol) -> Result<(), Failure> {
    run_one(arguments, "http", async |address, options, over| {
        let simulator = TextSimulator::bind(address, protocol, options).await?;
        Ok((simulator.address()?, simulator.serve(over)))
    })
}

/// Says where a simulator listens, and serves it for good.
fn run_one<S: Future<Output = ()>>(
    arguments: &SimulatorArguments,
    scheme: &str,
    bind: impl AsyncFnOnce(SocketAddr, Options, watch::Receiver<bool>) -> io::Result<(SocketAddr, S)>,
) -> Result<(), Failure> {
    let options = options(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    runtime.block_on(async {
        let wanted = arguments.listen;
        let (_never_over, over) = watch::channel(false);
        let (address, serving) = bind(wanted, options, over)
            .await
            .map_err(|error| cannot_listen(wanted, &error))?;
        let place = format!("{scheme}://{address}");
        Printer.outcome(
            &format!("listening on {place}"),
            &json!({ "listening": place }),
        );
        serving.await;
        Ok(())
    })
}
