//! The heading of a conversation in a list, and the rest of a conversation that its user has deleted.

use super::DecisionBuilder;
use crate::command::Reply;
use crate::id::{EntryNumber, QuestionNumber};
use crate::leg::Heading;
use crate::log::{EntryEvent, QuestionState, SaidWords};
use crate::rows::Change;
use windlass_contract::sensitive::Sensitive;

impl DecisionBuilder<'_> {
    /// Counts messages, and takes the conversation's title from the first one of its user.
    pub(super) fn note_words(&mut self, event: &EntryEvent) {
        let EntryEvent::Said(said) = event else {
            return;
        };
        let Some(words) = SaidWords::of(said.expose()) else {
            return;
        };
        let heading = &mut self.conversation.heading;
        heading.messages = heading.messages.saturating_add(1);
        if words.is_users && heading.title.is_none() {
            heading.title = words.title().map(Sensitive);
        }
    }

    pub(super) fn rename(&mut self, title: &Sensitive<String>) -> Reply {
        self.conversation.heading.title = Some(title.clone());
        self.is_marked = true;
        Reply::Done
    }

    pub(super) fn erase(&mut self) -> Reply {
        if self.rows.is_live_here {
            return Reply::InUse;
        }
        self.settle_lapsed();
        let open: Vec<QuestionNumber> = self
            .questions
            .iter()
            .filter(|question| question.state == QuestionState::Open)
            .map(|question| question.number)
            .collect();
        for number in open {
            self.close_question(number, None);
        }
        // A later session under the same id is told nothing of the deleted conversation, nor of the later end of a service's task.
        self.heard();
        for effect in &mut self.effects {
            if let Some(task) = &mut effect.task {
                (task.is_deleted, task.is_sent) = (true, true);
                self.changed_effects.push(effect.effect_id.clone());
            }
        }
        self.other.push(Change::LegsEnded);
        self.conversation.standing.clear();
        self.conversation.heading = Heading::default();
        // Numbers go on, so that later words have higher numbers than earlier effects.
        self.conversation.first_entry = EntryNumber(self.conversation.last_entry.0 + 1);
        self.entries.clear();
        self.is_marked = true;
        Reply::Done
    }
}
