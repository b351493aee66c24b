//! The words of user and model: pieces gathered into utterances, the bounded record of a session and its entries in the log, the
//! beginning of user turns, the output that an interruption makes void, and whether the model may be heard. Knows no turn but by its
//! number.

use crate::client::{Citation, ClientUpdate, Image, MessageKey};
use crate::event::SessionEvent;
use crate::io::Output;
use crate::log_text::{Said, SaidCall};
use crate::model::{Role, TranscriptEntry};
use crate::state::ApplicationState;
use crate::step::SessionStep;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use windlass_contract::envelope::{Outcome, ToolResponse};
use windlass_contract::handler::ContentPart;
use windlass_contract::kind::Category;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_store::{EntryEvent, LegNumber};

/// The longest utterance that is written down, in bytes. Words beyond it still reach their recipient.
const UTTERANCE_BYTES_MAX: usize = 16_384;
/// Bytes of a picture's address and caption together. A longer address holds the picture itself, and is too long to stand beside words.
const IMAGE_BYTES_MAX: usize = 4_096;
/// The members of which a citing object has at least one.
const CITING_MEMBERS: [&str; 4] = ["id", "record", "results", "items"];

/// One utterance.
pub(crate) struct Words {
    role: Role,
    text: Sensitive<String>,
    message: Option<MessageKey>,
    citations: Vec<Citation>,
    images: Vec<Image>,
}

impl Words {
    pub(crate) fn of_user(text: &str, message: Option<MessageKey>) -> Self {
        Self {
            role: Role::User,
            text: Sensitive(text.to_owned()),
            message,
            citations: Vec::new(),
            images: Vec::new(),
        }
    }
}

/// The output that the user's interruption has made void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Interruption {
    #[default]
    Nothing,
    /// The provider still owes the end of an interrupted turn. That end ends nothing here.
    OwesTurnEnd,
    /// The same, and further output is void until the provider ends the answer. Once the provider knows of the interruption, too, it
    /// answers the input from then on.
    Discarding { is_known: bool },
}

/// The words of user and model, and whether the model is heard.
#[derive(Debug, Default)]
pub(crate) struct Speech {
    transcript: Transcript,
    user_turn: UserTurn,
    interruption: Interruption,
    /// The driver was told that the model is not to be heard.
    is_suppressed: bool,
}

impl Speech {
    /// Takes up a session from another process. The session has written so many entries of the log.
    pub(crate) fn restored(entries: LegNumber, onset: Option<LegNumber>) -> Self {
        Self {
            user_turn: UserTurn::restored(entries, onset),
            ..Self::default()
        }
    }

    pub(crate) fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub(crate) fn onset(&self) -> Option<LegNumber> {
        self.user_turn.onset
    }

    pub(crate) fn last_entry(&self) -> LegNumber {
        LegNumber(self.user_turn.entries)
    }

    /// The number of the session's next entry.
    pub(crate) fn next_entry(&mut self) -> LegNumber {
        self.user_turn.next_entry()
    }

    /// The user is heard.
    pub(crate) fn heard_user(&mut self, step: &mut SessionStep) {
        if let Some(onset) = self.user_turn.heard() {
            step.append(onset, EntryEvent::Onset);
        }
    }

    /// The user typed, in this message of the client's.
    pub(crate) fn typed(&mut self, message: Option<MessageKey>, step: &mut SessionStep) {
        if let Some(onset) = self.user_turn.typed(message) {
            step.append(onset, EntryEvent::Onset);
        }
    }

    /// The user's words were taken for finished.
    pub(crate) fn user_ended(&mut self) {
        self.user_turn.is_speaking = false;
    }

    /// A piece of an utterance.
    pub(crate) fn piece(
        &mut self,
        role: Role,
        piece: &str,
        state: &ApplicationState,
        step: &mut SessionStep,
    ) {
        self.transcript.append(role, piece);
        if !is_hidden(role, state) {
            show(role, piece.to_owned(), false, step);
        }
    }

    /// The user's words, as the provider finally understands them.
    pub(crate) fn transcribed(&mut self, text: &str, turn: u64, step: &mut SessionStep) {
        show(Role::User, text.to_owned(), true, step);
        self.say(Words::of_user(text, None), turn, step);
    }

    /// Reports and records one speaker's full utterance.
    pub(crate) fn finish(
        &mut self,
        role: Role,
        turn: u64,
        state: &ApplicationState,
        step: &mut SessionStep,
    ) {
        let Some(words) = self.transcript.finish(role) else {
            return;
        };
        if !is_hidden(role, state) {
            step.tell_client(ClientUpdate::Transcript {
                role,
                text: words.text.clone(),
                is_final: true,
                citations: words.citations.clone(),
                images: words.images.clone(),
            });
        }
        self.say(words, turn, step);
    }

    /// Records an utterance of this turn.
    pub(crate) fn say(&mut self, words: Words, turn: u64, step: &mut SessionStep) {
        let Words {
            role,
            mut text,
            message,
            citations,
            images,
        } = words;
        cut(&mut text, usize::MAX);
        let number = self.user_turn.next_entry();
        self.keep(role, &text, turn, number, step);
        let said = Said::Words {
            role,
            text: text.clone(),
            turn,
            message,
            citations,
            images,
        };
        step.append(number, said.event());
        step.event(SessionEvent::Transcript { role, text, turn });
    }

    /// Keeps an utterance that has this number in the log already.
    pub(crate) fn keep(
        &mut self,
        role: Role,
        text: &Sensitive<String>,
        turn: u64,
        number: LegNumber,
        step: &SessionStep,
    ) {
        let entry = TranscriptEntry {
            role,
            text: text.clone(),
            at: step.now,
            turn,
        };
        let characters_max = step.limits().transcript_characters_max;
        self.transcript.record(entry, number, characters_max);
    }

    /// Writes a notice to the model into the log.
    pub(crate) fn note(&mut self, text: &str, step: &mut SessionStep) {
        let said = Said::Notice {
            text: Sensitive(text.to_owned()),
        };
        step.append(self.user_turn.next_entry(), said.event());
    }

    /// Writes a call and its result into the log.
    pub(crate) fn log_call(&mut self, said: &SaidCall<'_>, step: &mut SessionStep) {
        step.append(self.user_turn.next_entry(), said.event());
    }

    /// Moves the user's words from one turn to another, after so many entries of the whole.
    pub(crate) fn refile(&mut self, recorded: u64, from: u64, to: u64) {
        self.transcript.refile(recorded, from, to);
    }

    /// Forgets citations and pictures that no answer used.
    pub(crate) fn drop_citations(&mut self) {
        self.transcript.drop_citations();
    }

    /// Adds a picture that the client is shown, for the answer to name.
    pub(crate) fn show_image(&mut self, image: Image, step: &SessionStep) {
        self.transcript.show(image, step.limits().citations_max);
    }

    /// Gathers the sources that the provider's own tools found for the model's answer.
    pub(crate) fn cite(&mut self, sources: Vec<Citation>, step: &SessionStep) {
        for source in sources {
            self.transcript
                .push_citation(source, step.limits().citations_max);
        }
    }

    /// Gathers the citations of a result for the model's answer, and the pictures in it. Pictures that the client was shown since are
    /// among them, with their captions.
    pub(crate) fn collect(&mut self, tool: &Tool, response: &ToolResponse, step: &SessionStep) {
        let Outcome::Success { data, content } = &response.outcome else {
            return;
        };
        for ContentPart::Image { url, .. } in content {
            let (url, caption) = (url.clone(), None);
            self.show_image(Image { url, caption }, step);
        }
        let data = data.as_ref();
        let data = data.filter(|_| tool.category == Category::Retrieval);
        // A look at the names spares most results the parsing into a tree.
        let data = data.filter(|data| data.has_any(&CITING_MEMBERS));
        if let Some(data) = data.and_then(|data| data.as_object()) {
            self.transcript.cite(data, step.limits().citations_max);
        }
    }

    /// Frees the room for words to come.
    pub(crate) fn give_room_back(&mut self) {
        self.transcript.give_room_back();
    }
}

// Interruption and suppression.
impl Speech {
    /// Whether the model's output is void.
    pub(crate) fn is_discarding(&self) -> bool {
        matches!(self.interruption, Interruption::Discarding { .. })
    }

    /// Whether an interruption waits for an end of the provider's.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interruption != Interruption::Nothing
    }

    /// Throws away the current answer, if there is one.
    pub(crate) fn interrupt(
        &mut self,
        is_answering: bool,
        is_complete: bool,
        step: &mut SessionStep,
    ) {
        step.push(Output::DiscardAudio);
        match (is_answering, is_complete) {
            (true, true) => self.interruption = Interruption::OwesTurnEnd,
            (true, false) => self.interruption = Interruption::Discarding { is_known: false },
            (false, _) => {}
        }
    }

    /// The interruption is carried out. If nothing of an answer can follow, the next may be heard.
    pub(crate) fn interrupted(&self, step: &mut SessionStep) {
        if !self.is_discarding() {
            step.push(Output::AcceptAudio);
        }
    }

    /// The provider knows that the user has interrupted.
    pub(crate) fn interruption_known(&mut self) {
        if let Interruption::Discarding { is_known } = &mut self.interruption {
            *is_known = true;
        }
    }

    /// The user certainly says something: a provider that knows of the interruption answers that.
    pub(crate) fn certain_input(&mut self, step: &mut SessionStep) {
        if self.interruption == (Interruption::Discarding { is_known: true }) {
            self.interruption = Interruption::OwesTurnEnd;
            step.push(Output::AcceptAudio);
        }
    }

    /// The provider has ended the answer, or its connection is gone. Returns whether an interruption waited for that.
    pub(crate) fn answer_ended(&mut self, step: &mut SessionStep) -> bool {
        let interruption = std::mem::take(&mut self.interruption);
        if matches!(interruption, Interruption::Discarding { .. }) {
            step.push(Output::AcceptAudio);
        }
        interruption != Interruption::Nothing
    }

    /// Tells the driver whether the model may be heard.
    pub(crate) fn suppress(&mut self, state: &ApplicationState, step: &mut SessionStep) {
        let suppress = state.suppress_audio;
        if std::mem::replace(&mut self.is_suppressed, suppress) != suppress {
            step.push(Output::SuppressAudio(suppress));
        }
    }
}

fn is_hidden(role: Role, state: &ApplicationState) -> bool {
    role == Role::Assistant && state.suppress_transcript
}

fn show(role: Role, text: String, is_final: bool, step: &mut SessionStep) {
    step.tell_client(ClientUpdate::Transcript {
        role,
        text: Sensitive(text),
        is_final,
        citations: Vec::new(),
        images: Vec::new(),
    });
}

/// The state of the user's turn, as far as effects know turns: it begins with an onset, and the model's acts without one belong to the
/// turn before.
#[derive(Debug, Default)]
struct UserTurn {
    /// The newest onset.
    onset: Option<LegNumber>,
    /// The user is speaking, so further speech is no new onset.
    is_speaking: bool,
    /// The last message that the client knows by an id.
    message: Option<MessageKey>,
    /// The leg's own entries so far.
    entries: u64,
}

impl UserTurn {
    fn restored(entries: LegNumber, onset: Option<LegNumber>) -> Self {
        Self {
            onset,
            entries: entries.0,
            ..Self::default()
        }
    }

    /// The number of the next entry of the leg.
    fn next_entry(&mut self) -> LegNumber {
        self.entries += 1;
        LegNumber(self.entries)
    }

    /// The user typed. The same message once more begins nothing. Returns the number of the entry to write.
    fn typed(&mut self, message: Option<MessageKey>) -> Option<LegNumber> {
        let is_known = message.is_some() && message == self.message;
        self.message = message;
        self.is_speaking = false;
        (!is_known).then(|| self.begin())
    }

    /// The user is heard. Returns the number of the entry to write, if speech begins with it.
    fn heard(&mut self) -> Option<LegNumber> {
        let begins = !std::mem::replace(&mut self.is_speaking, true);
        begins.then(|| {
            self.message = None;
            self.begin()
        })
    }

    fn begin(&mut self) -> LegNumber {
        let onset = self.next_entry();
        self.onset = Some(onset);
        onset
    }
}

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Each entry with its number in the log.
    entries: VecDeque<(LegNumber, TranscriptEntry)>,
    bytes: usize,
    /// The number of entries ever recorded.
    recorded: u64,
    user: String,
    assistant: String,
    citations: Vec<Citation>,
    /// Whether the citations are of records that were read in full.
    has_source: bool,
    images: Vec<Image>,
}

impl Transcript {
    fn append(&mut self, role: Role, piece: &str) {
        let text = match role {
            Role::User => &mut self.user,
            Role::Assistant => &mut self.assistant,
        };
        let room = UTTERANCE_BYTES_MAX.saturating_sub(text.len());
        text.push_str(&piece[..piece.floor_char_boundary(room)]);
    }

    /// Cites the result of a retrieval: one record that was read in full, or the records that a search found. These are cited only if no
    /// record was read in full.
    fn cite(&mut self, data: &Map<String, Value>, citations_max: usize) {
        let single = data.get("record").and_then(Value::as_object);
        if let Some(citation) = citation_of(single.unwrap_or(data)) {
            if !std::mem::replace(&mut self.has_source, true) {
                self.citations.clear();
            }
            return self.push_citation(citation, citations_max);
        }
        let lists = ["results", "items"].iter();
        let lists = lists.filter_map(|key| data.get(*key)?.as_array());
        for record in lists.flatten().filter_map(Value::as_object) {
            if let Some(citation) = citation_of(record).filter(|_| !self.has_source) {
                self.push_citation(citation, citations_max);
            }
        }
    }

    fn push_citation(&mut self, citation: Citation, citations_max: usize) {
        let is_known = self.citations.iter().any(|other| other.id == citation.id);
        if !is_known && self.citations.len() < citations_max {
            self.citations.push(citation);
        }
    }

    /// Adds a picture that a call has brought. Each is there once, as it came first.
    fn show(&mut self, image: Image, images_max: usize) {
        let bytes = image.url.len() + image.caption.as_ref().map_or(0, String::len);
        let is_known = self.images.iter().any(|other| other.url == image.url);
        if !is_known && bytes <= IMAGE_BYTES_MAX && self.images.len() < images_max {
            self.images.push(image);
        }
    }

    /// Takes the gathered words of one speaker, if there are any. The assistant's come with the turn's citations and pictures.
    fn finish(&mut self, role: Role) -> Option<Words> {
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
        Some(Words {
            role,
            text: Sensitive(text.to_owned()),
            message: None,
            citations,
            images,
        })
    }

    /// Forgets citations and pictures that no answer used.
    fn drop_citations(&mut self) {
        self.citations.clear();
        self.has_source = false;
        self.images.clear();
    }

    /// Keeps an entry, and as many entries before it as there is room for. An entry that is too long is cut, so that it displaces only a
    /// part of the earlier ones.
    fn record(&mut self, mut entry: TranscriptEntry, number: LegNumber, characters_max: usize) {
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

    /// Frees the room for words to come.
    fn give_room_back(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Bytes of the words that are kept for the session's end.
    pub(crate) fn recorded_bytes(&self) -> usize {
        self.bytes
    }

    /// The number of entries recorded so far.
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

    /// The user's words in these turns, as far as they are written down.
    pub(crate) fn words_of(&self, turns: &[u64]) -> String {
        let asked = self
            .after(0)
            .filter(|entry| turns.contains(&entry.turn) && entry.role == Role::User);
        let words: Vec<&str> = asked.map(|entry| entry.text.expose().as_str()).collect();
        words.join("\n")
    }

    /// The log's number of the user's first words in these turns.
    pub(crate) fn first_number_of(&self, turns: &[u64]) -> Option<LegNumber> {
        let mut entries = self.entries.iter();
        let first =
            entries.find(|(_, entry)| turns.contains(&entry.turn) && entry.role == Role::User);
        first.map(|(number, _)| *number)
    }

    /// Moves the user's words from one turn to another, after so many entries of the whole.
    fn refile(&mut self, recorded: u64, from: u64, to: u64) {
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

/// Cuts a text to the limit of an utterance, and to `bytes_max`.
fn cut(text: &mut Sensitive<String>, bytes_max: usize) {
    let bytes_max = bytes_max.min(UTTERANCE_BYTES_MAX);
    if text.expose().len() > bytes_max {
        let end = text.expose().floor_char_boundary(bytes_max);
        *text = Sensitive(text.expose()[..end].to_owned());
    }
}

fn citation_of(record: &Map<String, Value>) -> Option<Citation> {
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    Some(Citation {
        id: text("id")?.to_owned(),
        title: text("title")?.to_owned(),
        url: text("url").map(str::to_owned),
    })
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
        assert_eq!(utterance.text.expose(), "Colin Archer.");
        assert!(transcript.finish(Role::Assistant).is_none());
        for number in 0..10 {
            let entry = TranscriptEntry {
                role: utterance.role,
                text: utterance.text.clone(),
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
        turn.is_speaking = false;
        assert_eq!(turn.heard(), Some(LegNumber(2)));
        let message = Some(MessageKey::of("m-1"));
        assert_eq!(turn.typed(message), Some(LegNumber(3)));
        assert_eq!(turn.typed(message), None);
        assert_eq!(turn.typed(None), Some(LegNumber(4)));
        assert_eq!(turn.onset, Some(LegNumber(4)));
    }

    #[test]
    fn a_session_that_goes_on_numbers_behind_what_was_written() {
        let mut turn = UserTurn::restored(LegNumber(9), Some(LegNumber(4)));
        assert_eq!(turn.onset, Some(LegNumber(4)));
        assert_eq!(turn.heard(), Some(LegNumber(10)));
        assert_eq!(turn.entries, 10);
    }

    #[test]
    fn an_endless_utterance_is_cut_at_a_character() {
        let mut transcript = Transcript::default();
        for _ in 0..10_000 {
            transcript.append(Role::Assistant, "ééé");
        }
        assert!(
            transcript
                .finish(Role::Assistant)
                .unwrap()
                .text
                .expose()
                .len()
                <= UTTERANCE_BYTES_MAX
        );
    }
}
