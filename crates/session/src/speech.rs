//! What is said: pieces gathered into utterances, the bounded record of a session, and when a user turn begins.

use crate::client::{Citation, Image, MessageKey};
use crate::model::{Role, TranscriptEntry};
use std::collections::VecDeque;
use windlass_store::LegNumber;
use windlass_tool::sensitive::Sensitive;

/// The longest utterance that is written down, in bytes; what is said or typed beyond it still reaches who it is for.
const UTTERANCE_BYTES_MAX: usize = 16_384;
/// Bytes of a picture's address and caption together. One that is longer holds the picture itself, and is too long to be said
/// beside words.
const IMAGE_BYTES_MAX: usize = 4_096;

/// Where the user's turn stands, as far as effects know turns: it begins with an onset, and what the model does without one
/// belongs to the turn before.
#[derive(Debug, Default)]
pub(crate) struct UserTurn {
    /// The newest onset.
    onset: Option<LegNumber>,
    /// The user is speaking, so that more of it is no new onset.
    is_speaking: bool,
    /// The last message that the client knows by an id.
    message: Option<MessageKey>,
    /// The leg's own entries so far.
    entries: u64,
}

impl UserTurn {
    pub(crate) fn restored(entries: LegNumber, onset: Option<LegNumber>) -> Self {
        Self {
            onset,
            entries: entries.0,
            ..Self::default()
        }
    }

    pub(crate) fn onset(&self) -> Option<LegNumber> {
        self.onset
    }

    /// The number of the next entry of the leg.
    pub(crate) fn next_entry(&mut self) -> LegNumber {
        self.entries += 1;
        LegNumber(self.entries)
    }

    pub(crate) fn last_entry(&self) -> LegNumber {
        LegNumber(self.entries)
    }

    /// The user typed. The same message once more begins nothing. Gives the entry that is to be written.
    pub(crate) fn typed(&mut self, message: Option<MessageKey>) -> Option<LegNumber> {
        let is_known = message.is_some() && message == self.message;
        self.message = message;
        self.is_speaking = false;
        (!is_known).then(|| self.begin())
    }

    /// The user is heard. Gives the entry that is to be written where that is the beginning.
    pub(crate) fn heard(&mut self) -> Option<LegNumber> {
        let begins = !std::mem::replace(&mut self.is_speaking, true);
        begins.then(|| {
            self.message = None;
            self.begin()
        })
    }

    /// What the user said has been taken for finished.
    pub(crate) fn ended(&mut self) {
        self.is_speaking = false;
    }

    fn begin(&mut self) -> LegNumber {
        let onset = self.next_entry();
        self.onset = Some(onset);
        onset
    }
}

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Each with the number that it has in the log.
    entries: VecDeque<(LegNumber, TranscriptEntry)>,
    bytes: usize,
    /// Entries that were ever recorded.
    recorded: u64,
    user: String,
    assistant: String,
    citations: Vec<Citation>,
    /// Whether the citations are of records that were read in full.
    has_source: bool,
    images: Vec<Image>,
}

/// A finished utterance.
pub(crate) struct Utterance {
    pub(crate) role: Role,
    pub(crate) text: String,
    pub(crate) citations: Vec<Citation>,
    pub(crate) images: Vec<Image>,
}

impl Transcript {
    pub(crate) fn append(&mut self, role: Role, piece: &str) {
        let text = match role {
            Role::User => &mut self.user,
            Role::Assistant => &mut self.assistant,
        };
        let room = UTTERANCE_BYTES_MAX.saturating_sub(text.len());
        text.push_str(&piece[..piece.floor_char_boundary(room)]);
    }

    /// A record that a search found. It is cited only where no record was read in full.
    pub(crate) fn cite_candidate(&mut self, citation: Citation, citations_max: usize) {
        if !self.has_source {
            self.push_citation(citation, citations_max);
        }
    }

    /// A record that was read in full.
    pub(crate) fn cite_source(&mut self, citation: Citation, citations_max: usize) {
        if !std::mem::replace(&mut self.has_source, true) {
            self.citations.clear();
        }
        self.push_citation(citation, citations_max);
    }

    fn push_citation(&mut self, citation: Citation, citations_max: usize) {
        let is_known = self.citations.iter().any(|other| other.id == citation.id);
        if !is_known && self.citations.len() < citations_max {
            self.citations.push(citation);
        }
    }

    /// A picture that a call has brought. Each is there once, as it came first.
    pub(crate) fn show(&mut self, image: Image, images_max: usize) {
        let bytes = image.url.len() + image.caption.as_ref().map_or(0, String::len);
        let is_known = self.images.iter().any(|other| other.url == image.url);
        if !is_known && bytes <= IMAGE_BYTES_MAX && self.images.len() < images_max {
            self.images.push(image);
        }
    }

    /// Takes what was gathered of one speaker, if anything was. The assistant's comes with the turn's citations and pictures.
    pub(crate) fn finish(&mut self, role: Role) -> Option<Utterance> {
        let gathered = match role {
            Role::User => std::mem::take(&mut self.user),
            Role::Assistant => std::mem::take(&mut self.assistant),
        };
        let text = gathered.trim();
        if text.is_empty() {
            return None;
        }
        let (citations, images) = match role {
            Role::User => (Vec::new(), Vec::new()),
            Role::Assistant => {
                self.has_source = false;
                (
                    std::mem::take(&mut self.citations),
                    std::mem::take(&mut self.images),
                )
            }
        };
        Some(Utterance {
            role,
            text: text.to_owned(),
            citations,
            images,
        })
    }

    /// Forgets citations and pictures that no answer used.
    pub(crate) fn drop_citations(&mut self) {
        self.citations.clear();
        self.has_source = false;
        self.images.clear();
    }

    /// Keeps an entry, and of those before it what there is room for. One that is too long is cut, so that it costs no more
    /// than a part of what was said before.
    pub(crate) fn record(
        &mut self,
        mut entry: TranscriptEntry,
        number: LegNumber,
        characters_max: usize,
    ) {
        cut(&mut entry.text, characters_max);
        self.recorded += 1;
        if entry.text.expose().is_empty() {
            return;
        }
        self.bytes += entry.text.expose().len();
        self.entries.push_back((number, entry));
        while self.bytes > characters_max {
            let Some((_, oldest)) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.text.expose().len();
        }
    }

    /// Keeps no room for what is to be said.
    pub(crate) fn give_room_back(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Of what is kept for the session's end.
    pub(crate) fn recorded_bytes(&self) -> usize {
        self.bytes
    }

    /// How many entries were recorded so far.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded
    }

    /// The entries that were recorded after so many others, as far as they are kept.
    pub(crate) fn after(&self, recorded: u64) -> impl Iterator<Item = &TranscriptEntry> {
        let forgotten = self.recorded - self.entries.len() as u64;
        let known = recorded.saturating_sub(forgotten);
        self.entries
            .iter()
            .skip(usize::try_from(known).unwrap_or(usize::MAX))
            .map(|(_, entry)| entry)
    }

    /// The log's number of the first that the user said in these turns.
    pub(crate) fn first_number_of(&self, turns: &[u64]) -> Option<LegNumber> {
        let mut entries = self.entries.iter();
        let first =
            entries.find(|(_, entry)| turns.contains(&entry.turn) && entry.role == Role::User);
        first.map(|(number, _)| *number)
    }

    /// What the user said in one turn, after so many entries of the whole, belongs to another.
    pub(crate) fn refile(&mut self, recorded: u64, from: u64, to: u64) {
        let forgotten = self.recorded - self.entries.len() as u64;
        let known = usize::try_from(recorded.saturating_sub(forgotten)).unwrap_or(usize::MAX);
        let since = self.entries.iter_mut().map(|(_, entry)| entry).skip(known);
        for entry in since.filter(|entry| entry.role == Role::User && entry.turn == from) {
            entry.turn = to;
        }
    }

    pub(crate) fn entries(&self) -> Vec<TranscriptEntry> {
        self.entries
            .iter()
            .map(|(_, entry)| entry.clone())
            .collect()
    }
}

/// Leaves of a text what an utterance may have, and no more than `bytes_max`.
pub(crate) fn cut(text: &mut Sensitive<String>, bytes_max: usize) {
    let bytes_max = bytes_max.min(UTTERANCE_BYTES_MAX);
    if text.expose().len() > bytes_max {
        let end = text.expose().floor_char_boundary(bytes_max);
        *text = Sensitive(text.expose()[..end].to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn pieces_become_one_utterance_and_the_record_stays_bounded() {
        let mut transcript = Transcript::default();
        for piece in [" Colin", " Archer", "."] {
            transcript.append(Role::Assistant, piece);
        }
        let utterance = transcript.finish(Role::Assistant).unwrap();
        assert_eq!(utterance.text, "Colin Archer.");
        assert!(transcript.finish(Role::Assistant).is_none());
        for number in 0..10 {
            let entry = TranscriptEntry {
                role: utterance.role,
                text: Sensitive(utterance.text.clone()),
                at: Timestamp(1),
                turn: 1,
            };
            transcript.record(entry, LegNumber(number), 40);
        }
        assert_eq!(transcript.entries().len(), 3);
    }

    #[test]
    fn a_user_turn_begins_once_however_many_pieces_it_comes_in() {
        let mut turn = UserTurn::default();
        assert_eq!(turn.heard(), Some(LegNumber(1)));
        assert_eq!(turn.heard(), None);
        turn.ended();
        assert_eq!(turn.heard(), Some(LegNumber(2)));
        let message = Some(MessageKey::of("m-1"));
        assert_eq!(turn.typed(message), Some(LegNumber(3)));
        assert_eq!(turn.typed(message), None);
        assert_eq!(turn.typed(None), Some(LegNumber(4)));
        assert_eq!(turn.onset(), Some(LegNumber(4)));
    }

    #[test]
    fn a_session_that_goes_on_numbers_behind_what_was_written() {
        let mut turn = UserTurn::restored(LegNumber(9), Some(LegNumber(4)));
        assert_eq!(turn.onset(), Some(LegNumber(4)));
        assert_eq!(turn.heard(), Some(LegNumber(10)));
        assert_eq!(turn.last_entry(), LegNumber(10));
    }

    #[test]
    fn an_endless_utterance_is_cut_at_a_character() {
        let mut transcript = Transcript::default();
        for _ in 0..10_000 {
            transcript.append(Role::Assistant, "ééé");
        }
        assert!(transcript.finish(Role::Assistant).unwrap().text.len() <= UTTERANCE_BYTES_MAX);
    }
}
