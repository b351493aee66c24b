//! Text that a model writes among its words without meaning to say it: thoughts between tags, and calls outside the interface for
//! calls. Takes both out of an answer while it comes, however it was cut. Knows no protocol, and never sees the words of a user
//! or a tool.

mod call;

use crate::answer::{AnswerPiece, Ending, ModelAnswer};
use call::{JsonLook, json_look};
use std::sync::Arc;
use windlass_session::model::ModelEvent;

/// The kinds of text that are looked for in an answer.
#[derive(Clone, Debug, Default)]
pub struct ProseRules {
    /// Whether the model marks thoughts with tags.
    pub thoughts: bool,
    /// Whether an earlier answer of this model began in a thought without a tag. The answer is then held until the thought ends.
    pub begins_in_thought: bool,
    /// The declared tools; empty if the model has no calls to write.
    pub tools: Arc<[Arc<str>]>,
}

/// Reads the words of one answer. Make a new one for each request.
#[derive(Debug)]
pub struct Prose {
    rules: ProseRules,
    reader: Reader,
    /// Whether words have been passed on, and can no longer be retracted.
    passed_on: bool,
}

impl Prose {
    pub fn new(rules: ProseRules) -> Self {
        Self {
            reader: Reader::new(&rules, rules.begins_in_thought),
            rules,
            passed_on: false,
        }
    }

    /// Takes thoughts and calls out of the events from index `from` on.
    pub fn hear(&mut self, events: &mut Vec<ModelEvent>, from: usize) {
        if !self.rules.thoughts && self.rules.tools.is_empty() {
            return;
        }
        let is_said = |event: &ModelEvent| matches!(event, ModelEvent::OutputText { .. });
        self.passed_on |= self.reader.has_said && !events[..from].iter().any(is_said);
        let mut at = from;
        while at < events.len() {
            let ModelEvent::OutputText { text } = &mut events[at] else {
                at += 1;
                continue;
            };
            if self.reader.is_plain(&text.0) {
                at += 1;
                continue;
            }
            let mut said = String::new();
            let retracts = self.reader.read(&self.rules, &text.0, &mut said);
            text.0 = said;
            let is_empty = text.0.is_empty();
            if is_empty {
                events.remove(at);
            } else {
                at += 1;
            }
            if retracts {
                let last = at - usize::from(!is_empty);
                let before = events.len();
                let mut index = 0;
                events.retain(|event| {
                    index += 1;
                    index > last || !is_said(event)
                });
                at -= before - events.len();
            }
        }
    }

    /// Ends the answer: passes on the words that were held back, and takes out of the answer what was taken out of the events.
    /// Returns whether the answer began in a thought without a tag.
    pub fn finish(mut self, answer: &mut ModelAnswer, events: &mut Vec<ModelEvent>) -> bool {
        let mut said = String::new();
        self.reader.end(&self.rules, &mut said);
        if !said.is_empty() {
            events.push(ModelEvent::OutputText { text: said.into() });
        }
        if !self.reader.has_changed {
            return false;
        }
        answer.passed_on = self.passed_on || self.reader.has_said;
        self.rewrite(answer);
        if self.reader.has_call {
            events.push(ModelEvent::Malformed {
                problem: "the model wrote a call as prose".to_owned(),
            });
            let is_over = match answer.ending {
                Ending::Complete
                | Ending::LengthReached
                | Ending::Stopped { .. }
                | Ending::UndeclaredCall
                | Ending::ProseCall => true,
                Ending::MalformedCall
                | Ending::CallCut
                | Ending::Blocked { .. }
                | Ending::Failed(_)
                | Ending::Cut => false,
            };
            if answer.calls.is_empty() && is_over {
                answer.ending = Ending::ProseCall;
            }
        }
        self.reader.began_in_thought
    }

    /// Takes thoughts and calls out of the answer's pieces, for the log.
    fn rewrite(&self, answer: &mut ModelAnswer) {
        let begins_in_thought = self.rules.begins_in_thought && self.reader.began_in_thought;
        let mut reader = Reader::new(&self.rules, begins_in_thought);
        let mut newest = None;
        for at in 0..answer.pieces.len() {
            let AnswerPiece::Text(piece) = &mut answer.pieces[at] else {
                continue;
            };
            if piece.is_thought {
                continue;
            }
            newest = Some(at);
            let mut said = String::new();
            let retracts = reader.read(&self.rules, piece.text.expose(), &mut said);
            piece.text = said.into();
            if retracts {
                for earlier in &mut answer.pieces[..at] {
                    if let AnswerPiece::Text(earlier) = earlier {
                        earlier.text = String::new().into();
                    }
                }
            }
        }
        if let Some(AnswerPiece::Text(piece)) = newest.map(|at| &mut answer.pieces[at]) {
            reader.end(&self.rules, &mut piece.text.0);
        }
        answer.pieces.retain(|piece| match piece {
            AnswerPiece::Text(text) => !text.text.expose().is_empty() || text.opaque.is_some(),
            AnswerPiece::Call(_) => true,
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Open,
    Close,
    /// A mark of a format that separates thoughts, words and calls. It is none of them.
    Mark,
    Call,
}

const THOUGHT_TAGS: [(&str, Tag); 12] = [
    ("<think>", Tag::Open),
    ("<thinking>", Tag::Open),
    ("<thought>", Tag::Open),
    ("</think>", Tag::Close),
    ("</thinking>", Tag::Close),
    ("</thought>", Tag::Close),
    // Harmony's marks, which some servers leave in.
    ("<|channel|>analysis<|message|>", Tag::Open),
    ("<|channel|>final<|message|>", Tag::Mark),
    ("<|channel|>commentary<|message|>", Tag::Mark),
    ("<|start|>assistant", Tag::Mark),
    ("<|end|>", Tag::Mark),
    ("<|return|>", Tag::Mark),
];

/// Models' forms of calls and results that their server does not know.
const CALL_TAGS: [(&str, Tag); 14] = [
    ("<tool_call", Tag::Call),
    ("</tool_call>", Tag::Call),
    ("<tool_response>", Tag::Call),
    ("<function_call", Tag::Call),
    ("<function=", Tag::Call),
    ("<invoke name=", Tag::Call),
    ("<|tool_call", Tag::Call),
    ("<|python_tag|>", Tag::Call),
    ("<|start|>assistant<|channel|>commentary to=", Tag::Call),
    ("<|channel|>commentary to=", Tag::Call),
    ("<|start|>functions.", Tag::Call),
    ("<｜tool▁calls▁begin｜>", Tag::Call),
    ("<｜tool▁call▁begin｜>", Tag::Call),
    ("[TOOL_CALLS]", Tag::Call),
];

/// The same forms at the beginning of a line, after a server has removed the marks.
const CALL_LINES: [(&str, Tag); 4] = [
    ("commentary to=functions.", Tag::Call),
    ("assistantcommentary to=functions.", Tag::Call),
    ("```tool_code", Tag::Call),
    ("```tool_call", Tag::Call),
];

/// Bytes of JSON that are held to see whether it is a call.
const JSON_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It is undecided whether the text is a thought.
    Unknown,
    Said,
    Thought,
    /// Text behind a call that was written as prose: it rests on a result that does not exist.
    Void,
}

#[derive(Debug)]
struct Reader {
    mode: Mode,
    /// Text that cannot be judged before more comes.
    pending: String,
    /// Space before the first word.
    lead: String,
    /// The sign before the current place.
    last: Option<char>,
    is_line_start: bool,
    backticks: u32,
    is_in_fence: bool,
    depth: u32,
    /// Whether a thought has begun or ended. Then an end alone says nothing of the text before it.
    has_thought: bool,
    /// Bytes of the pending text that were searched for the end of a thought.
    searched: usize,
    /// The text of a thought that began amid a line. If the thought never ends, the text was no thought.
    aside: Option<String>,
    /// The text behind the end of a nested thought. If the outer thought never ends, this text was no thought.
    after_inner: Option<String>,
    has_said: bool,
    has_changed: bool,
    has_call: bool,
    began_in_thought: bool,
}

impl Reader {
    fn new(rules: &ProseRules, begins_in_thought: bool) -> Self {
        Self {
            mode: match begins_in_thought && rules.thoughts {
                true => Mode::Unknown,
                false => Mode::Said,
            },
            pending: String::new(),
            lead: String::new(),
            last: None,
            is_line_start: true,
            backticks: 0,
            is_in_fence: false,
            depth: 0,
            has_thought: false,
            searched: 0,
            aside: None,
            after_inner: None,
            has_said: false,
            has_changed: false,
            has_call: false,
            began_in_thought: false,
        }
    }

    /// Takes note of words that can hide nothing, as nearly all are. Returns false if the words have to be read.
    fn is_plain(&mut self, words: &str) -> bool {
        let is_odd = |byte: &u8| matches!(byte, b'<' | b'{' | b'[' | b'`' | b'\n');
        let is_plain = self.mode == Mode::Said
            && self.has_said
            && self.pending.is_empty()
            && !self.is_line_start
            && self.backticks == 0
            && !words.as_bytes().iter().any(is_odd);
        if is_plain {
            self.last = words.chars().last().or(self.last);
        }
        is_plain
    }

    /// Appends the spoken part of the words. Returns true if all earlier words are no part of the answer.
    fn read(&mut self, rules: &ProseRules, words: &str, said: &mut String) -> bool {
        self.pending.push_str(words);
        self.go_on(rules, false, said)
    }

    /// Ends the text: nothing more comes.
    fn end(&mut self, rules: &ProseRules, said: &mut String) {
        self.go_on(rules, true, said);
        if self.mode == Mode::Thought {
            let outer = self
                .after_inner
                .take()
                .filter(|said| !said.trim().is_empty());
            if let Some(words) = outer.or(self.aside.take()) {
                self.say(&words, said);
            }
        }
    }

    fn go_on(&mut self, rules: &ProseRules, is_end: bool, said: &mut String) -> bool {
        let text = std::mem::take(&mut self.pending);
        let (mut at, mut retracts) = (0, false);
        while at < text.len() {
            let rest = &text[at..];
            at += match self.mode {
                Mode::Void => rest.len(),
                Mode::Unknown => match self.first_close(rest) {
                    Some(end) => {
                        self.began_in_thought = true;
                        self.has_thought = true;
                        self.has_changed = true;
                        self.mode = Mode::Said;
                        end
                    }
                    None if is_end => {
                        self.mode = Mode::Said;
                        0
                    }
                    None => break,
                },
                Mode::Thought => match self.thought(rest, is_end) {
                    Some(taken) => taken,
                    None => break,
                },
                Mode::Said => match self.look(rules, rest, is_end) {
                    Look::Wait => break,
                    Look::Words(length) => {
                        self.say(&rest[..length], said);
                        length
                    }
                    Look::Tag(Tag::Open, length) => {
                        self.has_changed = true;
                        self.has_thought = true;
                        self.mode = Mode::Thought;
                        self.depth = 1;
                        let is_amid = self.has_said && !self.is_line_start;
                        self.aside = is_amid.then(|| rest[..length].to_owned());
                        self.lead.clear();
                        length
                    }
                    Look::Tag(Tag::Close, length) if self.has_thought => {
                        self.has_changed = true;
                        length
                    }
                    Look::Tag(Tag::Close, length) => {
                        self.has_changed = true;
                        self.has_thought = true;
                        self.began_in_thought = true;
                        retracts = true;
                        said.clear();
                        self.lead.clear();
                        self.has_said = false;
                        self.is_line_start = true;
                        length
                    }
                    Look::Tag(Tag::Mark, length) => {
                        self.has_changed = true;
                        length
                    }
                    Look::Tag(Tag::Call, _) => {
                        self.has_changed = true;
                        self.has_call = true;
                        self.mode = Mode::Void;
                        rest.len()
                    }
                },
            };
        }
        self.pending = match at {
            0 => text,
            _ => text[at..].to_owned(),
        };
        retracts
    }

    /// The end of the first closing tag. Text that was searched before is not searched again.
    fn first_close(&mut self, held: &str) -> Option<usize> {
        let longest = "</thinking>".len();
        let from = held.floor_char_boundary(self.searched.saturating_sub(longest));
        self.searched = held.len();
        close_of(&held[from..]).map(|end| from + end)
    }

    /// Reads a piece of a thought. Returns its bytes, or `None` if more has to come.
    fn thought(&mut self, rest: &str, is_end: bool) -> Option<usize> {
        let mut taken = rest.find('<').unwrap_or(rest.len());
        let mut tag = None;
        if taken == 0 {
            tag = match tag_of(rest, &THOUGHT_TAGS) {
                TagLook::Tag(tag, length) if !self.is_quoted() => Some((tag, length)),
                TagLook::Part if !is_end => return None,
                TagLook::Tag(..) | TagLook::Part | TagLook::None => None,
            };
            taken = tag.map_or(1, |(_, length)| length);
        }
        let words = &rest[..taken];
        if let Some(aside) = &mut self.aside {
            aside.push_str(words);
        }
        match tag {
            Some((Tag::Open, _)) => {
                self.depth += 1;
                self.after_inner = None;
            }
            Some(_) => {
                self.depth -= 1;
                self.after_inner = (self.depth > 0).then(String::new);
                if self.depth == 0 {
                    self.aside = None;
                    self.mode = Mode::Said;
                }
            }
            None => {
                if let Some(after) = &mut self.after_inner {
                    after.push_str(words);
                }
            }
        }
        self.last = words.chars().last();
        Some(taken)
    }

    fn is_quoted(&self) -> bool {
        let is_quote = |sign| matches!(sign, '`' | '"' | '\'' | '“' | '‘' | '«' | '„');
        self.is_in_fence || self.last.is_some_and(is_quote)
    }

    /// The kind of text at the beginning of the words.
    fn look(&self, rules: &ProseRules, rest: &str, is_end: bool) -> Look {
        let reads_calls = !rules.tools.is_empty();
        let first = rest.as_bytes()[0];
        let mut looks = [TagLook::None; 3];
        if matches!(first, b'<' | b'[') && !self.is_quoted() {
            if rules.thoughts {
                looks[0] = tag_of(rest, &THOUGHT_TAGS);
            }
            if reads_calls {
                looks[1] = tag_of(rest, &CALL_TAGS);
            }
        }
        if self.is_line_start && reads_calls {
            looks[2] = tag_of(rest, &CALL_LINES);
        }
        for look in looks {
            if let TagLook::Tag(tag, length) = look {
                return Look::Tag(tag, length);
            }
        }
        if looks.contains(&TagLook::Part) && !is_end {
            return Look::Wait;
        }
        let may_be_json = matches!(first, b'{' | b'[') || rest.starts_with('`');
        if self.is_line_start && reads_calls && may_be_json {
            let head = &rest[..rest.floor_char_boundary(JSON_BYTES_MAX)];
            match json_look(head, &rules.tools, is_end || head.len() < rest.len()) {
                JsonLook::Call => return Look::Tag(Tag::Call, rest.len()),
                JsonLook::Part => return Look::Wait,
                JsonLook::None => {}
            }
        }
        let is_odd = |sign: char| matches!(sign, '<' | '{' | '[' | '`' | '\n');
        // The signs at a line's beginning are read one by one. Elsewhere a look at the next odd sign is enough.
        let one = rest.chars().next().map_or(1, char::len_utf8);
        let is_before_line = first == b'\n' || self.is_line_start && first.is_ascii_whitespace();
        Look::Words(match is_before_line {
            true => one,
            false => rest[one..].find(is_odd).map_or(rest.len(), |odd| one + odd),
        })
    }

    fn say(&mut self, words: &str, said: &mut String) {
        for sign in words.chars() {
            if sign == '`' {
                self.backticks += 1;
            } else {
                self.is_in_fence ^= self.backticks >= 3;
                self.backticks = 0;
            }
            self.is_line_start = sign == '\n' || self.is_line_start && sign.is_whitespace();
            self.last = Some(sign);
        }
        if self.has_said {
            said.push_str(words);
            return;
        }
        self.lead.push_str(words);
        if self.lead.trim().is_empty() {
            return;
        }
        self.has_said = true;
        let lead = std::mem::take(&mut self.lead);
        said.push_str(match self.has_changed {
            true => lead.trim_start(),
            false => &lead,
        });
    }
}

/// The kind of text at a place; `Words` for neither thought nor call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Words(usize),
    Tag(Tag, usize),
    /// More has to come.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagLook {
    Tag(Tag, usize),
    /// The text may become a tag.
    Part,
    None,
}

fn tag_of(rest: &str, tags: &[(&str, Tag)]) -> TagLook {
    let rest = rest.as_bytes();
    let mut look = TagLook::None;
    for (name, tag) in tags {
        let name = name.as_bytes();
        let length = name.len().min(rest.len());
        if name[..length].eq_ignore_ascii_case(&rest[..length]) {
            match length == name.len() {
                true => return TagLook::Tag(*tag, length),
                false => look = TagLook::Part,
            }
        }
    }
    look
}

/// The index behind the first end of a thought.
fn close_of(text: &str) -> Option<usize> {
    let mut places = text.match_indices("</");
    places.find_map(|(at, _)| match tag_of(&text[at..], &THOUGHT_TAGS) {
        TagLook::Tag(Tag::Close, length) => Some(at + length),
        TagLook::Tag(..) | TagLook::Part | TagLook::None => None,
    })
}

#[cfg(test)]
mod tests;
