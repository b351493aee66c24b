//! `windlass chat`: the conversation of the page's chat in a terminal, with a server's tools and rules and without its
//! sockets. Owns what is printed; knows no model.

use super::{ChatArguments, flags, load_config};
use crate::chat::ChatHost;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::server::{self, Setup};
use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::sync::Arc;
use tokio::sync::mpsc;
use windlass_runtime::ids;
use windlass_runtime::text::{
    Consent, FinishReason, TextSession, TurnEnd, TurnInput, TurnSink, UserInput,
};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode};
use windlass_session::event::SessionEvent;
use windlass_session::model::Role;
use windlass_tool::id::{ClientId, UserId};
use windlass_tool::sensitive::Sensitive;

/// Whose conversation it is.
const USER: &str = "command-line";

pub(super) fn run(arguments: &ChatArguments) -> Result<(), Failure> {
    let quiet = Some("error".to_owned());
    let anywhere = Some("127.0.0.1:0".to_owned());
    let mut keys = arguments.flags.keys();
    // The log would run into the conversation, and nobody connects.
    keys.extend(flags([
        ("windlass chat", "log.level", &quiet),
        ("windlass chat", "server.listen", &anywhere),
    ]));
    let config = load_config(&arguments.file, keys)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    let outcome = runtime.block_on(async {
        let server = server::start(Setup {
            config,
            handlers: windlass_handlers::builtin(),
            watch: false,
        })
        .await?;
        let outcome = match server.chat() {
            Some(host) => talk(&host, arguments.message.as_deref()).await,
            None => Err(Failure::Failed(
                "no model for text is configured: set GEMINI_API_KEY or OPENAI_API_KEY, or point --text-provider-url at a server"
                    .to_owned(),
            )),
        };
        server.shut_down().await;
        outcome
    });
    runtime.shutdown_background();
    outcome
}

async fn talk(host: &Arc<ChatHost>, message: Option<&str>) -> Result<(), Failure> {
    let begun = host.session_of(ClientId::new(USER), UserId::new(USER));
    let mut session = begun.map_err(Failure::of)?;
    let outcome = match message {
        Some(message) => match exchange(host, &mut session, message, &mut lines()).await {
            FinishReason::Failed => Err(Failure::Said),
            FinishReason::Stop
            | FinishReason::Length
            | FinishReason::Blocked
            | FinishReason::Cancelled => Ok(()),
        },
        None => converse(host, &mut session).await,
    };
    session.end().await;
    outcome
}

/// One line after the other, until there are no more.
async fn converse(host: &Arc<ChatHost>, session: &mut TextSession) -> Result<(), Failure> {
    let is_terminal = std::io::stdin().is_terminal();
    if is_terminal {
        Printer.result("Type a message; an empty line or Ctrl-D ends. Ctrl-C stops an answer.");
    }
    let mut lines = lines();
    loop {
        if is_terminal {
            Printer.part("> ");
        }
        match lines.recv().await {
            Some(line) if !line.trim().is_empty() => {
                exchange(host, session, line.trim(), &mut lines).await;
            }
            Some(_) if !is_terminal => {}
            Some(_) | None => return Ok(()),
        }
    }
}

/// Reading a terminal blocks, so it has a thread; it ends with the program.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn said(words: &str) -> TurnInput {
    TurnInput::User(UserInput {
        text: Sensitive(words.to_owned()),
        ..UserInput::default()
    })
}

/// One message and its answer, with every question that comes of it; how the last answer ended.
async fn exchange(
    host: &Arc<ChatHost>,
    session: &mut TextSession,
    message: &str,
    lines: &mut mpsc::Receiver<String>,
) -> FinishReason {
    let (mut reason, questions) = run_turn(host, session, said(message)).await;
    let mut questions = VecDeque::from(questions);
    while let Some((preview, token_hash)) = questions.pop_front() {
        Printer.part(&format!("  {preview}: may the agent do this? yes or no: "));
        let answer = lines.recv().await;
        let has_user = answer.is_some();
        let answer = answer.unwrap_or_default().trim().to_lowercase();
        let input = TurnInput::Confirm(vec![Consent {
            token_hash,
            // Anything but a yes is a no.
            approved: matches!(answer.as_str(), "y" | "yes"),
            is_left_behind: false,
        }]);
        let (ended, asked_next) = run_turn(host, session, input).await;
        reason = ended;
        // Where nobody answers, what was asked already is declined, and what comes of that is asked in vain.
        if has_user {
            questions.extend(asked_next);
        }
    }
    reason
}

async fn run_turn(
    host: &Arc<ChatHost>,
    session: &mut TextSession,
    input: TurnInput,
) -> (FinishReason, Vec<(String, [u8; 32])>) {
    let mut stopped = std::pin::pin!(async {
        // Where the signal cannot be heard, the answer just goes on.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    });
    let mut sink = Terminal::default();
    let instruction = host.instruction();
    let end = session
        .turn(input, &instruction, &mut sink, stopped.as_mut())
        .await;
    (end.reason, sink.questions)
}

/// Prints a turn as it comes.
#[derive(Default)]
struct Terminal {
    is_in_line: bool,
    /// What the user is to be asked after the turn, each with what its answer has to bring.
    questions: Vec<(String, [u8; 32])>,
}

impl Terminal {
    fn line(&mut self, line: &str) {
        self.end_line();
        Printer.result(line);
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
            self.is_in_line = true;
            Printer.part(&printable(text.expose()));
            return;
        }
        for citation in citations {
            let place = citation.url.as_deref().unwrap_or(&citation.id);
            self.line(&printable(&format!("  [{}] {place}", citation.title)));
        }
    }

    fn event(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::CallStarted(started) => {
                let id = started.tool().id.as_str();
                let status = started.status.as_deref().unwrap_or(id);
                self.line(&printable(&format!("  ({status})")));
            }
            SessionEvent::CallFinished(record)
            | SessionEvent::CallRejected(record)
            | SessionEvent::CallCancelled(record) => {
                if let Some(error) = record.response.expose().error() {
                    let code = error.error_type.code();
                    self.line(&printable(&format!("  ({}: {code})", record.shown_name())));
                }
            }
            _ => {}
        }
    }

    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>) {
        let preview = printable(question.preview.expose());
        self.questions
            .push((preview, ids::token_hash(token.expose())));
    }

    fn failed(&mut self, _code: ErrorCode, message: &str) {
        self.end_line();
        Printer.problem(&format!("windlass: {message}"));
    }

    fn finished(&mut self, end: &TurnEnd) {
        self.end_line();
        if end.voice_session_start.is_some() {
            Printer.result("  (to go on by voice, open the page of windlass serve)");
        }
    }

    fn flush(&mut self) {}
}

/// What a model or a record says, without what would steer the terminal.
fn printable(text: &str) -> String {
    let steers = |letter: &char| letter.is_control() && !matches!(letter, '\n' | '\t');
    text.chars().filter(|letter| !steers(letter)).collect()
}
