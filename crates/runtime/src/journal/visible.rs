//! What a journal may show of a session's inputs: all but the arguments that tools mark as sensitive, and what holds their
//! values. Knows no file.

use crate::redaction::{Secrets, without_sensitive};
use std::sync::Arc;
use windlass_session::client::ClientEvent;
use windlass_session::io::{Continued, FoundQuestion, Input, LedgerEntry, Spared};
use windlass_session::model::{IncomingCall, ModelEvent};
use windlass_session::snapshot::Restored;
use windlass_tool::arguments::Arguments;
use windlass_tool::id::ToolId;
use windlass_tool::registry::{Registry, Tool};
use windlass_tool::sensitive::Sensitive;

/// What one session's journal shows.
pub(super) struct Visible {
    registry: Arc<Registry>,
    /// What was left out so far.
    secrets: Secrets,
}

/// An input of which something is left out.
pub(super) struct Shown {
    /// `None` where nothing of it can be shown.
    pub(super) input: Option<Input>,
    /// The tool for whose sake the journal is partial from here on.
    pub(super) tool: Option<ToolId>,
}

impl Visible {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            secrets: Secrets::default(),
        }
    }

    /// An input without what must not be shown; `None` where nothing has to be left out.
    pub(super) fn of(&mut self, input: &Input) -> Option<Shown> {
        let (shown, tool) = match input {
            Input::Client(ClientEvent::Image { mime_type, .. }) => {
                // What the core does with an image does not depend on its data.
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
            Input::Continued(continued) => {
                let (continued, tool) = self.continued(continued)?;
                (Input::Continued(continued), tool)
            }
            Input::Restored(restored) => {
                let (restored, tool) = self.restored(restored)?;
                (Input::Restored(Box::new(restored)), tool)
            }
            // A proposal or a reservation that is refused may bring what the same call came to earlier.
            Input::CallFinished { .. }
            | Input::HandlerMessage { .. }
            | Input::LookedUp { .. }
            | Input::Proposed { .. }
            | Input::Reserved(_) => return self.without_values(input),
            Input::Model(_)
            | Input::Connection(_)
            | Input::Client(_)
            | Input::Recorded { .. }
            | Input::Declined { .. }
            | Input::RateChecked { .. }
            | Input::ChangedElsewhere
            | Input::Shutdown
            | Input::Tick => return None,
            Input::Ledger(_)
            | Input::EffectAwaited { .. }
            | Input::LookupSpared { .. }
            | Input::ApprovalFound { .. } => {
                let mut shown = input.clone();
                let tool = self.hide_answers(&mut shown)?;
                (shown, tool)
            }
        };
        Some(Shown {
            input: Some(shown),
            tool: Some(tool),
        })
    }

    /// Calls without sensitive arguments. Of one that does not fit its tool, or has none, nobody can say which are.
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

    /// The same of questions that an earlier session has asked, and without what came of others.
    fn continued(&mut self, continued: &Continued) -> Option<(Continued, ToolId)> {
        let mut shown = continued.clone();
        let mut tool_of_sensitive = None;
        for question in &mut shown.questions {
            if self.hide(&question.tool, &mut question.arguments) {
                tool_of_sensitive = Some(question.tool.clone());
            }
        }
        for approved in &mut shown.approved {
            if self.marks(&approved.tool) && approved.response.take().is_some() {
                tool_of_sensitive = Some(approved.tool.clone());
            }
        }
        Some((shown, tool_of_sensitive?))
    }

    /// The same of all that a session has left whose process has ended.
    fn restored(&mut self, restored: &Restored) -> Option<(Restored, ToolId)> {
        let mut shown = restored.clone();
        let mut tool_of_sensitive = None;
        for (id, arguments) in shown.arguments_mut() {
            if self.hide(id, arguments) {
                tool_of_sensitive = Some(id.clone());
            }
        }
        for entry in &mut shown.effects {
            tool_of_sensitive = self.hide_answer(entry).or(tool_of_sensitive);
        }
        // Which tool's words wait there to be said, nobody knows any more.
        let marking = marking(&self.registry).map(|tool| tool.id.clone());
        if marking.is_some() && shown.forget_pending_words() {
            tool_of_sensitive = tool_of_sensitive.or(marking);
        }
        Some((shown, tool_of_sensitive?))
    }

    /// Leaves out what effects of earlier sessions came to, where their tools mark arguments as sensitive: nobody knows here
    /// what those were.
    fn hide_answers(&mut self, input: &mut Input) -> Option<ToolId> {
        match input {
            Input::Ledger(Ok(remembered)) => remembered
                .effects
                .iter_mut()
                .fold(None, |tool, entry| self.hide_answer(entry).or(tool)),
            Input::EffectAwaited {
                entry: Some(entry), ..
            }
            | Input::LookupSpared {
                reason: Spared::Settled(entry),
                ..
            } => self.hide_answer(entry),
            Input::ApprovalFound {
                found: Ok(Some(found)),
                ..
            } => self.hide_found(found),
            _ => None,
        }
    }

    fn hide_found(&mut self, found: &mut FoundQuestion) -> Option<ToolId> {
        match found {
            FoundQuestion::Open(question) => {
                let tool = question.tool.clone();
                self.hide(&tool, &mut question.arguments).then_some(tool)
            }
            FoundQuestion::Approved(question) | FoundQuestion::Declined(question) => {
                let is_hidden = self.marks(&question.tool) && question.response.take().is_some();
                is_hidden.then(|| question.tool.clone())
            }
        }
    }

    fn hide_answer(&self, entry: &mut LedgerEntry) -> Option<ToolId> {
        let is_hidden = self.marks(&entry.tool) && entry.response.take().is_some();
        is_hidden.then(|| entry.tool.clone())
    }

    fn marks(&self, tool: &ToolId) -> bool {
        let tool = self.registry.get(tool.as_str());
        tool.is_some_and(|tool| !tool.sensitive.is_empty())
    }

    fn hide(&mut self, tool: &ToolId, arguments: &mut Sensitive<Arc<Arguments>>) -> bool {
        let Some(tool) = self.registry.get(tool.as_str()) else {
            return false;
        };
        let left = without_sensitive(arguments.expose(), &tool.sensitive).into_owned();
        let is_less = left != **arguments.expose();
        if is_less {
            self.secrets.add(arguments.expose(), &tool.sensitive);
            *arguments = Sensitive(Arc::new(left));
        }
        is_less
    }

    /// What a tool brings or says, without texts that hold what was left out of a call.
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

/// A tool that marks arguments as sensitive, where there is one.
fn marking(registry: &Registry) -> Option<&Arc<Tool>> {
    registry.tools().find(|tool| !tool.sensitive.is_empty())
}

/// Whether a tool takes these arguments, so that its pointers say all of where in them something sensitive is.
fn fits(tool: &Tool, arguments: &Arguments) -> bool {
    let mut completed = arguments.clone();
    tool.parameters.apply_defaults(&mut completed);
    tool.parameters.argument_violations(&completed).is_empty()
}
