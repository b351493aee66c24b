//! A conversation, neutral between providers: the user's words and pictures, the model's words and calls, and the calls' answers.
//! Grows at its end only, within bounds. Knows no wire format, no policy and no clock.
//!
//! A call's answer lives in the call, and a call in the answer that made it. So no prefix of a conversation and no cut of a
//! [`Window`] separates a call from its answer: an open call is read as a call with an unknown outcome.

mod entry;
mod pictures;
mod steps;
mod window;

pub use entry::{Arguments, Call, Entry, Image, Opaque, Route, TextPiece, UnreadItem, own_call_id};
pub use window::Window;

pub(crate) use entry::{Piece, wire_name};
pub(crate) use steps::{FOUND, Found, ModelItem, Sees, Step, UserItem};

use windlass_contract::envelope::Projection;
use windlass_contract::sensitive::Sensitive;
use windlass_session::model::ModelToolResponse;

/// Limits of a log. Beyond one of the first two the oldest turns are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes_max: usize,
    pub turns_max: usize,
    pub text_bytes_max: usize,
    /// Bytes of the picture itself, not of its text form.
    pub image_bytes_max: usize,
    /// Pieces of one answer, calls among them.
    pub pieces_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes_max: 16 << 20,
            turns_max: 500,
            text_bytes_max: 1 << 20,
            image_bytes_max: 8 << 20,
            pieces_max: 256,
        }
    }
}

/// The reason why an entry was not taken. The log is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    #[error("the entry holds nothing but blanks")]
    Blank,
    #[error("a {what} of {bytes} bytes is longer than the {bytes_max} that a conversation takes")]
    TooLong {
        what: &'static str,
        bytes: usize,
        bytes_max: usize,
    },
    #[error("one answer may hold {pieces_max} pieces")]
    TooManyPieces { pieces_max: usize },
    #[error("the turn is longer than the {bytes_max} bytes that a conversation takes")]
    TurnTooLong { bytes_max: usize },
    #[error("no call of the conversation waits for this answer")]
    NoOpenCall,
}

/// One conversation.
#[derive(Clone, Debug)]
pub struct ConversationLog {
    limits: Limits,
    messages: Vec<Message>,
    bytes: usize,
    turns: usize,
    answers: u32,
    turns_forgotten: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    body: Body,
    size: Size,
}

#[derive(Clone, Debug)]
enum Body {
    User(Vec<UserPart>),
    Answer(AnswerMessage),
}

#[derive(Clone, Debug)]
enum UserPart {
    Text(Sensitive<String>),
    Image(Image),
    Notice(Sensitive<String>),
    Interrupted,
}

/// The answer to one request, or several pieces of it so far.
#[derive(Clone, Debug)]
pub(crate) struct AnswerMessage {
    pub(crate) route: Route,
    pub(crate) number: u32,
    pub(crate) pieces: Vec<LoggedPiece>,
    /// Opaque data of the answer as a whole, which goes back with it.
    pub(crate) opaque: Option<Opaque>,
}

#[derive(Clone, Debug)]
pub(crate) struct LoggedPiece {
    pub(crate) piece: Piece,
    /// A call's result; `None` for any other piece.
    pub(crate) result: Option<Projection>,
    /// Pictures of the result that came from this server's disk. The result holds the others as addresses.
    pub(crate) pictures: Vec<Image>,
}

/// A size: characters count in the model's window, bytes in our memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    characters: usize,
    bytes: usize,
}

impl Size {
    fn of(text: &str) -> Self {
        Self {
            characters: text.chars().count(),
            bytes: text.len(),
        }
    }

    fn add(&mut self, other: Self) {
        self.characters += other.characters;
        self.bytes += other.bytes;
    }
}

/// Characters that a picture counts in a window: 1,120 tokens, the most that Gemini 3 spends on one at its default resolution
/// (<https://ai.google.dev/gemini-api/docs/media-resolution>), at four characters each.
const IMAGE_CHARACTERS: usize = 4_480;
/// Memory of one entry beside its text.
const ENTRY_BYTES: usize = 128;

impl Default for ConversationLog {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl ConversationLog {
    pub fn new(limits: Limits) -> Self {
        Self::counting_from(0, limits)
    }

    /// Numbers the answers from `first_answer`, so that ids made of the numbers differ from another log's.
    pub fn counting_from(first_answer: u32, limits: Limits) -> Self {
        Self {
            limits,
            messages: Vec::new(),
            bytes: 0,
            turns: 0,
            answers: first_answer,
            turns_forgotten: 0,
        }
    }

    /// The number that the next answer will have. A decoder makes ids from it for calls that came without.
    pub fn next_answer(&self) -> u32 {
        self.answers
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The approximate memory of the log, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the log ends with this text of the user, still without an answer.
    pub fn ends_with(&self, text: &str) -> bool {
        let Some(Body::User(parts)) = self.messages.last().map(|message| &message.body) else {
            return false;
        };
        matches!(parts.last(), Some(UserPart::Text(last)) if last.expose() == text)
    }

    /// Turns that were dropped from the front because the log was full.
    pub fn turns_forgotten(&self) -> u64 {
        self.turns_forgotten
    }

    /// Turns that were begun so far, the forgotten ones among them.
    pub fn turns_begun(&self) -> u64 {
        let held = u64::try_from(self.turns).unwrap_or(u64::MAX);
        self.turns_forgotten.saturating_add(held)
    }

    /// Calls without an answer.
    pub fn open_calls(&self) -> usize {
        self.messages
            .iter()
            .flat_map(Message::pieces)
            .filter(|logged| matches!(logged.piece, Piece::Call(_)) && logged.result.is_none())
            .count()
    }

    /// Puts one more entry at the end, or an answer to its call.
    pub fn append(&mut self, entry: Entry) -> Result<(), AppendError> {
        match entry {
            Entry::UserText(text) => {
                self.check_text("message", &text)?;
                self.user(Size::of(text.expose()), UserPart::Text(text))
            }
            Entry::Notice(text) => {
                self.check_text("notice", &text)?;
                self.user(Size::of(text.expose()), UserPart::Notice(text))
            }
            Entry::UserImage(image) => {
                let bytes = image.data.expose().len();
                check_length("picture", bytes, self.limits.image_bytes_max)?;
                self.user(image.size(), UserPart::Image(image))
            }
            Entry::Interrupted => self.user(Size::default(), UserPart::Interrupted),
            Entry::AnswerStarted(route) => self.start_answer(route),
            Entry::Text(text) => self.piece(Piece::Text(text)),
            Entry::Call(call) => self.piece(Piece::Call(call)),
            Entry::AnswerOpaque(opaque) => self.opaque(opaque),
            Entry::Result(response) => self.result(response),
            Entry::ResultImage { id, name, image } => self.result_image(id, &name, image),
        }
    }

    /// Puts all entries of an answer at the end. Returns the first error.
    pub fn append_all(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), AppendError> {
        let mut outcome = Ok(());
        for entry in entries {
            let taken = self.append(entry);
            outcome = outcome.and(taken);
        }
        outcome
    }

    /// The newest turns that fit into `tokens_max` tokens, at four characters each; the newest turn in any case.
    pub fn window(&self, tokens_max: u64) -> Window<'_> {
        Window::newest(&self.messages, tokens_max)
    }

    /// Turns that were begun before those of a window of this log, the forgotten ones among them.
    pub fn turns_before(&self, window: &Window<'_>) -> u64 {
        let left_out = u64::try_from(window.turns_left_out()).unwrap_or(u64::MAX);
        self.turns_forgotten.saturating_add(left_out)
    }

    /// The turns that a window of this log leaves out, without the first `turns` turns of the whole conversation.
    pub fn older_from<'a>(&self, window: &Window<'a>, turns: u64) -> Window<'a> {
        let known = turns.saturating_sub(self.turns_forgotten);
        window.older_but(usize::try_from(known).unwrap_or(usize::MAX))
    }

    /// Gives back the spare memory of the list of messages and of the newest turn, so that a resting conversation takes what it
    /// holds.
    pub fn give_room_back(&mut self) {
        self.messages
            .shrink_to(self.messages.len() + self.messages.len() / 8);
        for message in self.messages.iter_mut().rev() {
            match &mut message.body {
                Body::User(parts) => parts.shrink_to_fit(),
                Body::Answer(answer) => answer.pieces.shrink_to_fit(),
            }
            if message.begins_turn() {
                break;
            }
        }
    }

    fn check_text(&self, what: &'static str, text: &Sensitive<String>) -> Result<(), AppendError> {
        if text.expose().trim().is_empty() {
            return Err(AppendError::Blank);
        }
        check_length(what, text.expose().len(), self.limits.text_bytes_max)
    }

    fn user(&mut self, mut size: Size, part: UserPart) -> Result<(), AppendError> {
        size.bytes += ENTRY_BYTES;
        self.make_room(size.bytes, part.is_the_users())?;
        let is_the_users = part.is_the_users();
        match self.messages.last_mut() {
            Some(Message {
                body: Body::User(parts),
                size: whole,
            }) => {
                let began = parts.iter().any(UserPart::is_the_users);
                self.turns += usize::from(is_the_users && !began);
                // Repeated interruptions count once.
                if matches!(part, UserPart::Interrupted)
                    && matches!(parts.last(), Some(UserPart::Interrupted))
                {
                    return Ok(());
                }
                parts.push(part);
                whole.add(size);
            }
            Some(_) | None => {
                self.turns += usize::from(is_the_users);
                self.messages.push(Message {
                    body: Body::User(vec![part]),
                    size,
                });
            }
        }
        self.bytes += size.bytes;
        Ok(())
    }

    fn start_answer(&mut self, route: Route) -> Result<(), AppendError> {
        let size = Size {
            characters: 0,
            bytes: ENTRY_BYTES,
        };
        self.make_room(size.bytes, false)?;
        self.messages.push(Message {
            body: Body::Answer(AnswerMessage {
                route,
                number: self.answers,
                pieces: Vec::new(),
                opaque: None,
            }),
            size,
        });
        self.answers = self.answers.wrapping_add(1);
        self.bytes += size.bytes;
        Ok(())
    }

    /// A piece after a call's result starts the model's next answer. A piece without an open answer has an unknown origin.
    fn needs_new_answer(&self) -> Option<Route> {
        match self.messages.last().map(|message| &message.body) {
            Some(Body::Answer(answer)) => {
                let is_answered = answer.pieces.iter().any(|logged| logged.result.is_some());
                is_answered.then(|| answer.route.clone())
            }
            Some(Body::User(_)) | None => Some(Route::foreign()),
        }
    }

    /// Makes room for a piece of an answer, and for the answer if the piece begins one.
    fn make_room_in_answer(&mut self, bytes: usize) -> Result<(), AppendError> {
        match self.needs_new_answer() {
            Some(route) => {
                self.make_room(bytes + ENTRY_BYTES, false)?;
                self.start_answer(route)
            }
            None => self.make_room(bytes, false),
        }
    }

    fn piece(&mut self, piece: Piece) -> Result<(), AppendError> {
        let mut size = piece.size();
        if piece.is_blank() {
            return Err(AppendError::Blank);
        }
        check_length("piece of an answer", size.bytes, self.limits.text_bytes_max)?;
        size.bytes += ENTRY_BYTES;
        self.make_room_in_answer(size.bytes)?;
        let pieces_max = self.limits.pieces_max;
        let Some(Message {
            body: Body::Answer(answer),
            size: whole,
        }) = self.messages.last_mut()
        else {
            return Err(AppendError::TooManyPieces { pieces_max });
        };
        if answer.pieces.len() == pieces_max {
            return Err(AppendError::TooManyPieces { pieces_max });
        }
        answer.pieces.push(LoggedPiece {
            piece,
            result: None,
            pictures: Vec::new(),
        });
        whole.add(size);
        self.bytes += size.bytes;
        Ok(())
    }

    fn opaque(&mut self, opaque: Opaque) -> Result<(), AppendError> {
        let size = opaque.size();
        check_length("piece of an answer", size.bytes, self.limits.text_bytes_max)?;
        self.make_room_in_answer(size.bytes)?;
        if let Some(Message {
            body: Body::Answer(answer),
            size: whole,
        }) = self.messages.last_mut()
        {
            answer.opaque = Some(opaque);
            whole.add(size);
            self.bytes += size.bytes;
        }
        Ok(())
    }

    fn result(&mut self, response: ModelToolResponse) -> Result<(), AppendError> {
        let size = entry::size_of_result(&response.projection);
        let (id, name) = (response.id.as_deref(), &*response.name);
        let is_asked_for =
            |logged: &LoggedPiece| logged.result.is_none() && logged.piece.is_call_of(id, name);
        if !self.has(is_asked_for) {
            return Err(AppendError::NoOpenCall);
        }
        self.make_room(size.bytes, false)?;
        for message in self.messages.iter_mut().rev() {
            if let Some(open) = message
                .pieces_mut()
                .iter_mut()
                .find(|logged| is_asked_for(logged))
            {
                open.result = Some(response.projection);
                message.size.add(size);
                self.bytes += size.bytes;
                return Ok(());
            }
        }
        // The call's turn was the oldest, and had to make room for the call's own answer.
        Err(AppendError::NoOpenCall)
    }

    fn has(&self, is_wanted: impl Fn(&LoggedPiece) -> bool) -> bool {
        let mut pieces = self.messages.iter().flat_map(Message::pieces);
        pieces.any(is_wanted)
    }

    /// Forgets the oldest turns until `bytes` more fit. The newest turn stays, unless another begins.
    fn make_room(&mut self, bytes: usize, is_the_users: bool) -> Result<(), AppendError> {
        let bytes_max = self.limits.bytes_max;
        let begins_turn = is_the_users && !self.messages.last().is_some_and(Message::begins_turn);
        let turns_max = if begins_turn {
            self.limits.turns_max.max(1) - 1
        } else {
            usize::MAX
        };
        while self.bytes + bytes > bytes_max || self.turns > turns_max {
            let behind_oldest = (1..self.messages.len())
                .find(|at| self.messages[*at].begins_turn())
                .or_else(|| (begins_turn && !self.is_empty()).then_some(self.messages.len()));
            match behind_oldest {
                Some(messages) => self.forget(messages),
                None => return Err(AppendError::TurnTooLong { bytes_max }),
            }
        }
        Ok(())
    }

    fn forget(&mut self, messages: usize) {
        for message in self.messages.drain(..messages) {
            self.bytes -= message.size.bytes;
            if message.begins_turn() {
                self.turns -= 1;
                self.turns_forgotten += 1;
            }
        }
    }
}

fn check_length(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), AppendError> {
    if bytes > bytes_max {
        return Err(AppendError::TooLong {
            what,
            bytes,
            bytes_max,
        });
    }
    Ok(())
}

impl UserPart {
    /// Whether the entry is the user's text or picture, which begins a turn.
    fn is_the_users(&self) -> bool {
        match self {
            Self::Text(_) | Self::Image(_) => true,
            Self::Notice(_) | Self::Interrupted => false,
        }
    }
}

impl Message {
    fn begins_turn(&self) -> bool {
        match &self.body {
            Body::User(parts) => parts.iter().any(UserPart::is_the_users),
            Body::Answer(_) => false,
        }
    }

    fn pieces(&self) -> &[LoggedPiece] {
        match &self.body {
            Body::Answer(answer) => &answer.pieces,
            Body::User(_) => &[],
        }
    }

    fn pieces_mut(&mut self) -> &mut [LoggedPiece] {
        match &mut self.body {
            Body::Answer(answer) => &mut answer.pieces,
            Body::User(_) => &mut [],
        }
    }
}
