//! A text model that does the tasks a live model delegates: it reads the conversation, asks for calls, reads their results and
//! writes the text to say. Knows no protocol of the live model, and no policy: its calls are the core's to judge.

use super::model::{Question, TextModel};
use super::{TextSettings, TextTools, once};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use windlass_provider::answer::{AnswerPiece, Ending, ModelAnswer};
use windlass_provider::log::{ConversationLog, Entry};
use windlass_provider::request::ToolUse;
use windlass_session::model::{IncomingCall, ModelEvent};

/// Tokens that are reserved for an answer.
const ANSWER_TOKENS: u64 = 4_096;

type Asking = Pin<Box<dyn Future<Output = (Arc<TextModel>, ModelAnswer, Vec<ModelEvent>)> + Send>>;

pub(crate) struct Delegate {
    settings: Arc<TextSettings>,
    tools: Arc<TextTools>,
    instruction: String,
    log: ConversationLog,
    asking: Option<Asking>,
    /// Requests of the current task.
    requests: u32,
}

/// The result of a request.
pub(crate) enum Step {
    /// The model wants these calls answered.
    Calls(Vec<IncomingCall>),
    /// The task is done, and this text is to be said.
    Said(String),
    /// The task failed. The log says why.
    Failed,
}

impl Delegate {
    pub(crate) fn new(
        settings: Arc<TextSettings>,
        tools: Arc<TextTools>,
        instruction: String,
        first_answer: u32,
    ) -> Self {
        Self {
            log: ConversationLog::counting_from(first_answer, settings.limits.log),
            settings,
            tools,
            instruction,
            asking: None,
            requests: 0,
        }
    }

    /// Adds something said or done to the log. An entry that does not fit is left out.
    pub(crate) fn note(&mut self, entry: Entry) {
        if let Err(error) = self.log.append(entry) {
            tracing::debug!(%error, "something is left out for the text model");
        }
    }

    pub(crate) fn begin(&mut self) {
        self.requests = 0;
        self.ask();
    }

    /// Asks the models in their order. The last request of a task is made without tools.
    pub(crate) fn ask(&mut self) {
        let limits = self.settings.limits;
        self.requests += 1;
        let tool_use = match self.requests < limits.requests_max {
            true => ToolUse::Free,
            false => ToolUse::Forbidden,
        };
        let number = self.log.next_answer();
        let requests = self.settings.models.iter().map(|model| {
            let declared = self.tools.text(&model.protocol).len() + self.instruction.len();
            let taken = declared as u64 / 4 + ANSWER_TOKENS;
            let left = model.profile.context_tokens_max.saturating_sub(taken);
            let body = model.encode(&Question {
                system_instruction: &self.instruction,
                window: self.log.window(left.min(limits.history_tokens_max)),
                tools: &self.tools,
                tool_use,
            });
            (model.clone(), body)
        });
        let requests = requests.collect();
        let (settings, tools) = (self.settings.clone(), self.tools.clone());
        self.asking = Some(Box::pin(ask(requests, number, settings, tools)));
    }

    /// The result of the request, once, and the events for the core.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Step, Vec<ModelEvent>)> {
        let Some(asking) = &mut self.asking else {
            return Poll::Pending;
        };
        let (model, answer, mut events) = std::task::ready!(asking.as_mut().poll(context));
        self.asking = None;
        // The text model's words are for the live model, which says them in its own.
        events.retain(|event| {
            matches!(
                event,
                ModelEvent::UsageOf { .. } | ModelEvent::ExternalContent { .. }
            )
        });
        for entry in answer.entries(model.route()) {
            self.note(entry);
        }
        let words: String = answer.pieces.iter().filter_map(words_of).collect();
        let step = match answer.calls.is_empty() {
            false => Step::Calls(answer.calls),
            // Words beside a call that was not run are not passed on.
            true if words.trim().is_empty() || answer.ending == Ending::ProseCall => {
                let ending = &answer.ending;
                tracing::warn!(model = %model.name, ?ending, "what was handed over came to nothing");
                Step::Failed
            }
            true => Step::Said(words),
        };
        Poll::Ready((step, events))
    }
}

async fn ask(
    requests: Vec<(Arc<TextModel>, Vec<u8>)>,
    number: u32,
    settings: Arc<TextSettings>,
    tools: Arc<TextTools>,
) -> (Arc<TextModel>, ModelAnswer, Vec<ModelEvent>) {
    let mut last = None;
    for (model, body) in requests {
        let limits = settings.limits.answer;
        let (answer, events) = once::ask(model.clone(), body, number, limits, &tools).await;
        let is_of_no_use =
            answer.is_empty() && matches!(answer.ending, Ending::Failed(_) | Ending::Cut);
        last = Some((model, answer, events));
        if !is_of_no_use {
            break;
        }
    }
    last.expect("a session that hands over has a model")
}

fn words_of(piece: &AnswerPiece) -> Option<&str> {
    match piece {
        AnswerPiece::Text(piece) if !piece.is_thought => Some(piece.text.expose()),
        AnswerPiece::Text(_) | AnswerPiece::Call(_) => None,
    }
}
