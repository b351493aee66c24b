//! `windlass call`: one tool call in a session of its own, through the same pipeline as every other call.

use super::question::{details, is_yes};
use super::{CallArguments, ModeName, flags, load_config};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::toolbox::Workshop;
use crate::world::SharedWorld;
use crate::{clock, provider, records, server};
use serde_json::Value;
use std::io::BufRead;
use std::sync::Arc;
use windlass_runtime::config::Config;
use windlass_runtime::direct::{DirectRequest, call_asking, call_once};
use windlass_runtime::effects::DirectStore;
use windlass_runtime::ids;
use windlass_runtime::metrics::Metrics;
use windlass_session::client::ConfirmationQuestion;
use windlass_session::model::IncomingCall;
use windlass_session::session::SessionConfig;
use windlass_store::{SqliteStore, Store};
use windlass_tool::arguments::Arguments;
use windlass_tool::id::{ClientId, UserId};
use windlass_tool::json;
use windlass_tool::kind::Mode;
use windlass_tool::registry::DESCRIBE_TOOL;

pub(super) fn run(arguments: &CallArguments) -> Result<(), Failure> {
    let parsed = parse(&arguments.arguments)?;
    if arguments.user.is_empty() || arguments.user.chars().any(char::is_control) {
        return Err(Failure::Usage("--user has to be a printable id".to_owned()));
    }
    let flags = flags([
        ("--tools", "folders.tools", &arguments.tools),
        ("--kb", "folders.knowledge", &arguments.kb),
        ("--data", "folders.data", &arguments.data),
    ]);
    let config = Arc::new(load_config(&arguments.file, flags)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    let audit = records::open_audit(&config)?;
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open_with(&config.folders.data, config.store).map_err(Failure::of)?);
    let shared = records::shared(
        Arc::new(DirectStore::of_one_session(store.clone())),
        audit.clone(),
        Arc::new(Metrics::default()),
        Vec::new(),
        records::open_journal(&config)?,
    );
    let request = runtime.block_on(request(arguments, &config, store, shared))?;
    let call = IncomingCall {
        id: None,
        name: Some(arguments.tool.as_str().into()),
        arguments: Ok(parsed),
    };
    let response = if arguments.confirm {
        runtime.block_on(call_asking(request, call, &ask_on_terminal))
    } else {
        runtime.block_on(call_once(request, call)).0
    };
    runtime.shutdown_background();
    if let Some(audit) = audit {
        audit.close();
    }
    let text = serde_json::to_string_pretty(&*response).map_err(Failure::of)?;
    Printer.result(&text);
    if response.is_ok() {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}

/// Asks whoever sits at the terminal. The end of input is a no, too.
fn ask_on_terminal(question: &ConfirmationQuestion) -> bool {
    let printer = Printer;
    printer.problem(question.preview.expose());
    for line in details(question) {
        printer.problem(&line);
    }
    printer.problem("Run it? Type yes to run it, anything else to leave it.");
    let mut answer = String::new();
    let is_read = std::io::stdin().lock().read_line(&mut answer).is_ok();
    is_read && is_yes(&answer)
}

fn parse(text: &str) -> Result<Arguments, Failure> {
    match json::parse(text.as_bytes()) {
        Ok(Value::Object(arguments)) => Ok(arguments.into()),
        Ok(_) => Err(Failure::Usage(
            "the arguments are JSON but no object; write them as in '{\"query\": \"Fram\"}'"
                .to_owned(),
        )),
        Err(error) => Err(Failure::Usage(format!(
            "the arguments are no JSON: {error}; write them as in '{{\"query\": \"Fram\"}}'"
        ))),
    }
}

async fn request(
    arguments: &CallArguments,
    config: &Arc<Config>,
    store: Arc<dyn Store>,
    shared: windlass_runtime::call_driver::Shared,
) -> Result<DirectRequest, Failure> {
    let (mode, limits) = match arguments.mode {
        ModeName::Voice => (Mode::Voice, &config.voice.limits),
        ModeName::Text => (Mode::Text, &config.text.limits),
    };
    let knowledge = Arc::new(server::open_knowledge(config).await?);
    let workshop = Workshop {
        knowledge: knowledge.clone(),
        config: config.clone(),
        handlers: windlass_handlers::builtin(),
        profile: provider::profile_of(config),
    };
    let toolbox = workshop.open().map_err(server::report)?;
    Ok(DirectRequest {
        session: SessionConfig {
            session_id: ids::session_id().map_err(Failure::of)?,
            user_id: UserId::new(arguments.user.as_str()),
            conversation_id: ids::conversation_id().map_err(Failure::of)?,
            mode,
            // The others leave it out, so that their journals are replayed with the tools that a session of a model has.
            registry: if arguments.tool == DESCRIBE_TOOL {
                toolbox.with_describer(mode)
            } else {
                toolbox.of(mode).registry.clone()
            },
            limits: Arc::new(limits.clone()),
            profile: workshop.profile.clone(),
            started_unix_ms: clock::now_unix_ms(),
            history: Vec::new(),
            pending_request: None,
        },
        client_id: ClientId::new("command-line"),
        world: Arc::new(SharedWorld::new(config, knowledge, store)),
        shared,
    })
}
