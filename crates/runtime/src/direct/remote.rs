//! One call of another program: a session of one turn in a conversation that the call itself names, so that the same call is
//! recognised when it comes again. Its caller may leave; what the call changes runs on. Knows no protocol.

use super::{DirectRequest, DirectSession, Place, TellProgress};
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_session::client::{ClientEvent, ConfirmationQuestion};
use windlass_session::io::{Input, Output};
use windlass_session::model::{IncomingCall, ModelEvent, RequestEvent};
use windlass_store::{Beginner, ConversationRef, EntryNumber, NewEntry};
use windlass_tool::envelope::{Projection, ToolResponse};
use windlass_tool::sensitive::Sensitive;

/// What such a call is made with.
pub struct RemoteRequest {
    pub direct: DirectRequest,
    /// As the ledger has it.
    pub conversation: ConversationRef,
    pub beginner: Beginner,
    /// The last entry of the conversation's log, where it is there already.
    pub after: EntryNumber,
    /// What is written into the log before the call.
    pub entries: Vec<NewEntry>,
    /// The user is taken to want it anew, and not to be told what came of an earlier call.
    pub is_later: bool,
    /// The model behind the call counts as one that has read what others wrote.
    pub has_external_content: bool,
    /// Hears of progress, where somebody wants to.
    pub progress: Option<TellProgress>,
}

/// What a call came to.
pub struct RemoteAnswer {
    /// Its one response. Of a call that came before, what is kept of it.
    pub response: Arc<ToolResponse>,
    /// What a model reads of it: cut to its length, and with what is noted beside it.
    pub told: Option<Projection>,
}

/// How such a session ends.
pub enum RemoteEnd {
    Answered(RemoteAnswer),
    /// The user is asked first. The request waits in the ledger under its token, also after this session.
    Asked {
        question: Box<ConfirmationQuestion>,
        token: Sensitive<String>,
    },
    /// Nobody waits for it any more.
    GivenUp,
}

/// Runs the call, and ends its session. Where `left` ends first, a call that changes nothing is dropped, and one that does runs to
/// its end: this waits for that.
pub async fn call_remote(
    request: RemoteRequest,
    call: IncomingCall,
    left: impl Future<Output = ()>,
) -> RemoteEnd {
    let RemoteRequest {
        direct,
        conversation,
        beginner,
        after,
        entries,
        is_later,
        has_external_content,
        progress,
    } = request;
    let place = Place {
        conversation,
        beginner,
        after,
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
    session.finish_remote(is_asked).await;
    end
}

impl DirectSession {
    /// The model has its answer, and says nothing more: the ledger is told what it has heard of. Of an answer that is lost on its way
    /// the same call, sent again, tells.
    fn model_goes_on(&mut self) {
        self.input(Input::Model(ModelEvent::GenerationComplete));
        self.input(Input::Request(RequestEvent::Sent { number: 2 }));
        let text = Sensitive(String::new());
        self.input(Input::Model(ModelEvent::OutputText { text }));
        self.turn_ends();
    }

    /// Ends the session and waits for the changes that it has begun. Where nothing was changed or asked, nothing is left of its
    /// conversation.
    async fn finish_remote(mut self, is_kept: bool) {
        self.input(Input::Client(ClientEvent::Stop));
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
