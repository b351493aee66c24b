//! Tools of a project: finds the tool that a message means by the examples of its guide, and its arguments by names, types, enums and
//! patterns of its declaration. Knows no tool by name.

use super::phrases;
use super::readers::emails;
use super::times::{self, Times};
use super::words::{alike, is_stop_word};
use super::world::{Example, World, quotations};
use crate::declaration::Declaration;
use jiff::Zoned;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value};

/// The least nearness of a message to an example; the same sentence has 1.
const NEARNESS_MIN: f64 = 0.5;
/// The nearness from which on the example precedes the phrases of built-in tools.
const NEARNESS_SURE: f64 = 0.8;
/// The gain in nearness if the message has a word of the form of the example's argument.
const FORM_WORTH: f64 = 0.25;
/// The most parameters of a tool that are searched.
const PARAMETERS_MAX: usize = 40;
const PATTERN_BYTES_MAX: usize = 1_000;
const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;
const VALUE_CHARACTERS_MAX: usize = 2_000;
/// The most words that are searched for values.
const WORDS_MAX: usize = 400;

/// Words of tools' names for the action, not for its object.
const VERBS: &[&str] = &[
    "get", "lookup", "look", "find", "search", "list", "check", "fetch", "read", "show", "query",
    "up", "tool",
];

/// A tool that a message means.
pub(super) struct Guided<'w> {
    pub(super) tool: &'w Declaration,
    /// The example that the message resembles, if any.
    pub(super) example: Option<&'w Example>,
    /// Whether the message is so near to the example that no other tool can be meant.
    pub(super) is_sure: bool,
}

/// The tool that a message means.
pub(super) fn meant<'w>(
    message: &str,
    world: &'w World<'_>,
    is_offered: impl Fn(&str) -> bool,
) -> Option<Guided<'w>> {
    let words = phrases::words(message);
    let forms = forms(message);
    let mut best: Option<(f64, &Declaration, &Example)> = None;
    for example in world
        .examples
        .iter()
        .filter(|example| is_offered(&example.tool))
    {
        let Some(tool) = world.tool(&example.tool) else {
            continue;
        };
        let nearness = nearness(&words, &forms, example);
        if nearness >= NEARNESS_MIN && best.is_none_or(|(other, _, _)| nearness > other) {
            best = Some((nearness, tool, example));
        }
    }
    if let Some((nearness, tool, example)) = best {
        return Some(Guided {
            tool,
            example: Some(example),
            is_sure: nearness >= NEARNESS_SURE,
        });
    }
    let offered = world.tools.iter().filter(|tool| is_offered(&tool.name));
    let mut named = offered.filter(|tool| is_named(&words, tool));
    let tool = named.next()?;
    // If two tools are named, neither is meant.
    named.next().is_none().then_some(Guided {
        tool,
        example: None,
        is_sure: false,
    })
}

/// Twice the shared words, divided by the words of both; more where the message has a word of the form of the example's argument. Zero
/// where they share no word with a meaning.
fn nearness(words: &[String], forms: &[String], example: &Example) -> f64 {
    let values: Vec<String> = texts(&example.arguments).flat_map(phrases::words).collect();
    let is_value =
        |word: &String| values.contains(word) || word.chars().any(|sign| sign.is_ascii_digit());
    let said: Vec<String> = phrases::words(&example.said)
        .into_iter()
        .filter(|word| !is_value(word))
        .collect();
    let mut shared = 0_usize;
    let mut telling = 0_usize;
    let mut left: Vec<&String> = words.iter().collect();
    for word in &said {
        let Some(at) = left.iter().position(|other| same(word, other)) else {
            continue;
        };
        left.swap_remove(at);
        shared += 1;
        telling += usize::from(!is_stop_word(word) && word.len() > 2);
    }
    if telling == 0 {
        return 0.0;
    }
    let example_forms = self::forms(&example.said);
    let has_form = example_forms.iter().any(|form| forms.contains(form));
    let spoken = words
        .iter()
        .filter(|word| !word.chars().any(|sign| sign.is_ascii_digit()))
        .count();
    let nearness = 2.0 * shared as f64 / (said.len() + spoken).max(1) as f64;
    nearness + if has_form { FORM_WORTH } else { 0.0 }
}

/// One word, or its plural.
fn same(one: &str, other: &str) -> bool {
    one == other || one.len() > 3 && one.trim_end_matches('s') == other.trim_end_matches('s')
}

fn texts(arguments: &Map<String, Value>) -> impl Iterator<Item = &str> {
    arguments.values().filter_map(Value::as_str)
}

/// The forms of words with digits: `A-1001` is `A-0`.
fn forms(text: &str) -> Vec<String> {
    codes(text).map(form).collect()
}

fn form(code: &str) -> String {
    let mut form = String::new();
    for sign in code.chars() {
        let kind = match sign {
            _ if sign.is_ascii_digit() => '0',
            _ if sign.is_alphabetic() => 'a',
            other => other,
        };
        if !form.ends_with(kind) {
            form.push(kind);
        }
    }
    form
}

/// Words with digits, as they are written.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    bare_words(text).filter(|word| word.chars().any(|sign| sign.is_ascii_digit()))
}

fn bare_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().take(WORDS_MAX);
    let words = words.map(|word| word.trim_matches(|sign: char| ".,;:!?()[]\"“”'’".contains(sign)));
    words.filter(|word| !word.is_empty())
}

/// Whether a question has all words of a tool's name that describe its subject, and the name only promises to look things up.
fn is_named(words: &[String], tool: &Declaration) -> bool {
    let parts: Vec<String> = names_words(&tool.name);
    let reads = parts
        .first()
        .is_some_and(|first| VERBS.contains(&first.as_str()));
    let mut about = parts
        .iter()
        .filter(|part| !VERBS.contains(&part.as_str()))
        .peekable();
    const ASKING: [&str; 14] = [
        "what", "whats", "which", "how", "where", "wheres", "when", "who", "is", "are", "show",
        "get", "find", "check",
    ];
    let asks = words
        .first()
        .is_some_and(|first| ASKING.contains(&first.as_str()));
    reads
        && asks
        && about.peek().is_some()
        && about.all(|part| words.iter().any(|word| same(part, word)))
}

/// The words of a name: `orderId`, `order_id` and `order-id` are `order` and `id`.
fn names_words(name: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(name.len() + 8);
    let mut was_lower = false;
    for sign in name.chars().take(200) {
        if sign.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = sign.is_lowercase();
        spaced.push(if sign.is_alphanumeric() { sign } else { ' ' });
    }
    phrases::words(&spaced)
}

/// The arguments in the messages, the newest first, and the required parameters without one.
pub(super) fn arguments(
    messages: &[String],
    answers: Option<&str>,
    tool: &Declaration,
    example: Option<&Example>,
    now: Option<&Zoned>,
) -> (Map<String, Value>, Vec<String>) {
    let none = Map::new();
    let properties = tool
        .parameters
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .take(PARAMETERS_MAX)
        .collect();
    let others = properties
        .keys()
        .map(String::as_str)
        .filter(|name| !required.contains(name));
    let (mut arguments, mut missing) = (Map::new(), Vec::new());
    let mut taken: Vec<String> = Vec::new();
    for name in required.iter().copied().chain(others).take(PARAMETERS_MAX) {
        let is_required = required.contains(&name);
        let schema = properties.get(name).unwrap_or(&Value::Null);
        let parameter = Parameter {
            name,
            schema,
            is_required,
            is_alone: required.len() == 1,
            example,
            now,
        };
        let answer = answers.filter(|asked| *asked == name).and(messages.last());
        let answered = answer.and_then(|answer| parameter.answered_by(answer));
        let value = answered.or_else(|| {
            messages
                .iter()
                .rev()
                .find_map(|message| parameter.read(message, &taken))
        });
        match value {
            Some(value) => {
                taken.extend(value.as_str().map(str::to_owned));
                arguments.insert(name.to_owned(), value);
            }
            None if is_required && schema.get("default").is_none() => missing.push(name.to_owned()),
            None => {}
        }
    }
    (arguments, missing)
}

struct Parameter<'p> {
    name: &'p str,
    schema: &'p Value,
    is_required: bool,
    /// Whether it is the only one that the tool requires.
    is_alone: bool,
    example: Option<&'p Example>,
    now: Option<&'p Zoned>,
}

impl Parameter<'_> {
    /// The type in either form of a declaration: `string`, `STRING`, or a list of types.
    fn kind(&self) -> String {
        let kind = self.schema.get("type");
        let first =
            kind.and_then(|kind| kind.as_str().or_else(|| kind.as_array()?.first()?.as_str()));
        first.unwrap_or("string").to_lowercase()
    }

    /// Its value in a message that is not only about this parameter.
    fn read(&self, message: &str, taken: &[String]) -> Option<Value> {
        if let Some(choices) = self.schema.get("enum").and_then(Value::as_array) {
            return chosen(choices, message);
        }
        match self.kind().as_str() {
            "integer" | "number" => self.number(message),
            "boolean" => None,
            "array" => self.list(message),
            "string" => self.text(message, taken).map(Value::from),
            _ => None,
        }
    }

    /// Its value in a message that answers the question for it.
    fn answered_by(&self, message: &str) -> Option<Value> {
        let plain = phrases::words(message);
        let says = |list: &[&str]| plain.iter().any(|word| list.contains(&word.as_str()));
        if let "boolean" = self.kind().as_str() {
            let (yes, no) = (
                says(&["yes", "true", "yeah", "sure"]),
                says(&["no", "false", "not"]),
            );
            return (yes != no).then_some(Value::Bool(yes));
        }
        // A list or an object can be typed as JSON.
        let typed = || {
            let value: Value = serde_json::from_str(message.trim()).ok()?;
            let fits = match self.kind().as_str() {
                "array" => value.is_array(),
                "object" => value.is_object(),
                _ => false,
            };
            fits.then_some(value)
        };
        let found = typed().or_else(|| self.read(message, &[]));
        let is_closed = self.schema.get("enum").is_some()
            || self.pattern().is_some()
            || self.format().is_some();
        if found.is_some() || is_closed || self.kind() != "string" {
            return found;
        }
        let whole = message.trim().trim_end_matches(['.', '!']).trim();
        let is_text = !whole.is_empty() && whole.chars().count() <= VALUE_CHARACTERS_MAX;
        is_text.then(|| whole.into())
    }

    fn format(&self) -> Option<&str> {
        self.schema.get("format").and_then(Value::as_str)
    }

    /// The pattern; `None` where this engine cannot read it.
    fn pattern(&self) -> Option<Regex> {
        let pattern = self.schema.get("pattern")?.as_str()?;
        let builder = (pattern.len() <= PATTERN_BYTES_MAX).then(|| RegexBuilder::new(pattern));
        builder?.size_limit(PATTERN_COMPILED_BYTES_MAX).build().ok()
    }

    fn number(&self, message: &str) -> Option<Value> {
        let is_whole = self.kind() == "integer";
        let bound = |key: &str| self.schema.get(key).and_then(Value::as_f64);
        let fits = |number: &f64| {
            (!is_whole || number.fract() == 0.0)
                && bound("minimum").is_none_or(|least| *number >= least)
                && bound("maximum").is_none_or(|most| *number <= most)
        };
        let words = message.split(|sign: char| !(sign.is_alphanumeric() || ".-,".contains(sign)));
        let words: Vec<String> = words
            .take(WORDS_MAX)
            .map(|word| word.trim_matches([',', '.']).to_lowercase())
            .collect();
        let number = |word: &String| match word.as_str() {
            "a" | "an" => None,
            word => word
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite())
                .or_else(|| times::number(word)),
        };
        // A number beside its name, or the only one.
        let names = names_words(self.name);
        let near = words.iter().enumerate().find_map(|(index, word)| {
            let value = number(word).filter(fits)?;
            let beside = [index.checked_sub(1), index.checked_add(1)]
                .into_iter()
                .flatten();
            let mut beside = beside.filter_map(|beside| words.get(beside));
            beside
                .any(|other| names.iter().any(|name| alike(name, other)))
                .then_some(value)
        });
        let mut all = words.iter().filter_map(number).filter(fits);
        let only = || {
            all.next()
                .filter(|_| self.is_required && all.next().is_none())
        };
        let value = near.or_else(only)?;
        match value.fract() == 0.0 && value.abs() < 1e15 {
            true => Some(Value::from(value as i64)),
            false => Number::from_f64(value).map(Value::Number),
        }
    }

    /// A list of texts: several addresses, or one value.
    fn list(&self, message: &str) -> Option<Value> {
        let items = self.schema.get("items").unwrap_or(&Value::Null);
        let one = Parameter {
            schema: items,
            ..*self
        };
        if one.format() == Some("email") {
            let found: Vec<Value> = emails(message).take(50).collect();
            return (!found.is_empty()).then(|| found.into());
        }
        match one.kind().as_str() {
            "string" | "integer" | "number" => {
                one.read(message, &[]).map(|value| vec![value].into())
            }
            _ => None,
        }
    }

    fn text(&self, message: &str, taken: &[String]) -> Option<String> {
        let is_free = |word: &&str| !taken.iter().any(|other| other == word);
        if let Some(pattern) = self.pattern() {
            let mut whole = bare_words(message).filter(is_free);
            let word = whole.find(|word| pattern.is_match(word) && self.fits_length(word));
            // A pattern that matches every word distinguishes none.
            let tells = !bare_words("where is the thing").any(|word| pattern.is_match(word));
            return word.filter(|_| tells).map(str::to_owned).or_else(|| {
                self.in_words(message, taken)
                    .filter(|text| pattern.is_match(text))
            });
        }
        match self.format() {
            Some("email") => {
                return emails(message)
                    .next()
                    .and_then(|email| Some(email.as_str()?.to_owned()));
            }
            Some("date-time") => {
                let start = Times::read(message, self.now).start(self.now)?;
                return Some(times::written(&start));
            }
            Some("date") => {
                return Times::read(message, self.now)
                    .first_day()
                    .map(|day| day.to_string());
            }
            Some("uri" | "url") => {
                let mut words = bare_words(message);
                return words
                    .find(|word| word.starts_with("https://") || word.starts_with("http://"))
                    .map(str::to_owned);
            }
            Some(_) | None => {}
        }
        self.in_words(message, taken)
    }

    fn fits_length(&self, text: &str) -> bool {
        let bound = |key: &str| self.schema.get(key).and_then(Value::as_u64);
        let length = text.chars().count() as u64;
        bound("minLength").is_none_or(|least| length >= least)
            && bound("maxLength").is_none_or(|most| length <= most)
    }

    /// A value by the example's value, by the parameter's name, or in quotation marks.
    fn in_words(&self, message: &str, taken: &[String]) -> Option<String> {
        let is_free =
            |word: &&str| !taken.iter().any(|other| other == word) && self.fits_length(word);
        let names = names_words(self.name);
        let value = self
            .example
            .and_then(|example| example.arguments.get(self.name)?.as_str());
        // Without arguments of the example, the word with digits in its sentence is the example's value.
        let from_sentence = || {
            let said = self
                .example
                .filter(|example| example.arguments.is_empty() && self.is_required)?;
            codes(&said.said).next()
        };
        if let Some(value) = value
            .filter(|value| value.split_whitespace().nth(1).is_none())
            .or_else(from_sentence)
            && value.chars().any(|sign| sign.is_ascii_digit())
        {
            let form = form(value);
            let mut alike = codes(message).filter(is_free);
            if let Some(code) = alike.find(|code| self::form(code) == form) {
                return Some(code.to_owned());
            }
        }
        if let Some(quoted) = quotations(message).find(is_free) {
            return Some(quoted.to_owned());
        }
        if let Some(value) = value
            && let Some(found) = self.like_example(message, value)
        {
            return Some(found);
        }
        let is_code = names.last().is_some_and(|last| {
            [
                "id",
                "number",
                "no",
                "code",
                "key",
                "reference",
                "order",
                "sku",
            ]
            .contains(&last.as_str())
        });
        if is_code && let Some(code) = codes(message).find(is_free) {
            return Some(code.to_owned());
        }
        let takes_all = [
            "query", "text", "question", "message", "prompt", "q", "topic", "subject",
        ];
        if self.is_alone
            && self.is_required
            && names.iter().any(|name| takes_all.contains(&name.as_str()))
        {
            let whole = message.trim();
            return is_free(&whole).then(|| whole.to_owned());
        }
        self.name_of_place(message).filter(|_| self.is_required)
    }

    /// The text after the word that precedes the example's value: `in Oslo` shows that `in Bergen` has one.
    fn like_example(&self, message: &str, value: &str) -> Option<String> {
        let said = &self.example?.said;
        let before = said
            .split_once(value)?
            .0
            .split_whitespace()
            .last()?
            .to_lowercase();
        let words: Vec<&str> = message.split_whitespace().take(WORDS_MAX).collect();
        let at = words
            .iter()
            .position(|word| word.to_lowercase() == before)?;
        let is_name = value.starts_with(char::is_uppercase);
        let rest = words.get(at + 1..)?;
        let length = value.split_whitespace().count();
        let mut found: Vec<&str> = Vec::new();
        for word in rest {
            let bare = word.trim_matches(|sign: char| ".,;:!?()\"“”".contains(sign));
            let goes_on = match is_name {
                true => bare.starts_with(char::is_uppercase),
                false => found.len() < length && !is_stop_word(&bare.to_lowercase()),
            };
            if !goes_on {
                // A name in small letters is a single word.
                if found.is_empty() && !bare.is_empty() && !is_stop_word(&bare.to_lowercase()) {
                    found.push(bare);
                }
                break;
            }
            found.push(bare);
            if *word != bare {
                break;
            }
        }
        let found = found.join(" ");
        (!found.is_empty() && self.fits_length(&found)).then_some(found)
    }

    /// A name after `in`, `at`, `for` or `of`, if the parameter is about one.
    fn name_of_place(&self, message: &str) -> Option<String> {
        const NAMED: [&str; 9] = [
            "city", "place", "location", "town", "country", "name", "person", "customer", "address",
        ];
        let names = names_words(self.name);
        if !names.iter().any(|name| NAMED.contains(&name.as_str())) {
            return None;
        }
        let words: Vec<&str> = message.split_whitespace().take(WORDS_MAX).collect();
        let led = words.windows(2).position(|pair| {
            let is_led = ["in", "at", "for", "of", "from", "near"]
                .contains(&pair[0].to_lowercase().as_str());
            is_led && pair[1].starts_with(char::is_uppercase)
        })?;
        let name = words[led + 1..]
            .iter()
            .take_while(|word| word.starts_with(char::is_uppercase));
        let name: Vec<&str> = name.copied().take(4).collect();
        let name = name.join(" ");
        let name = name.trim_end_matches(['.', ',', '!', '?', ';']);
        self.fits_length(name).then(|| name.to_owned())
    }
}

/// The choice whose words the message has.
fn chosen(choices: &[Value], message: &str) -> Option<Value> {
    let plain = format!(" {} ", phrases::words(message).join(" "));
    let is_said = |choice: &&Value| match choice {
        Value::String(choice) => {
            let words = names_words(choice).join(" ");
            !words.is_empty() && plain.contains(&format!(" {words} "))
        }
        Value::Number(number) => plain.contains(&format!(" {number} ")),
        _ => false,
    };
    // The longest choice, so that `not urgent` does not match as `urgent`.
    let said = choices.iter().take(1_000).filter(is_said);
    said.max_by_key(|choice| choice.as_str().map_or(0, str::len))
        .cloned()
}
