//! `windlass chat`: the conversation of the page's chat in a terminal, with a server's tools and rules and without its sockets. Owns
//! the printed text; knows no model.

use super::line_editor::{Lines, Typed};
use super::question::{details, is_yes, reason as reason_of};
use super::signals::{Interrupt, Terminate};
use super::{ChatArguments, flags, load_config, roles};
use crate::chat::session_cache::HeldSession;
use crate::chat::{ChatHost, ChatRefusal};
use crate::clock;
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use crate::server::{self, Handlers, Setup};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;
use windlass_config::{TextProvider, TextProviderKind};
use windlass_contract::characters::steers;
use windlass_contract::envelope::rfc3339;
use windlass_contract::handler::Block;
use windlass_contract::id::{CallNumber, ClientId, UserId};
use windlass_contract::registry::Tool;
use windlass_contract::rights::Rights;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::text::{Consent, FinishReason, TurnEnd, TurnInput, TurnSink, UserInput};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode, is_replaced};
use windlass_session::event::SessionEvent;
use windlass_session::model::Role;

/// The owner of the conversation.
const USER: &str = "command-line";
/// The file in the data folder that keeps the lines typed at a terminal.
const HISTORY_FILE: &str = "chat_history";

pub(super) fn run(arguments: &ChatArguments, handlers: Handlers) -> Result<(), Failure> {
    arguments.flags.check()?;
    // Checked before anything is opened.
    roles(&arguments.role)?;
    let quiet = Some("error".to_owned());
    let anywhere = Some("127.0.0.1:0".to_owned());
    let mut keys = arguments.flags.keys();
    // The log would run into the conversation, and no client connects.
    keys.extend(flags([
        ("windlass chat", "log.level", &quiet),
        ("windlass chat", "server.listen", &anywhere),
    ]));
    let setup = Setup {
        config: load_config(&arguments.file, keys)?,
        handlers,
        watch: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    let outcome = runtime.block_on(async {
        let mut terminate = Terminate::new()?;
        let (end, ending) = watch::channel(false);
        tokio::select! {
            outcome = chat(setup, arguments, ending) => outcome,
            () = async {
                terminate.next().await;
                end.send_replace(true);
                terminate.next().await;
            } => Err(Failure::Failed("ended before all changes had".to_owned())),
        }
    });
    runtime.shutdown_background();
    outcome
}

async fn chat(
    setup: Setup,
    arguments: &ChatArguments,
    ending: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let rights = match roles(&arguments.role)? {
        roles if roles.is_empty() => Rights::Anonymous,
        roles => Rights::signed_in(roles),
    };
    let is_demo_unasked = setup.config.text.provider == TextProviderKind::Auto
        && setup.config.text_provider == TextProvider::Demo;
    let history = setup.config.folders.data.join(HISTORY_FILE);
    let server = server::start(setup).await?;
    let outcome = match server.chat() {
        Some(host) => {
            if is_demo_unasked {
                Printer.hint(
                    "The demo model answers: rules, no AI. Set GEMINI_API_KEY or OPENAI_API_KEY for a real one.",
                );
            }
            let person = Person {
                lines: Lines::new(history)?,
                interrupt: Interrupt::new()?,
                ending,
            };
            talk(&host, rights, arguments.message.as_deref(), person).await
        }
        None => Err(Failure::Failed(
            "no model for text is configured: set GEMINI_API_KEY or OPENAI_API_KEY, or point --text-provider-url at a server"
                .to_owned(),
        )),
    };
    server.shut_down().await;
    outcome
}

async fn talk(
    host: &Arc<ChatHost>,
    rights: Rights,
    message: Option<&str>,
    mut person: Person,
) -> Result<(), Failure> {
    let begun = host.session_of(ClientId::new(USER), UserId::new(USER), rights);
    let mut session = begun.map_err(Failure::of)?;
    let outcome = match message {
        Some(message) => match exchange(host, &mut session, message, &mut person).await {
            Ok(FinishReason::Failed) => Err(Failure::Said),
            Ok(
                FinishReason::Stop
                | FinishReason::Length
                | FinishReason::Blocked
                | FinishReason::Cancelled,
            ) => Ok(()),
            Err(unserved) => Err(unserved),
        },
        None => converse(host, &mut session, &mut person).await,
    };
    session.end().await;
    outcome
}

/// Fails where the user is not served now, and says until when.
fn serves(host: &ChatHost) -> Result<(), Failure> {
    let Err(refusal) = host.check_user_of_session(&UserId::new(USER)) else {
        return Ok(());
    };
    Err(Failure::Failed(match refusal {
        ChatRefusal::Blocked(block) => unserved(&block),
        ChatRefusal::Crowded(problem) => problem,
        ChatRefusal::Foreign
        | ChatRefusal::Busy
        | ChatRefusal::KeyReused
        | ChatRefusal::Unknown
        | ChatRefusal::Internal => {
            "the store does not say whether messages are taken; see whether the data folder can be read, and try again"
                .to_owned()
        }
    }))
}

fn unserved(block: &Block) -> String {
    let left_ms = block.until_unix_ms.saturating_sub(clock::now_unix_ms());
    format!(
        "{} (no messages are taken for {} s, until {})",
        printable(&block.farewell_message),
        left_ms.div_ceil(1_000),
        rfc3339(block.until_unix_ms)
    )
}

/// The commands that can be typed in place of a message.
const COMMANDS: [(&str, &str); 3] = [
    ("/help", "this list"),
    ("/tools", "the tools that the agent has"),
    ("/exit", "end; Ctrl-D does so, too"),
];

/// Whether a line is a command and no message that happens to begin with a slash.
fn is_command(line: &str) -> bool {
    let name = line.strip_prefix('/');
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Carries out a command; false if the command ends the program.
fn run_command(command: &str, session: &HeldSession) -> bool {
    match command {
        "/exit" => return false,
        "/help" => {
            let lines = COMMANDS.map(|(name, meaning)| format!("  {name:<8} {meaning}"));
            let names = COMMANDS.map(|(name, _)| name);
            Printer.outcome(&lines.join("\n"), &json!({ "commands": names }));
        }
        "/tools" => {
            let tools = session.tools();
            let line = |tool: &Arc<Tool>| printable(&format!("  {}: {}", tool.id, tool.summary));
            let lines: Vec<String> = tools.offered().map(line).collect();
            let of_one =
                |tool: &Arc<Tool>| json!({ "toolId": tool.id.as_str(), "summary": tool.summary });
            let of_all: Vec<Value> = tools.offered().map(of_one).collect();
            Printer.outcome(&lines.join("\n"), &json!({ "tools": of_all }));
        }
        other => Printer.problem(&format!(
            "there is no command {other}; /help lists those that there are"
        )),
    }
    true
}

/// One line after the other, until there are no more, or none are taken.
async fn converse(
    host: &ChatHost,
    session: &mut HeldSession,
    person: &mut Person,
) -> Result<(), Failure> {
    let is_terminal = person.lines.is_terminal();
    if is_terminal {
        Printer.hint("Type a message, or /help. Ctrl-C stops an answer, Ctrl-D ends.");
    }
    let mut has_interrupted = false;
    loop {
        if is_terminal {
            serves(host)?;
        }
        let typed = person.message().await;
        let is_again = std::mem::replace(&mut has_interrupted, typed == Typed::Interrupted);
        match typed {
            Typed::Line(line) => match line.trim() {
                "" => {}
                command if is_command(command) => {
                    if !run_command(command, session) {
                        return Ok(());
                    }
                }
                message => {
                    exchange(host, session, message, person).await?;
                }
            },
            // The line is taken back, as in every shell.
            Typed::Interrupted if !is_again => {
                Printer.hint("Ctrl-C once more, Ctrl-D or /exit ends.");
            }
            Typed::Interrupted | Typed::End => return Ok(()),
        }
    }
}

/// The user at the terminal, until the program is ended.
struct Person {
    lines: Lines,
    interrupt: Interrupt,
    /// Whether the program is to end.
    ending: watch::Receiver<bool>,
}

impl Person {
    async fn message(&mut self) -> Typed {
        tokio::select! {
            biased;
            () = ends(&mut self.ending) => Typed::End,
            () = self.interrupt.next() => Typed::End,
            typed = self.lines.message("> ") => typed,
        }
    }

    /// The answer to a request; `None` where there is no user.
    async fn answer(&mut self, question: &str) -> Option<String> {
        if !self.lines.is_terminal() {
            Printer.problem(question);
        }
        let typed = tokio::select! {
            biased;
            () = ends(&mut self.ending) => Typed::End,
            () = self.interrupt.next() => Typed::End,
            typed = self.lines.answer(question) => typed,
        };
        match typed {
            Typed::Line(line) => Some(line),
            Typed::Interrupted | Typed::End => None,
        }
    }

    fn is_to_end(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits until an answer is to stop, because of Ctrl-C or because the program ends.
    async fn stops(&mut self) {
        tokio::select! {
            () = self.interrupt.next() => {}
            () = ends(&mut self.ending) => {}
        }
    }
}

async fn ends(ending: &mut watch::Receiver<bool>) {
    let heard = ending.wait_for(|ending| *ending).await.is_ok();
    if !heard {
        // The sender is gone, so the end never comes.
        std::future::pending::<()>().await;
    }
}

fn said(words: &str) -> TurnInput {
    TurnInput::User(UserInput {
        text: Sensitive(words.to_owned()),
        ..UserInput::default()
    })
}

/// Sends one message and answers every approval request that follows. Returns how the last answer ended. A user who is not served gets
/// neither.
async fn exchange(
    host: &ChatHost,
    session: &mut HeldSession,
    message: &str,
    person: &mut Person,
) -> Result<FinishReason, Failure> {
    serves(host)?;
    let (mut reason, questions) = run_turn(session, said(message), person).await;
    let mut questions = VecDeque::from(questions);
    while let Some(question) = questions.pop_front() {
        serves(host)?;
        let answer = person.answer(&question.print()).await;
        if person.is_to_end() {
            return Ok(reason);
        }
        let has_user = answer.is_some();
        let answer = answer.unwrap_or_default();
        let input = TurnInput::Confirm(vec![Consent {
            token: question.token,
            approved: is_yes(&answer),
            reason: reason_of(&answer),
            // A person at a terminal is asked about each call.
            remember: false,
            input: None,
        }]);
        let (ended, asked_next) = run_turn(session, input, person).await;
        reason = ended;
        // Without a user, pending requests are denied, and requests that follow from that are dropped.
        if has_user {
            questions.extend(asked_next);
        }
    }
    Ok(reason)
}

async fn run_turn(
    session: &mut HeldSession,
    input: TurnInput,
    person: &mut Person,
) -> (FinishReason, Vec<Question>) {
    let mut stopped = std::pin::pin!(person.stops());
    let mut sink = Terminal::default();
    let instruction = session.instruction(None);
    let end = session
        .turn(input, &instruction, &mut sink, stopped.as_mut())
        .await;
    if Printer.format() == Format::Json {
        sink.told.print(end.reason, &sink.questions);
    }
    (end.reason, sink.questions)
}

/// An approval request to the user after a turn.
struct Question {
    call: CallNumber,
    details: Vec<String>,
    preview: Option<String>,
    /// The token that its answer has to bring.
    token: Sensitive<String>,
}

impl Question {
    /// Prints the details on standard error, like all text that is no answer. Returns the question for the prompt.
    fn print(&self) -> String {
        for line in &self.details {
            Printer.problem(&format!("  {line}"));
        }
        let preview = self.preview.as_ref();
        let preview = preview
            .map(|preview| format!("{preview}: "))
            .unwrap_or_default();
        format!(
            "  {preview}may the agent do this? Type yes to let it, anything else to leave it, such as why not: "
        )
    }
}

/// Prints a turn as it comes.
#[derive(Default)]
struct Terminal {
    is_in_line: bool,
    questions: Vec<Question>,
    told: Told,
}

/// The results of a turn, for programs.
#[derive(Default)]
struct Told {
    text: String,
    citations: Vec<Value>,
    calls: Vec<Value>,
}

impl Told {
    fn print(self, reason: FinishReason, questions: &[Question]) {
        let asks = |question: &Question| {
            question
                .preview
                .as_ref()
                .or(question.details.last())
                .cloned()
        };
        let finish = match reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Blocked => "blocked",
            FinishReason::Cancelled => "cancelled",
            FinishReason::Failed => "failed",
        };
        let turn = json!({
            "text": self.text,
            "citations": self.citations,
            "calls": self.calls,
            "asks": questions.iter().map(asks).collect::<Vec<_>>(),
            "finish": finish,
        });
        Printer.result(&turn.to_string());
    }
}

impl Terminal {
    fn line(&mut self, line: &str) {
        if Printer.format() == Format::Text {
            self.end_line();
            Printer.result(line);
        }
    }

    /// Prints a line about events beside the answer.
    fn progress(&mut self, line: &str) {
        self.end_line();
        Printer.hint(line);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            Printer.result("");
        }
    }
}

impl TurnSink for Terminal {
    fn step(&mut self) {}

    fn client(&mut self, update: &ClientUpdate) {
        if let ClientUpdate::ConfirmationResult { call, response } = update
            && is_replaced(response.expose())
        {
            // Its replacement follows.
            self.questions
                .retain(|question| Some(question.call) != *call);
        }
        let ClientUpdate::Transcript {
            role: Role::Assistant,
            text,
            is_final,
            citations,
            ..
        } = update
        else {
            return;
        };
        if !is_final {
            match Printer.format() {
                Format::Text => {
                    self.is_in_line = true;
                    Printer.part(&printable(text.expose()));
                }
                Format::Json => self.told.text.push_str(text.expose()),
            }
            return;
        }
        for citation in citations {
            let place = citation.url.as_deref().unwrap_or(&citation.id);
            self.line(&printable(&format!("  [{}] {place}", citation.title)));
            let citation = json!({ "title": citation.title, "place": place });
            self.told.citations.push(citation);
        }
    }

    fn event(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::CallStarted(started) => {
                let id = started.tool().id.as_str();
                let status = started.status.as_deref().unwrap_or(id);
                self.progress(&printable(&format!("  ({status})")));
            }
            SessionEvent::CallFinished(record)
            | SessionEvent::CallRejected(record)
            | SessionEvent::CallCancelled(record)
                if record.parent().is_none() =>
            {
                let error = record.response.expose().error();
                let code = error.map(|error| error.error_type.code());
                let name = record.shown_name();
                if let Some(code) = code {
                    self.progress(&printable(&format!("  ({name}: {code})")));
                }
                self.told.calls.push(json!({ "tool": name, "error": code }));
            }
            _ => {}
        }
    }

    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>) {
        // The same request, with a later end.
        self.questions.retain(|known| known.call != question.call);
        self.questions.push(Question {
            call: question.call,
            details: details(question),
            preview: question
                .preview
                .as_ref()
                .map(|preview| printable(preview.expose())),
            token: token.clone(),
        });
    }

    fn failed(&mut self, _code: ErrorCode, message: &str) {
        self.end_line();
        Printer.problem(&printable(&format!("windlass: {message}")));
    }

    fn finished(&mut self, end: &TurnEnd) {
        self.end_line();
        if end.voice_session_start.is_some() {
            Printer.hint("  (to go on by voice, open the page of windlass serve)");
        }
    }

    fn flush(&mut self) {}
}

/// Text of a model or a record, with every character escaped that would steer the terminal or reverse a line.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match steers(letter) && !matches!(letter, '\n' | '\t') {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}
