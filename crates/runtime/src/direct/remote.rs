//! One call of another program: a session of one turn in a conversation that the call itself names, so that a repeat of the call
//! is recognised. Its caller may leave; changes that the call has begun run on. A caller that takes tasks does not wait for the end of one.
//! Knows no protocol.

use super::{DirectRequest, DirectSession, Place, TellProgress};
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_contract::envelope::{Projection, ToolResponse};
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::{ClientEvent, ConfirmationQuestion};
use windlass_session::io::{Input, Output};
use windlass_session::model::{IncomingCall, ModelEvent, RequestEvent};
use windlass_store::{Beginner, ConversationRef, EntryNumber, NewEntry};

/// The parameters of a remote call.
pub struct RemoteRequest {
    pub direct: DirectRequest,
    /// The conversation as the ledger has it.
    pub conversation: ConversationRef,
    pub beginner: Beginner,
    /// The last entry of the conversation's log, if the conversation exists already.
    pub after: EntryNumber,
    /// Entries for the log, before the call.
    pub entries: Vec<NewEntry>,
    /// Whether the user is taken to want the call anew, and not the outcome of an earlier one.
    pub is_later: bool,
    /// Whether the model behind the call counts as having read external content.
    pub has_external_content: bool,
    /// The caller's receiver of progress, if it has one.
    pub progress: Option<TellProgress>,
    /// Whether a task is answered as soon as it runs. Otherwise its end is the answer.
    pub takes_tasks: bool,
}

/// The result of a remote call.
pub struct RemoteAnswer {
    /// The call's one response. For a repeated call, the kept part of the earlier response.
    pub response: Arc<ToolResponse>,
    /// The model's view of the response: cut to its length, and with its notes.
    pub told: Option<Projection>,
}

/// The end of a remote session.
pub enum RemoteEnd {
    Answered(RemoteAnswer),
    /// The user is asked first. The request waits in the ledger under its token, also after this session.
    Asked {
        question: Box<ConfirmationQuestion>,
        token: Sensitive<String>,
    },
    /// The caller has left.
    GivenUp,
}

/// A session whose task still runs, although its caller has been answered.
pub struct RunningTask(Box<DirectSession>);

impl RunningTask {
    /// Waits for the end of the task, and ends the session.
    pub async fn run(mut self) {
        self.0.input(Input::Shutdown);
        self.0.calls.retire();
        self.0.finish_remote(false).await;
    }
}

/// Runs the call, and ends its session. If `left` ends first, a call that changes nothing is dropped. A call that changes
/// something runs to its end, and this function waits for that. A task that is answered while it runs is left to its caller to be run
/// to its end.
pub async fn call_remote(
    request: RemoteRequest,
    call: IncomingCall,
    left: impl Future<Output = ()>,
) -> (RemoteEnd, Option<RunningTask>) {
    let RemoteRequest {
        direct,
        conversation,
        beginner,
        after,
        entries,
        is_later,
        has_external_content,
        progress,
        takes_tasks,
    } = request;
    let place = Place {
        conversation,
        beginner,
        after,
        waits_for_tasks: !takes_tasks,
    };
    let mut session = DirectSession::open_in(direct, place, None);
    session.progress = progress;
    session.calls.append(entries);
    if has_external_content {
        let mut inputs = VecDeque::new();
        session.calls.perform(Output::Taint, &mut inputs);
        session.feed(inputs);
    }
    if is_later {
        session.input(Input::Model(ModelEvent::SpeechStarted));
    }
    let response = tokio::select! {
        biased;
        response = session.call(call) => Some(response),
        () = left => None,
    };
    let end = match (response, session.question.take()) {
        (None, _) => RemoteEnd::GivenUp,
        (Some(_), Some((question, token))) => RemoteEnd::Asked {
            question: Box::new(question),
            token,
        },
        (Some(response), None) => RemoteEnd::Answered(RemoteAnswer {
            response,
            told: session.told.take(),
        }),
    };
    let is_asked = matches!(end, RemoteEnd::Asked { .. });
    if matches!(end, RemoteEnd::Answered(_)) {
        session.model_goes_on();
    }
    // In the pause between two attempts nothing runs, and the task goes on.
    let is_at_work = match &end {
        RemoteEnd::Answered(answer) => answer.response.meta.background_task_id.is_some(),
        RemoteEnd::Asked { .. } => false,
        RemoteEnd::GivenUp => session.calls.runs_calls(),
    };
    if takes_tasks && is_at_work {
        // Nobody reads it any more.
        session.progress = None;
        return (end, Some(RunningTask(Box::new(session))));
    }
    session.input(Input::Client(ClientEvent::Stop));
    session.finish_remote(is_asked).await;
    (end, None)
}

impl DirectSession {
    /// Notes that the model has its answer and says nothing more, so that the ledger counts the outcome as delivered. If the
    /// answer is lost on its way, the same call, sent again, gets it.
    fn model_goes_on(&mut self) {
        self.input(Input::Model(ModelEvent::GenerationComplete));
        self.input(Input::Request(RequestEvent::Sent { number: 2 }));
        let text = Sensitive(String::new());
        self.input(Input::Model(ModelEvent::OutputText { text }));
        self.turn_ends();
    }

    /// Waits for the changes that the session has begun, which ends by then. If nothing was changed or asked, its conversation is
    /// removed.
    async fn finish_remote(mut self, is_kept: bool) {
        while !self.core.is_over() {
            self.wait().await;
        }
        match is_kept {
            true => self.calls.leave(),
            false => self.calls.leave_for_good(),
        }
        self.calls.finish(None).await;
    }
}
