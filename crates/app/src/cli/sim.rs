//! `windlass sim`: runs a simulated provider until it is ended.

use super::{SimArguments, SimulatedProvider, SimulatorArguments};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::simulator::{Service, Simulator};
use crate::text_simulator::TextSimulator;
use windlass_sim::gemini_live::Options;
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
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("the script {name} cannot be read: {error}")))?;
    let script = Script::parse(&name, &text).map_err(Failure::of)?;
    Ok(Options::scripted(script))
}

fn live(arguments: &SimulatorArguments, service: Service) -> Result<(), Failure> {
    let options = options(arguments)?;
    block_on(async {
        let address = arguments.listen;
        let refuse = |error| Failure::Failed(format!("cannot listen on {address}: {error}"));
        let simulator = Simulator::bind(address, service, options)
            .await
            .map_err(refuse)?;
        let address = simulator.address().map_err(refuse)?;
        Printer.result(&format!("listening on ws://{address}"));
        let (_never_over, over) = tokio::sync::watch::channel(false);
        simulator.serve(over).await;
        Ok(())
    })
}

fn text(arguments: &SimulatorArguments, protocol: Protocol) -> Result<(), Failure> {
    let options = options(arguments)?;
    block_on(async {
        let address = arguments.listen;
        let refuse = |error| Failure::Failed(format!("cannot listen on {address}: {error}"));
        let simulator = TextSimulator::bind(address, protocol, options)
            .await
            .map_err(refuse)?;
        let address = simulator.address().map_err(refuse)?;
        Printer.result(&format!("listening on http://{address}"));
        let (_never_over, over) = tokio::sync::watch::channel(false);
        simulator.serve(over).await;
        Ok(())
    })
}

fn block_on(serving: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?
        .block_on(serving)
}
