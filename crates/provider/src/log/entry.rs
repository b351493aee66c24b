//! Entries of a conversation's log, and their sizes. Knows no order and no bounds.

use super::{IMAGE_CHARACTERS, Size};
use crate::projection::Reading;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;
use windlass_contract::envelope::{Projection, ProjectionBody};
use windlass_contract::handler::ContentPart;
use windlass_contract::json;
use windlass_contract::sensitive::Sensitive;
use windlass_session::model::{HistoryEntry, ModelToolResponse, Role, UNNAMED};

/// One thing that happened in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    UserText(Sensitive<String>),
    UserImage(Image),
    /// A message of the program, not of the user, to the model: a request was approved, a call could not be read.
    Notice(Sensitive<String>),
    /// A model begins an answer. Its pieces follow.
    AnswerStarted(Route),
    Text(TextPiece),
    Call(Call),
    /// Opaque data of the answer as a whole, which goes back with it.
    AnswerOpaque(Opaque),
    /// The one answer to a call. It goes to the newest open call with its id or, if it has no id, with its name.
    Result(ModelToolResponse),
    /// A picture of a call's answer that is in the log already, as it was read from a disk.
    ResultImage {
        id: Option<Arc<str>>,
        name: Arc<str>,
        image: Image,
    },
    /// The user interrupted the answer before this entry.
    Interrupted,
}

impl Entry {
    /// The result of a call that is in no log, in words.
    pub fn told(response: &ModelToolResponse) -> Self {
        let result = Reading::of(&response.name, &response.projection).openai();
        Self::Notice(Sensitive(format!(
            "(A message of the system, not of the user.) {} was called earlier in this conversation, and you have not heard what came of it: {result} Do not call it again for that; tell the user what came of it where it matters.",
            response.name
        )))
    }

    /// An entry of an earlier session, such as a voice session that goes on as a chat.
    pub fn earlier(entry: HistoryEntry) -> Self {
        match entry.role {
            Role::User => Self::UserText(entry.text),
            Role::Assistant => Self::Text(TextPiece::plain(entry.text)),
        }
    }
}

/// A picture for models that see.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    pub mime_type: String,
    pub data: Sensitive<Arc<[u8]>>,
}

impl Image {
    pub(super) fn size(&self) -> Size {
        Size {
            characters: IMAGE_CHARACTERS,
            bytes: self.data.expose().len(),
        }
    }
}

/// The model that wrote an answer, and its server. Opaque data go back only by the route that they came from: other models, keys
/// and servers refuse them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(Option<Arc<str>>);

impl Route {
    /// A name that no other combination of protocol, server, key and model has in this program.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(Some(name.into()))
    }

    /// The route of text that no provider of ours wrote: earlier conversations, injected answers. Equal to no route.
    pub fn foreign() -> Self {
        Self(None)
    }

    /// Whether data that came by this route may go back by the other.
    pub(crate) fn takes_back(&self, other: &Self) -> bool {
        self.0.is_some() && self == other
    }
}

/// Words of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TextPiece {
    pub text: Sensitive<String>,
    /// Thoughts go back to the model where they are signed, and are never shown.
    pub is_thought: bool,
    pub opaque: Option<Opaque>,
}

impl TextPiece {
    pub fn plain(text: impl Into<Sensitive<String>>) -> Self {
        Self {
            text: text.into(),
            is_thought: false,
            opaque: None,
        }
    }
}

/// One call of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The provider's id, or the codec's own if the protocol requires one; `None` without either.
    pub id: Option<Arc<str>>,
    /// The name as the model spelt it; empty if the model named no tool.
    pub name: Arc<str>,
    /// `None` if the arguments were no JSON object. Such a call goes back without arguments, because one bad text in a history
    /// makes servers refuse every later request.
    pub arguments: Option<Arguments>,
    pub opaque: Option<Opaque>,
}

impl Call {
    /// The name on the call's answer.
    pub(super) fn answer_name(&self) -> &str {
        match &*self.name {
            "" => UNNAMED,
            name => name,
        }
    }
}

/// Arguments as the model wrote them, known to be one JSON object without repeated keys.
#[derive(Clone)]
pub struct Arguments(Sensitive<Box<RawValue>>);

impl Arguments {
    /// `None` if the text is no JSON object or has a key twice.
    pub fn parse(text: &str) -> Option<Self> {
        match json::parse(text.as_bytes()) {
            Ok(Value::Object(map)) => Some(Self::from_parsed(text, &map.into())),
            Ok(_) | Err(_) => None,
        }
    }

    /// The arguments of a text that was parsed as `read`, directly or within a JSON string.
    pub(crate) fn from_parsed(text: &str, read: &windlass_contract::arguments::Arguments) -> Self {
        let text = text.trim();
        let raw = if text.starts_with('{') {
            RawValue::from_string(text.to_owned()).ok()
        } else {
            None
        };
        let raw = raw.unwrap_or_else(|| {
            serde_json::value::to_raw_value(read).expect("a JSON object always serializes")
        });
        Self(Sensitive(raw))
    }

    pub fn expose(&self) -> &RawValue {
        self.0.expose()
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.expose().get() == other.expose().get()
    }
}

impl std::fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Data that a provider wants back unread.
#[derive(Clone, Debug, PartialEq)]
pub enum Opaque {
    /// Gemini's `thoughtSignature`.
    ThoughtSignature(Sensitive<Arc<str>>),
    /// Fields beside the protocol's own.
    Fields(Sensitive<Map<String, Value>>),
    /// A whole item of OpenAI's Responses, or a part of Gemini's that its own tools made.
    Item(UnreadItem),
}

/// An item exactly as its provider wrote it.
#[derive(Clone)]
pub struct UnreadItem(Sensitive<Arc<RawValue>>);

impl UnreadItem {
    pub(crate) fn new(item: &RawValue) -> Self {
        Self(Sensitive(item.to_owned().into()))
    }

    pub fn expose(&self) -> &RawValue {
        self.0.expose()
    }
}

impl PartialEq for UnreadItem {
    fn eq(&self, other: &Self) -> bool {
        self.expose().get() == other.expose().get()
    }
}

impl std::fmt::Debug for UnreadItem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An id for a call without one, or with one that its next reader would refuse: nine letters and digits. Mistral demands this
/// form (langchain-ai/langchain pull request 24668), and all other providers take it.
pub fn own_call_id(answer: u32, call: usize) -> Arc<str> {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut id = *b"wl0000000";
    let mut write = |mut number: usize, places: std::ops::Range<usize>| {
        for place in places.rev() {
            id[place] = DIGITS[number % 36];
            number /= 36;
        }
    };
    write(usize::try_from(answer).unwrap_or(0), 2..7);
    write(call, 7..9);
    std::str::from_utf8(&id)
        .expect("letters and digits are text")
        .into()
}

/// A call's name in the form that every provider takes back: a letter or `_` first, then letters, digits, `_` and `-`, at most
/// 64. Models invent names that their own servers refuse (vercel/ai issue 3876: `multi_tool_use.parallel`).
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    const NAME_BYTES_MAX: usize = 64;
    let begins_well = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let goes_on_well = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.starts_with(begins_well)
        && name.len() <= NAME_BYTES_MAX
        && name.chars().all(goes_on_well)
    {
        return Cow::Borrowed(name);
    }
    if name.is_empty() {
        return Cow::Borrowed("unnamed_tool");
    }
    let mut wire = String::with_capacity(NAME_BYTES_MAX);
    if !name.starts_with(begins_well) {
        wire.push('_');
    }
    for letter in name.chars().take(NAME_BYTES_MAX - 1) {
        wire.push(if goes_on_well(letter) { letter } else { '_' });
    }
    Cow::Owned(wire)
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(TextPiece),
    Call(Call),
}

impl Piece {
    /// Whether the piece is the call of an answer with this id or, if the answer has no id, with this name.
    pub(super) fn is_call_of(&self, id: Option<&str>, name: &str) -> bool {
        match self {
            Self::Call(call) => {
                call.id.as_deref() == id && (id.is_some() || call.answer_name() == name)
            }
            Self::Text(_) => false,
        }
    }

    /// Whether the piece is empty. A piece with an empty text and a signature is not.
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Text(piece) => piece.text.expose().is_empty() && piece.opaque.is_none(),
            Self::Call(_) => false,
        }
    }

    /// Whether the piece holds nothing readable.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            Self::Text(piece) => piece.is_thought || piece.text.expose().trim().is_empty(),
            Self::Call(_) => false,
        }
    }

    pub(super) fn size(&self) -> Size {
        let (mut size, opaque) = match self {
            Self::Text(piece) => (Size::of(piece.text.expose()), &piece.opaque),
            Self::Call(call) => {
                let mut size = Size::of(&call.name);
                if let Some(arguments) = &call.arguments {
                    size.add(Size::of(arguments.expose().get()));
                }
                (size, &call.opaque)
            }
        };
        if let Some(opaque) = opaque {
            size.add(opaque.size());
        }
        size
    }
}

impl Opaque {
    pub(crate) fn fields(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Fields(fields) => Some(fields.expose()),
            Self::ThoughtSignature(_) | Self::Item(_) => None,
        }
    }

    pub(crate) fn item(&self) -> Option<&RawValue> {
        match self {
            Self::Item(item) => Some(item.expose()),
            Self::ThoughtSignature(_) | Self::Fields(_) => None,
        }
    }

    pub(crate) fn thought_signature(&self) -> Option<&str> {
        match self {
            Self::ThoughtSignature(signature) => Some(signature.expose()),
            Self::Fields(_) | Self::Item(_) => None,
        }
    }

    /// The approximate size. Opaque data are kept in memory, and count in the window of a model that reads them.
    pub(super) fn size(&self) -> Size {
        match self {
            Self::ThoughtSignature(signature) => Size::of(signature.expose()),
            Self::Fields(fields) => size_of_json(fields.expose()),
            Self::Item(item) => Size::of(item.expose().get()),
        }
    }
}

/// The size of an answer to a call. A tree takes several times the memory of its text.
pub(super) fn size_of_result(projection: &Projection) -> Size {
    const TREE_BYTES_PER_CHARACTER: usize = 3;
    match &projection.body {
        ProjectionBody::Success {
            data, cut, content, ..
        } => {
            let mut size = data.as_ref().map_or(Size::default(), size_of_json);
            size.bytes *= TREE_BYTES_PER_CHARACTER;
            for (_, address) in addressed(content) {
                size.add(Size {
                    characters: IMAGE_CHARACTERS,
                    bytes: address.len(),
                });
            }
            if let Some(cut) = cut {
                size.add(Size::of(cut));
            }
            size
        }
        ProjectionBody::Failure {
            message,
            suggestion,
            ..
        } => {
            let mut size = Size::of(message);
            size.add(Size::of(suggestion));
            size
        }
    }
}

/// The pictures of an answer that the model's provider fetches: type and address.
pub(super) fn addressed(content: &[ContentPart]) -> impl Iterator<Item = (&str, &str)> {
    content.iter().filter_map(|part| match part {
        ContentPart::Image { mime_type, url } => url
            .starts_with("https://")
            .then_some((mime_type.as_str(), url.as_str())),
    })
}

fn size_of_json(value: &impl serde::Serialize) -> Size {
    struct Count(Size);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.bytes += bytes.len();
            // A continuation byte is no character of its own.
            self.0.characters += bytes.iter().filter(|byte| (**byte & 0xC0) != 0x80).count();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(Size::default());
    serde_json::to_writer(&mut count, value).expect("counting cannot fail");
    count.0
}
