//! `windlass call`: one tool call in a session of its own, through the same pipeline as every other call.

use super::question::{details, is_yes};
use super::{CallArguments, ModeName, flags, load_config, roles, together};
use crate::capabilities::SharedCapabilities;
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use crate::toolbox::{self, Handlers, ToolboxError, Workshop};
use crate::watch;
use crate::{clock, provider, records, server};
use serde_json::Value;
use std::io::BufRead;
use std::sync::{Arc, Mutex, PoisonError};
use windlass_config::Config;
use windlass_contract::arguments::Arguments;
use windlass_contract::condition::Facts;
use windlass_contract::id::{CallNumber, ClientId, TenantId, UserId};
use windlass_contract::json;
use windlass_contract::kind::Mode;
use windlass_contract::registry::DESCRIBE_TOOL;
use windlass_contract::rights::Rights;
use windlass_driver::{DirectLedger, Ledger};
use windlass_runtime::caller::is_proven_id;
use windlass_runtime::client_key::{ledger_key, passing_ledger_key};
use windlass_runtime::direct::{DirectRequest, call_asking, call_once};
use windlass_runtime::executor::HandlerThreads;
use windlass_runtime::ids;
use windlass_runtime::metrics::Metrics;
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_session::client::ConfirmationQuestion;
use windlass_session::event::SessionEvent;
use windlass_session::model::IncomingCall;
use windlass_session::session::SessionConfig;
use windlass_store::{Epoch, MemoryStore, OpenError, SqliteStore, Store};

pub(super) fn run(arguments: &CallArguments, handlers: &Handlers) -> Result<(), Failure> {
    let parsed = parse(&arguments.arguments)?;
    if arguments.user.is_empty() || arguments.user.chars().any(char::is_control) {
        return Err(Failure::Usage("--user has to be a printable id".to_owned()));
    }
    // Checked before anything is opened or made.
    roles(&arguments.role)?;
    let flags = flags([
        ("--tools", "folders.tools", &arguments.tools),
        ("--kb", "folders.knowledge", &arguments.kb),
        ("--data", "folders.data", &arguments.data),
        (
            "--allow-fetch",
            "handlers.allow_fetch",
            &together(&arguments.allow_fetch),
        ),
    ]);
    let config = Arc::new(load_config(&arguments.file, flags)?);
    toolbox::expect_tools(&config)?;
    if !arguments.watch {
        return call(arguments, &config, parsed, handlers);
    }
    let called = watch::at_each_change(&config.folders.tools, || {
        let outcome = call(arguments, &config, parsed.clone(), handlers);
        if let Err(failure) = outcome
            && let Some(line) = failure.line()
        {
            Printer.problem(&line);
        }
    });
    called.map_err(Failure::of)
}

/// Makes the call once, and prints its response.
fn call(
    arguments: &CallArguments,
    config: &Arc<Config>,
    parsed: Arguments,
    handlers: &Handlers,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    expect_free(arguments, config)?;
    let audit = records::open_audit(config)?;
    let store = open_store(arguments, config)?;
    let ledger: Arc<dyn Ledger> = Arc::new(DirectLedger::new(store.clone()));
    let rejected = Arc::new(RejectedIntents::default());
    let shared = records::shared(
        ledger.clone(),
        audit.clone(),
        Arc::new(Metrics::default()),
        vec![rejected.clone()],
        records::open_journal(config)?,
        HandlerThreads::new(config.threads.limits()),
    );
    let request = runtime.block_on(request(arguments, config, handlers, (store, shared)))?;
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
    // It tells the ledger which changes have audit lines.
    if let Some(audit) = audit {
        audit.close();
    }
    drop(ledger);
    let text = match Printer.format() {
        Format::Text => serde_json::to_string_pretty(&*response),
        Format::Json => serde_json::to_string(&*response),
    };
    Printer.result(&text.map_err(Failure::of)?);
    for problem in rejected.take() {
        Printer.problem(&format!("an intent was rejected: {problem}"));
    }
    if response.is_ok() {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}

/// Why intents were rejected that the response shows as the handler gave them.
#[derive(Default)]
struct RejectedIntents(Mutex<Vec<String>>);

impl RejectedIntents {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscriber for RejectedIntents {
    fn event(&self, _session: &SessionIdentity, _now_unix_ms: u64, event: &SessionEvent) {
        if let SessionEvent::IntentRejected { problem, .. } = event {
            let mut problems = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            problems.push(problem.clone());
        }
    }
}

/// A named folder that a server has is left as it is: nothing in it is opened.
fn expect_free(arguments: &CallArguments, config: &Config) -> Result<(), Failure> {
    let folder = &*config.folders.data;
    if arguments.data.is_none() {
        return Ok(());
    }
    match SqliteStore::holder(folder).map_err(Failure::of)? {
        None => Ok(()),
        Some(holder) => Err(Failure::of(OpenError::InUse {
            folder: folder.to_owned(),
            holder,
        })),
    }
}

/// The store of the data folder that is named, which a server may hold; without one a store that is forgotten with the call.
fn open_store(arguments: &CallArguments, config: &Config) -> Result<Arc<dyn Store>, Failure> {
    if arguments.data.is_none() {
        let key = passing_ledger_key().map_err(Failure::of)?;
        let settings =
            records::store_settings(key, config.store.limits(&config.shares, &config.tasks))?;
        return Ok(Arc::new(MemoryStore::new(settings)));
    }
    let folder = &config.folders.data;
    SqliteStore::make_folder(folder).map_err(Failure::of)?;
    let key = ledger_key(folder).map_err(Failure::of)?;
    let settings =
        records::store_settings(key, config.store.limits(&config.shares, &config.tasks))?;
    let store = SqliteStore::open(folder, settings).map_err(Failure::of)?;
    if let Some(path) = store.set_aside() {
        let path = path.display();
        Printer.problem(&format!(
            "the store of an earlier version was set aside as {path}, and an empty one begun"
        ));
    }
    Ok(Arc::new(store))
}

/// The rights of the user who makes the call. The command line is believed.
fn rights(user: &str, named: &[String]) -> Result<Rights, Failure> {
    match named.is_empty() && !is_proven_id(user) {
        true => Ok(Rights::Anonymous),
        false => Ok(Rights::signed_in(roles(named)?)),
    }
}

/// Asks the user at the terminal. The end of input is a denial.
fn ask_on_terminal(question: &ConfirmationQuestion) -> bool {
    let printer = Printer;
    if let Some(preview) = &question.preview {
        printer.problem(preview.expose());
    }
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
            "the arguments are JSON but no object; write them as in '{\"query\": \"Ada\"}'"
                .to_owned(),
        )),
        Err(error) => Err(Failure::Usage(format!(
            "the arguments are no JSON: {error}; write them as in '{{\"query\": \"Ada\"}}'"
        ))),
    }
}

async fn request(
    arguments: &CallArguments,
    config: &Arc<Config>,
    handlers: &Handlers,
    (store, shared): (Arc<dyn Store>, windlass_runtime::call_driver::Shared),
) -> Result<DirectRequest, Failure> {
    let (mode, limits) = match arguments.mode {
        ModeName::Voice => (Mode::Voice, &config.voice.limits),
        ModeName::Text => (Mode::Text, &config.text.limits),
    };
    let knowledge = Arc::new(server::open_knowledge(config).await?);
    let workshop = Workshop {
        knowledge: knowledge.clone(),
        config: config.clone(),
        handlers: handlers.clone(),
        profile: provider::profile_of(config),
    };
    let toolbox = workshop.open().map_err(ToolboxError::reported)?;
    let kit = toolbox.of(mode);
    let (tenant, started_unix_ms) = (TenantId::default(), clock::now_unix_ms());
    let (rights, given) = (rights(&arguments.user, &arguments.role)?, kit.given(None));
    let tools = kit.offered_to(&Facts {
        rights: &rights,
        user_id: &arguments.user,
        tenant: tenant.as_str(),
        mode,
        unix_ms: started_unix_ms,
        given: &given,
        arguments: None,
    });
    Ok(DirectRequest {
        session: SessionConfig {
            session_id: ids::session_id().map_err(Failure::of)?,
            epoch: Epoch(1),
            tenant,
            user_id: UserId::new(arguments.user.as_str()),
            rights,
            given,
            conversation_id: ids::conversation_id().map_err(Failure::of)?,
            mode,
            // The others leave it out, so that their journals are replayed with the tools that a session of a model has.
            registry: if arguments.tool == DESCRIBE_TOOL {
                toolbox.with_describer(mode)
            } else {
                tools.registry.clone()
            },
            limits: Arc::new(limits.clone()),
            profile: workshop.profile.clone(),
            model: Arc::default(),
            estimate: None,
            started_unix_ms,
            history: Vec::new(),
            last_call: CallNumber(0),
            can_ask: true,
            can_ask_input: false,
            pending_request: None,
        },
        client_id: ClientId::new("command-line"),
        capabilities: Arc::new(SharedCapabilities::new(config, knowledge, store)?),
        shared,
    })
}
