//! `windlass sim`: runs a simulated provider until it is ended.

use super::{GeminiLiveArguments, SimArguments, SimulatedProvider};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::simulator::Simulator;
use windlass_sim::gemini_live::Options;
use windlass_sim::script::Script;

pub(super) fn run(arguments: &SimArguments) -> Result<(), Failure> {
    match &arguments.provider {
        SimulatedProvider::GeminiLive(arguments) => gemini_live(arguments),
    }
}

fn gemini_live(arguments: &GeminiLiveArguments) -> Result<(), Failure> {
    let options = match &arguments.script {
        None => Options::demo(),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::Failed(format!("the script {name} cannot be read: {error}"))
            })?;
            Options::scripted(Script::parse(&name, &text).map_err(Failure::of)?)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    runtime.block_on(async {
        let address = arguments.listen;
        let refuse = |error| Failure::Failed(format!("cannot listen on {address}: {error}"));
        let simulator = Simulator::bind(address, options).await.map_err(refuse)?;
        let address = simulator.address().map_err(refuse)?;
        Printer.result(&format!("listening on ws://{address}"));
        let (_never_over, over) = tokio::sync::watch::channel(false);
        simulator.serve(over).await;
        Ok(())
    })
}
