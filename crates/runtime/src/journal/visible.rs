//! The parts of a session's inputs that a journal may show: all but the arguments that tools mark as sensitive, and the texts
//! that hold their values. Knows no file.

use crate::redaction::{Secrets, without_sensitive};
use serde_json::Value;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::HandlerMessage;
use windlass_contract::id::ToolId;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::ClientEvent;
use windlass_session::io::{Input, News};
use windlass_session::model::{IncomingCall, ModelEvent};
use windlass_store::command::Reply;
use windlass_store::{Effect, Question};

/// The visible part of one session's inputs.
pub(super) struct Visible {
    registry: Arc<Registry>,
    /// Values that were left out so far.
    secrets: Secrets,
}

/// An input with some parts left out.
pub(super) struct Shown {
    /// `None` if no part of the input may be shown.
    pub(super) input: Option<Input>,
    /// The tool whose sensitive arguments make the journal partial from here on.
    pub(super) tool: Option<ToolId>,
}

impl Visible {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            secrets: Secrets::default(),
        }
    }

    /// An input without its hidden parts; `None` if nothing has to be left out.
    pub(super) fn of(&mut self, input: &Input) -> Option<Shown> {
        let (shown, tool) = match input {
            Input::Client(ClientEvent::Image { mime_type, .. }) => {
                // The core's handling of an image does not depend on its data.
                let shown = Input::Client(ClientEvent::Image {
                    mime_type: mime_type.clone(),
                    data: Sensitive(Arc::from([])),
                });
                return Some(Shown {
                    input: Some(shown),
                    tool: None,
                });
            }
            Input::Model(ModelEvent::Calls(calls)) => {
                let (calls, tool) = self.calls(calls)?;
                (Input::Model(ModelEvent::Calls(calls)), tool)
            }
            // These inputs carry rows of the ledger, which may come from other sessions.
            Input::Began(_)
            | Input::Answered { .. }
            | Input::Decided { .. }
            | Input::Recorded { .. }
            | Input::News(_) => {
                let mut shown = input.clone();
                let Some(tool) = self.hide_rows(&mut shown) else {
                    return self.without_values(input);
                };
                let without_values = self.without_values(&shown).map(|shown| shown.input);
                return Some(Shown {
                    input: without_values.unwrap_or(Some(shown)),
                    tool: Some(tool),
                });
            }
            Input::HandlerMessage {
                call,
                message:
                    HandlerMessage::CallTool {
                        reply,
                        tool: name,
                        arguments,
                    },
            } => {
                let Some((arguments, tool)) = self.nested(name, arguments.expose()) else {
                    return self.without_values(input);
                };
                let message = HandlerMessage::CallTool {
                    reply: *reply,
                    tool: name.clone(),
                    arguments: Sensitive(arguments),
                };
                let shown = Input::HandlerMessage {
                    call: *call,
                    message,
                };
                let without_values = self.without_values(&shown).map(|shown| shown.input);
                return Some(Shown {
                    input: without_values.unwrap_or(Some(shown)),
                    tool: Some(tool),
                });
            }
            Input::CallFinished { .. } | Input::HandlerMessage { .. } => {
                return self.without_values(input);
            }
            Input::Model(_)
            | Input::Connection(_)
            | Input::Request(_)
            | Input::Client(_)
            | Input::RateChecked { .. }
            | Input::Shutdown
            | Input::Tick => return None,
        };
        Some(Shown {
            input: Some(shown),
            tool: Some(tool),
        })
    }

    /// Calls without sensitive arguments. A call that does not fit its tool, or has none, loses all its arguments: their
    /// sensitive parts cannot be found.
    fn calls(&mut self, calls: &[IncomingCall]) -> Option<(Vec<IncomingCall>, ToolId)> {
        let mut shown = calls.to_vec();
        let mut tool_of_sensitive = None;
        for call in &mut shown {
            let Ok(arguments) = &mut call.arguments else {
                continue;
            };
            let tool = call
                .name
                .as_deref()
                .and_then(|name| self.registry.get(name));
            let whole = [String::new()];
            let (tool, hidden) = match tool {
                Some(tool) if tool.sensitive.is_empty() => continue,
                Some(tool) if fits(tool, arguments) => (tool, tool.sensitive.as_slice()),
                Some(tool) => (tool, whole.as_slice()),
                None => match marking(&self.registry) {
                    Some(tool) => (tool, whole.as_slice()),
                    None => continue,
                },
            };
            let left = without_sensitive(arguments, hidden).into_owned();
            if left != *arguments {
                self.secrets.add(arguments, hidden);
                *arguments = left;
                tool_of_sensitive = Some(tool.id.clone());
            }
        }
        Some((shown, tool_of_sensitive?))
    }

    /// A handler's arguments for another tool, treated like those of a model's call. A value that is no object is no tool's
    /// arguments.
    fn nested(&mut self, name: &Arc<str>, arguments: &Value) -> Option<(Value, ToolId)> {
        let arguments = arguments.as_object()?.clone();
        let call = IncomingCall {
            id: None,
            name: Some(name.clone()),
            arguments: Ok(arguments.into()),
        };
        let (calls, tool) = self.calls(&[call])?;
        let shown = calls.into_iter().next()?.arguments.ok()?;
        Some((Value::Object(shown.to_map()), tool))
    }

    /// Leaves the sensitive arguments out of rows of the ledger, and the results of calls with such arguments: a result may
    /// repeat them. Returns the tool for whose sake something was left out.
    fn hide_rows(&mut self, input: &mut Input) -> Option<ToolId> {
        let mut hidden = None;
        match input {
            Input::Began(began) => {
                for (id, arguments) in began.arguments_mut() {
                    hidden = self.hide(id, arguments).then(|| id.clone()).or(hidden);
                }
                if let Some(saved) = &mut began.saved {
                    // The pending words may be any tool's.
                    let marking = marking(&self.registry).map(|tool| tool.id.clone());
                    if marking.is_some() && saved.forget_pending_words() {
                        hidden = hidden.or(marking);
                    }
                }
                for question in began
                    .questions
                    .iter_mut()
                    .chain(&mut began.unheard_questions)
                {
                    hidden = self.hide_question(question).or(hidden);
                }
                for effect in began.unheard.iter_mut().chain(&mut began.at_work) {
                    hidden = self.hide_effect(effect).or(hidden);
                }
            }
            Input::Answered {
                question: Some(question),
                ..
            } => hidden = self.hide_question(question),
            Input::Decided {
                reply: Ok(reply), ..
            }
            | Input::Recorded {
                reply: Ok(reply), ..
            } => hidden = self.hide_reply(reply),
            Input::News(news) => {
                for news in news {
                    hidden = self.hide_news(news).or(hidden);
                }
            }
            _ => {}
        }
        hidden
    }

    fn hide_news(&mut self, news: &mut News) -> Option<ToolId> {
        match news {
            News::Effect(effect) => self.hide_effect(effect),
            News::Question(question) => self.hide_question(question),
            // Sensitive arguments are never among the values of a standing approval.
            News::Asked(_)
            | News::TicketReply(_)
            | News::State { .. }
            | News::CancelRequested(_)
            | News::Standing(_) => None,
        }
    }

    fn hide_reply(&mut self, reply: &mut Reply) -> Option<ToolId> {
        match reply {
            Reply::Run(run) => self.hide_question(run.question.as_mut()?),
            Reply::Ask(asked) => self.hide_question(&mut asked.question),
            Reply::Attach(effect)
            | Reply::Replay(effect)
            | Reply::LookUp { effect, .. }
            | Reply::Unknown(effect)
            | Reply::Recorded(effect)
            | Reply::TooLate(effect) => self.hide_effect(effect),
            Reply::Denied(question) | Reply::Changed(question) => self.hide_question(question),
            Reply::Done
            | Reply::Foreign
            | Reply::Crowded(_)
            | Reply::Gone
            | Reply::Opened(_)
            | Reply::Attached { .. }
            | Reply::Resumed(_)
            | Reply::NotResumed
            | Reply::Appended(_)
            | Reply::EntryTooLong
            | Reply::Expired
            | Reply::Answered
            | Reply::Conflict
            | Reply::Refused(_)
            | Reply::Missing
            | Reply::Revoked(_)
            | Reply::InUse
            | Reply::Settled(_) => None,
        }
    }

    fn hide_question(&mut self, question: &mut Question) -> Option<ToolId> {
        let tool = question.tool.clone();
        let mut is_less = self.hide_text(&tool, &mut question.arguments);
        for earlier in &mut question.hazards.earlier {
            is_less |= self.hide_text(&tool, &mut earlier.arguments);
        }
        if is_less {
            // The preview may show sensitive arguments.
            question.preview.0.clear();
        }
        is_less.then_some(tool)
    }

    fn hide_effect(&mut self, effect: &mut Effect) -> Option<ToolId> {
        let tool = effect.tool.clone();
        let is_less = self.hide_text(&tool, &mut effect.arguments);
        if is_less {
            effect.receipt = None;
        }
        is_less.then_some(tool)
    }

    /// The same for arguments in the ledger's form. Unreadable arguments are left out as a whole.
    fn hide_text(&mut self, tool: &ToolId, text: &mut Sensitive<String>) -> bool {
        let read = serde_json::from_str::<Arguments>(text.expose());
        let is_read = read.is_ok();
        let mut arguments = Sensitive(Arc::new(read.unwrap_or_default()));
        let is_less = self.hide(tool, &mut arguments) || !is_read;
        if is_less {
            let written = serde_json::to_string(&**arguments.expose());
            *text = Sensitive(written.unwrap_or_default());
        }
        is_less
    }

    fn hide(&mut self, tool: &ToolId, arguments: &mut Sensitive<Arc<Arguments>>) -> bool {
        // A row may be of any version of the tool.
        let versions = self.registry.versions_of(tool.as_str());
        let sensitive: Vec<String> = versions.flat_map(|tool| tool.sensitive.clone()).collect();
        let left = without_sensitive(arguments.expose(), &sensitive).into_owned();
        let is_less = left != **arguments.expose();
        if is_less {
            self.secrets.add(arguments.expose(), &sensitive);
            *arguments = Sensitive(Arc::new(left));
        }
        is_less
    }

    /// A tool's result or message, without texts that hold hidden arguments.
    fn without_values(&self, input: &Input) -> Option<Shown> {
        if self.secrets.is_empty() {
            return None;
        }
        let mut value = serde_json::to_value(input).unwrap_or_default();
        self.secrets.hide(&mut value).then(|| Shown {
            input: serde_json::from_value(value).ok(),
            tool: None,
        })
    }
}

/// A tool that marks arguments as sensitive, if there is one.
fn marking(registry: &Registry) -> Option<&Arc<Tool>> {
    let mut versions = registry.all_versions();
    versions.find(|tool| !tool.sensitive.is_empty())
}

/// Whether the arguments fit the tool, so that its pointers find every sensitive part in them.
fn fits(tool: &Tool, arguments: &Arguments) -> bool {
    let mut completed = arguments.clone();
    tool.parameters.apply_defaults(&mut completed);
    tool.parameters.argument_violations(&completed).is_empty()
}
