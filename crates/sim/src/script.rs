//! Scripts: the behaviour of a simulated provider, exchange by exchange, as YAML. Knows the language and its mistakes; each provider
//! decides how an action looks on the wire.

use crate::family::Family;
use crate::template;
use serde::Deserialize;
use serde_json::{Value, json};
use serde_saphyr::Spanned;

/// A parsed script. The language is described in `docs/simulator.md`.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub settings: Settings,
    pub exchanges: Vec<Exchange>,
}

/// The server's behaviour apart from the content of its answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The speed of audio as a multiple of real time; 0 sends it at once.
    pub speed: f64,
    /// Whether a turn ends only when its audio would have been played.
    pub await_playback: bool,
    /// The rules to follow, whatever the model's id is.
    pub profile: Option<Family>,
    /// The HTTP status with which every upgrade is refused.
    pub upgrade_status: Option<u16>,
    pub setup: SetupAnswer,
    /// The reaction to a result for a call that was never made or is answered already.
    pub unknown_response: Reaction,
    /// The reaction to a result for a cancelled call.
    pub cancelled_response: Reaction,
    /// The close code for an unknown resumption handle.
    pub unknown_handle_code: u16,
    /// Whether every handle is refused with 1007, as the service sometimes does.
    pub refuse_resumption: bool,
    /// Seconds after which a connection of Gemini Live is closed with 1011; the service was seen to do so at 58:00.
    pub session_seconds: u64,
    /// Whether a model without `scheduling` refuses it in a result.
    pub refuse_scheduling: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            speed: 4.0,
            await_playback: true,
            profile: None,
            upgrade_status: None,
            setup: SetupAnswer::Answer,
            unknown_response: Reaction::Close,
            cancelled_response: Reaction::Ignore,
            unknown_handle_code: 1008,
            refuse_resumption: false,
            session_seconds: 58 * 60,
            refuse_scheduling: true,
        }
    }
}

/// The reaction to a valid `setup`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupAnswer {
    Answer,
    Ignore,
    Close(Closing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reaction {
    Ignore,
    Close,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closing {
    pub code: u16,
    #[serde(default)]
    pub reason: String,
}

/// An input of the user, and the model's actions for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub when: When,
    /// The only number of the session's input that it matches, from 1.
    pub turn: Option<u32>,
    pub actions: Vec<Action>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Any input of the user.
    Any,
    /// Typed input that contains this text, in any case.
    Text(String),
    /// Spoken input with this transcription.
    Speech(String),
    /// A new session was set up.
    Setup,
    /// A session was resumed.
    Resumed,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Say(String),
    Think(String),
    /// Audio without words, of this length.
    AudioMs(u64),
    Call(CallForm),
    /// Several calls in one message.
    Calls(Vec<CallForm>),
    /// The service's own web search, if it was declared; the answer cites its pages.
    Search(SearchForm),
    ExpectResponse,
    /// Cancels the open calls of this exchange.
    Cancel,
    EndTurn,
    /// Ends the exchange and leaves the turn open for ever.
    LeaveOpen,
    WaitMs(u64),
    /// The server stops reading its socket for this long.
    StallMs(u64),
    /// Announces the connection's end, and ends it after this time.
    GoAwayMs(u64),
    Close(Closing),
    /// Cuts the connection without a close frame.
    Drop,
    /// Sends the first half of this message's frame, and cuts the connection.
    HalfFrame(Value),
    /// Refuses the next connections, this many of them.
    RefuseConnects(u32),
    /// Sends any JSON.
    Raw(Value),
    /// Sends these bytes.
    RawText(String),
    /// Sends this many frames of audio at once.
    Flood(u32),
    /// The request fails, or the current response.
    Fail(HttpFailure),
    /// Sends words without end.
    Endless,
    /// Sends text that ends within a letter.
    HalfACharacter,
}

/// The failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpFailure {
    pub status: u16,
    /// Seconds until the client may retry.
    #[serde(default)]
    pub retry_after: Option<u64>,
    #[serde(default)]
    pub message: Option<String>,
    /// Whether the body is a page for people, as from a proxy, instead of the service's own body.
    #[serde(default)]
    pub html: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallForm {
    pub name: String,
    /// Any JSON; `null` leaves the field out.
    #[serde(default = "no_arguments")]
    pub args: Value,
    #[serde(default, deserialize_with = "call_id")]
    pub id: CallId,
    #[serde(default)]
    pub deliver: Delivery,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchForm {
    pub query: String,
    pub pages: Vec<Page>,
}

/// A page that a search has found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    pub url: String,
    pub title: String,
}

impl SearchForm {
    /// The sources of an answer in Gemini's form.
    pub(crate) fn grounding(&self) -> Value {
        let chunks = self.pages.iter();
        let chunks = chunks.map(|page| json!({"web": {"uri": page.url, "title": page.title}}));
        json!({"webSearchQueries": [self.query], "groundingChunks": chunks.collect::<Vec<_>>()})
    }
}

/// The id of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallId {
    /// A fresh id, if the model's profile has ids.
    #[default]
    Minted,
    Given(String),
    /// The field is left out.
    Missing,
}

/// The frames in which a call is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    #[default]
    Call,
    /// As a part of the model's turn only.
    Part,
    /// As a part, then as a call with the same id.
    Both,
    /// Under the index of the first call of the message.
    SameIndex,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

fn call_id<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<CallId, D::Error> {
    let id = Option::<String>::deserialize(deserializer)?;
    Ok(id.map_or(CallId::Missing, CallId::Given))
}

/// The reason why a text is no script. Names the file, and the line and column if known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ScriptError {
    place: String,
    problem: String,
}

const SCRIPT_BYTES_MAX: usize = 1 << 20;
const EXCHANGES_MAX: usize = 1_000;
const ACTIONS_MAX: usize = 1_000;
const WAIT_MS_MAX: u64 = 3_600_000;
const AUDIO_MS_MAX: u64 = 60_000;
const FLOOD_MAX: u32 = 10_000;
const REFUSALS_MAX: u32 = 1_000;
const TEXT_BYTES_MAX: u64 = 40_000;
const NAME_BYTES_MAX: usize = 1_024;
const CALLS_MAX: usize = 64;
const PAGES_MAX: u64 = 64;
/// A frame of the service stays below 1 MiB.
pub(crate) const FRAME_BYTES_MAX: usize = (1 << 20) - 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    settings: Option<Spanned<Settings>>,
    #[serde(default)]
    exchanges: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    when: When,
    #[serde(default)]
    turn: Option<u32>,
    #[serde(rename = "do")]
    actions: Vec<Spanned<Action>>,
}

impl Script {
    /// Reads a script. Errors call it `name`, usually its path.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let whole = |problem: String| ScriptError {
            place: name.to_owned(),
            problem,
        };
        if text.len() > SCRIPT_BYTES_MAX {
            return Err(whole(format!(
                "the script has {} bytes; at most {SCRIPT_BYTES_MAX} are read",
                text.len()
            )));
        }
        let document: Document = serde_saphyr::from_str(text).map_err(|error| {
            let place = error.location().map_or_else(
                || name.to_owned(),
                |location| format!("{name}:{}:{}", location.line(), location.column()),
            );
            ScriptError {
                place,
                problem: one_line(&error.without_snippet().to_string()),
            }
        })?;
        if document.exchanges.len() > EXCHANGES_MAX {
            return Err(whole(format!("more than {EXCHANGES_MAX} exchanges")));
        }
        let at = |location: serde_saphyr::Location, problem: String| ScriptError {
            place: format!("{name}:{}:{}", location.line(), location.column()),
            problem,
        };
        let settings = match document.settings {
            Some(settings) => {
                check_settings(&settings.value)
                    .map_err(|problem| at(settings.referenced, problem))?;
                settings.value
            }
            None => Settings::default(),
        };
        let mut exchanges = Vec::with_capacity(document.exchanges.len());
        for entry in document.exchanges {
            if entry.actions.len() > ACTIONS_MAX {
                return Err(whole(format!(
                    "an exchange with more than {ACTIONS_MAX} actions"
                )));
            }
            for action in &entry.actions {
                check_action(&action.value).map_err(|problem| at(action.referenced, problem))?;
            }
            exchanges.push(Exchange {
                when: entry.when,
                turn: entry.turn,
                actions: entry
                    .actions
                    .into_iter()
                    .map(|action| action.value)
                    .collect(),
            });
        }
        Ok(Self {
            settings,
            exchanges,
        })
    }
}

/// An error as one line, whatever the parser's format.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check_settings(settings: &Settings) -> Result<(), String> {
    if !(0.0..=1_000.0).contains(&settings.speed) {
        return Err(format!(
            "speed {} is not between 0 and 1000",
            settings.speed
        ));
    }
    if let Some(status) = settings.upgrade_status
        && !(400..=599).contains(&status)
    {
        return Err(format!(
            "upgrade_status {status} is no HTTP error; use 400 to 599"
        ));
    }
    check_code(settings.unknown_handle_code)?;
    match &settings.setup {
        SetupAnswer::Close(closing) => check_code(closing.code),
        SetupAnswer::Answer | SetupAnswer::Ignore => Ok(()),
    }
}

fn check_code(code: u16) -> Result<(), String> {
    // RFC 6455 reserves these codes; they are never sent in a close frame.
    if !(1000..=4999).contains(&code) || [1004, 1005, 1006, 1015].contains(&code) {
        return Err(format!(
            "close code {code} cannot be sent; 1006 is what a `drop` looks like"
        ));
    }
    Ok(())
}

fn check_action(action: &Action) -> Result<(), String> {
    let at_most = |what: &str, value: u64, limit: u64| {
        if value > limit {
            return Err(format!("{what} {value} is over its limit of {limit}"));
        }
        Ok(())
    };
    match action {
        Action::Say(text) | Action::Think(text) => {
            at_most("text: bytes", text.len() as u64, TEXT_BYTES_MAX)?;
            template::check(text)
        }
        Action::Call(call) => check_call(call),
        Action::Calls(calls) => {
            at_most("calls", calls.len() as u64, CALLS_MAX as u64)?;
            calls.iter().try_for_each(check_call)
        }
        Action::AudioMs(length) => at_most("audio_ms", *length, AUDIO_MS_MAX),
        Action::WaitMs(length) => at_most("wait_ms", *length, WAIT_MS_MAX),
        Action::StallMs(length) => at_most("stall_ms", *length, WAIT_MS_MAX),
        Action::GoAwayMs(length) => at_most("go_away_ms", *length, WAIT_MS_MAX),
        Action::Flood(count) => at_most("flood", u64::from(*count), u64::from(FLOOD_MAX)),
        Action::Close(closing) => check_code(closing.code),
        Action::RefuseConnects(count) => at_most(
            "refuse_connects",
            u64::from(*count),
            u64::from(REFUSALS_MAX),
        ),
        Action::Raw(value) | Action::HalfFrame(value) => at_most(
            "message: bytes",
            value.to_string().len() as u64,
            FRAME_BYTES_MAX as u64,
        ),
        Action::RawText(text) => {
            at_most("raw_text: bytes", text.len() as u64, FRAME_BYTES_MAX as u64)
        }
        Action::Fail(failure) => {
            if (400..=599).contains(&failure.status) || (failure.html && failure.status == 200) {
                return Ok(());
            }
            Err(format!(
                "status {} is no HTTP error; use 400 to 599, or 200 with html",
                failure.status
            ))
        }
        Action::Search(search) => at_most("search: pages", search.pages.len() as u64, PAGES_MAX),
        Action::ExpectResponse
        | Action::Cancel
        | Action::EndTurn
        | Action::LeaveOpen
        | Action::Endless
        | Action::HalfACharacter
        | Action::Drop => Ok(()),
    }
}

fn check_call(call: &CallForm) -> Result<(), String> {
    let id_bytes = match &call.id {
        CallId::Given(id) => id.len(),
        CallId::Minted | CallId::Missing => 0,
    };
    if call.name.len().max(id_bytes) > NAME_BYTES_MAX {
        return Err(format!("a name or an id over {NAME_BYTES_MAX} bytes"));
    }
    template::check_value(&call.args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(text: &str, expected: &str) {
        let error = Script::parse("s.yaml", text).unwrap_err().to_string();
        assert!(
            error.starts_with(expected),
            "{text}\n{error}\nexpected {expected}"
        );
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn a_script_holds_settings_and_exchanges() {
        let script = Script::parse(
            "s.yaml",
            "settings: {speed: 0, await_playback: false, profile: 3.8-ext}\n\
             exchanges:\n\
             - when: {text: hello}\n  turn: 2\n  do:\n  - say: \"Hi {heard}\"\n  - expect_response\n\
             - when: any\n  do:\n  - call: {name: f, args: null, id: null, deliver: both}\n  - call: {name: g}\n",
        )
        .unwrap();
        assert_eq!(script.settings.profile, Some(Family::Extended38));
        assert_eq!(script.exchanges[0].turn, Some(2));
        assert_eq!(
            script.exchanges[0].actions,
            [Action::Say("Hi {heard}".into()), Action::ExpectResponse]
        );
        let [Action::Call(first), Action::Call(second)] = &script.exchanges[1].actions[..] else {
            panic!("two calls");
        };
        assert_eq!(
            (&first.args, &first.id, first.deliver),
            (&Value::Null, &CallId::Missing, Delivery::Both)
        );
        assert_eq!(
            (&second.args, &second.id),
            (&no_arguments(), &CallId::Minted)
        );
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_column() {
        check_refused("exchanges: [", "s.yaml:1:");
        check_refused(
            "exchanges:\n- when: any\n  do:\n  - shout: loud\n",
            "s.yaml:4:5: unknown",
        );
        check_refused("settings:\n  sped: 4\n", "s.yaml:2:3: unknown field");
        check_refused(
            "exchanges:\n- when: any\n  do:\n  - say: \"{nothing}\"\n",
            "s.yaml:4:5: {nothing}",
        );
        check_refused(
            "exchanges:\n- when: any\n  do:\n  - say: ok\n  - close: {code: 1006}\n",
            "s.yaml:5:5: close code 1006",
        );
        check_refused("settings: {speed: -1}\n", "s.yaml:1:11: speed -1");
        check_refused(
            "exchanges:\n- when: any\n  do:\n  - flood: 20000\n",
            "s.yaml:4:5: flood 20000",
        );
        check_refused(&" ".repeat(SCRIPT_BYTES_MAX + 1), "s.yaml: the script has");
    }
}
