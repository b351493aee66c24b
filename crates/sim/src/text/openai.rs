//! Chat Completions as OpenAI's service answers, and the entry to its other protocols over HTTP: its routes, its rules for messages, its
//! chunks. Knows nothing of the answer's content.

use super::openai_messages::read_messages;
use super::openai_refusal::{Refusal, error_body};
use super::openai_rules::{CREATED, TOOLS_MAX, is_name};
use super::plan::{self, Said};
use super::{BODY_BYTES_MAX, HttpAnswer, Piece, Request, Stream, responses};
use crate::declaration::Declaration;
use crate::pieces::split;
use crate::runner::Options;
use crate::script::{Action, CallForm, CallId, Delivery};
use serde_json::{Value, json};

pub(super) fn answer(request: &Request<'_>, options: &Options, number: u64) -> HttpAnswer {
    match route(request) {
        Err(refusal) => refusal.answer(),
        Ok(Route::Models) => super::json_answer(
            200,
            &json!({"object": "list", "data": [
                {"id": "demo", "object": "model", "created": CREATED, "owned_by": "simulator"}
            ]}),
        ),
        Ok(Route::Responses) => responses::answer(request.body, options, number),
        Ok(Route::Chat) => match Chat::read(request.body) {
            Err(refusal) => refusal.answer(),
            Ok(chat) => {
                let actions = plan::next(options, &chat.instruction, &chat.said, &chat.tools);
                chat.carry_out(&actions, number)
            }
        },
    }
}

enum Route {
    Chat,
    Responses,
    Models,
}

/// Every key is accepted, with two exceptions: `bad-` is refused with 401, `quota-` with 429.
fn route(request: &Request<'_>) -> Result<Route, Refusal> {
    let refuse = |status, code, message: &str| {
        Err(Refusal {
            status,
            code: Some(code),
            param: None,
            message: message.to_owned(),
        })
    };
    let route = if request.path.ends_with("/chat/completions") {
        Route::Chat
    } else if request.path.ends_with("/responses") {
        Route::Responses
    } else if request.path.ends_with("/models") {
        Route::Models
    } else {
        return refuse(404, "unknown_url", "Invalid URL.");
    };
    let method = match route {
        Route::Chat | Route::Responses => "POST",
        Route::Models => "GET",
    };
    if request.method != method {
        return refuse(
            405,
            "method_not_allowed",
            "Not allowed to use this method here.",
        );
    }
    let key = request.header("authorization").unwrap_or_default();
    match key.strip_prefix("Bearer ").unwrap_or_default().trim() {
        "" => refuse(401, "invalid_api_key", "You didn't provide an API key."),
        key if key.starts_with("bad-") => {
            refuse(401, "invalid_api_key", "Incorrect API key provided.")
        }
        key if key.starts_with("quota-") => refuse(
            429,
            "insufficient_quota",
            "You exceeded your current quota.",
        ),
        _ => Ok(route),
    }
}

struct Chat {
    model: String,
    instruction: String,
    said: Vec<Said>,
    tools: Vec<Declaration>,
    streams: bool,
    wants_usage: bool,
    characters: usize,
}

impl Chat {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.len() > BODY_BYTES_MAX {
            return Err(Refusal::too_large());
        }
        let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(body) else {
            return Err(Refusal::invalid(
                "We could not parse the JSON body of your request.",
            ));
        };
        let Some(model) = body.get("model").and_then(Value::as_str) else {
            return Err(Refusal::invalid("you must provide a model parameter"));
        };
        let messages = body.get("messages").and_then(Value::as_array);
        let messages = messages.filter(|messages| !messages.is_empty());
        let Some(messages) = messages else {
            return Err(Refusal::invalid("Missing required parameter: 'messages'.").at("messages"));
        };
        let tools = read_tools(body.get("tools"))?;
        if tools.is_empty() {
            for name in ["parallel_tool_calls", "tool_choice"] {
                if body.get(name).is_some_and(|value| !value.is_null()) {
                    let message = format!("'{name}' is only allowed when 'tools' are specified.");
                    return Err(Refusal::invalid(message).at(name));
                }
            }
        }
        let effort = body.get("reasoning_effort").and_then(Value::as_str);
        if !tools.is_empty() && refuses_tools_with(model, effort) {
            return Err(Refusal::invalid(format!(
                "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
            ))
            .at("reasoning_effort"));
        }
        let forbids = body.get("tool_choice").and_then(Value::as_str) == Some("none");
        let flag = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
        let streams = flag(body.get("stream"));
        let options = body.get("stream_options").filter(|value| !value.is_null());
        if options.is_some() && !streams {
            let message =
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
            return Err(Refusal::invalid(message).at("stream_options"));
        }
        Ok(Self {
            model: model.to_owned(),
            instruction: plan::instruction_of(messages),
            said: read_messages(messages)?,
            tools: if forbids { Vec::new() } else { tools },
            streams,
            wants_usage: flag(options.and_then(|options| options.get("include_usage"))),
            characters: messages
                .iter()
                .map(|message| message.to_string().len())
                .sum(),
        })
    }

    fn carry_out(&self, actions: &[Action], number: u64) -> HttpAnswer {
        if let Some(Action::Fail(failure)) = actions.first() {
            let message = failure.message.as_deref().unwrap_or("The script says so.");
            let body = error_body(failure.status, None, None, message);
            return super::failed(failure, &body);
        }
        let mut speaker = Speaker::new(self, number);
        for action in actions {
            if !speaker.act(action) {
                return speaker.cut_short(self.streams);
            }
        }
        if self.streams {
            speaker.finish_stream(self)
        } else {
            speaker.whole(self)
        }
    }
}

/// Whether function tools are refused with this effort. From GPT-5.2 on they do not go together with reasoning; from GPT-5.5 on a model
/// reasons unless told not to (BerriAI/litellm pull request 34569).
fn refuses_tools_with(model: &str, effort: Option<&str>) -> bool {
    let generation = model.strip_prefix("gpt-").unwrap_or_default();
    let end = generation.find('-').unwrap_or(generation.len());
    let mut numbers = generation[..end]
        .split('.')
        .map(|number| number.parse().ok());
    let major: u32 = numbers.next().flatten().unwrap_or(0);
    let minor: u32 = numbers.next().flatten().unwrap_or(0);
    match effort {
        Some("none") => false,
        Some(_) => (major, minor) >= (5, 2),
        None => (major, minor) >= (5, 5),
    }
}

fn read_tools(tools: Option<&Value>) -> Result<Vec<Declaration>, Refusal> {
    let Some(tools) = tools.filter(|tools| !tools.is_null()) else {
        return Ok(Vec::new());
    };
    let tools = tools.as_array().filter(|tools| !tools.is_empty());
    let Some(tools) = tools else {
        return Err(Refusal::invalid("[] is too short - 'tools'").at("tools"));
    };
    if tools.len() > TOOLS_MAX {
        return Err(Refusal {
            code: Some("array_above_max_length"),
            ..Refusal::invalid("Invalid 'tools': array too long.").at("tools")
        });
    }
    let read = |(index, tool): (usize, &Value)| {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap_or_default();
        if !is_name(name) {
            let param = format!("tools[{index}].function.name");
            let message = format!("Invalid '{param}': string does not match pattern.");
            return Err(Refusal::invalid(message).at(param));
        }
        let parameters = function.get("parameters").cloned();
        let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        if parameters["type"] != "object" {
            let param = format!("tools[{index}].function.parameters");
            let message =
                format!("Invalid schema for function '{name}': schema must be of type 'object'.");
            return Err(Refusal {
                code: Some("invalid_function_parameters"),
                ..Refusal::invalid(message).at(param)
            });
        }
        Ok(Declaration {
            name: name.to_owned(),
            description: function["description"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            parameters,
            json_schema: true,
            blocking: true,
        })
    };
    tools.iter().enumerate().map(read).collect()
}

/// An answer in progress, built as a stream and as a whole at once.
struct Speaker<'c> {
    chat: &'c Chat,
    number: u64,
    stream: Stream,
    text: String,
    reasoning: String,
    calls: Vec<Value>,
}

const HALF: &str = "(half)";

impl<'c> Speaker<'c> {
    fn new(chat: &'c Chat, number: u64) -> Self {
        let mut speaker = Self {
            chat,
            number,
            stream: Stream::default(),
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
        };
        speaker.delta(json!({"role": "assistant", "content": ""}));
        speaker
    }

    fn chunk(&self, choices: Value, usage: Value) -> Value {
        json!({"id": format!("chatcmpl-{}", self.number), "object": "chat.completion.chunk", "created": CREATED,
            "model": self.chat.model, "choices": choices, "usage": usage})
    }

    fn delta_chunk(&self, delta: Value) -> Value {
        self.chunk(
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]),
            Value::Null,
        )
    }

    fn delta(&mut self, delta: Value) {
        let chunk = self.delta_chunk(delta);
        self.stream.push(&chunk);
    }

    /// `false` where the answer ends here, without its end mark.
    fn act(&mut self, action: &Action) -> bool {
        match action {
            Action::Say(text) => {
                for piece in split(text) {
                    self.text.push_str(&piece);
                    self.delta(json!({ "content": piece }));
                }
            }
            Action::Think(text) => {
                self.reasoning.push_str(text);
                self.delta(json!({ "reasoning_content": text }));
            }
            Action::Call(call) => self.call(call),
            Action::Calls(calls) => calls.iter().for_each(|call| self.call(call)),
            Action::Fail(failure) => {
                let message = failure.message.as_deref().unwrap_or("The script says so.");
                let error = error_body(failure.status, None, None, message);
                self.stream.push(&error);
                return false;
            }
            Action::Endless => {
                let chunk = self.delta_chunk(json!({ "content": "and on " }));
                let bytes = format!("data: {chunk}\n\n").into_bytes();
                self.stream.pieces.push(Piece::Endless(bytes));
                return false;
            }
            Action::HalfACharacter => {
                let chunk = self.delta_chunk(json!({ "content": HALF }));
                self.stream.bytes(super::half_a_letter(&chunk, HALF));
            }
            Action::WaitMs(milliseconds) => self.stream.pieces.push(Piece::WaitMs(*milliseconds)),
            Action::Raw(value) => self.stream.push(value),
            Action::RawText(text) => self.stream.bytes(text.clone().into_bytes()),
            Action::LeaveOpen => return false,
            Action::Drop => {
                self.stream.pieces.push(Piece::Cut);
                return false;
            }
            Action::HalfFrame(value) => {
                self.stream.half(value);
                return false;
            }
            // Actions for spoken conversations do nothing here.
            Action::AudioMs(_)
            | Action::Search(_)
            | Action::ExpectResponse
            | Action::Cancel
            | Action::EndTurn
            | Action::StallMs(_)
            | Action::GoAwayMs(_)
            | Action::Close(_)
            | Action::RefuseConnects(_)
            | Action::Flood(_) => {}
        }
        true
    }

    /// Sends a call in two pieces: the tool's name, then the arguments. Arguments that are a text are sent as they are.
    fn call(&mut self, call: &CallForm) {
        let arguments = match &call.args {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let id = match &call.id {
            CallId::Minted => Value::String(format!("call_{}_{}", self.number, self.calls.len())),
            CallId::Given(id) => Value::String(id.clone()),
            CallId::Missing => Value::Null,
        };
        let index = match call.deliver {
            Delivery::SameIndex => 0,
            Delivery::Call | Delivery::Part | Delivery::Both => self.calls.len(),
        };
        self.delta(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": call.name, "arguments": ""}}]}),
        );
        self.delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}));
        self.calls.push(json!({"id": id, "type": "function",
            "function": {"name": call.name, "arguments": arguments}}));
    }

    fn finish_reason(&self) -> &'static str {
        if self.calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        }
    }

    fn usage(&self) -> Value {
        let prompt = plan::tokens(self.chat.characters);
        let called: usize = self.calls.iter().map(|call| call.to_string().len()).sum();
        let completion = plan::tokens(self.text.len() + self.reasoning.len() + called);
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    }

    fn finish_stream(mut self, chat: &Chat) -> HttpAnswer {
        let reason = self.finish_reason();
        let last = self.chunk(
            json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason}]),
            Value::Null,
        );
        self.stream.push(&last);
        if chat.wants_usage {
            let usage = self.chunk(json!([]), self.usage());
            self.stream.push(&usage);
        }
        self.stream.bytes(b"data: [DONE]\n\n".to_vec());
        self.stream.answer()
    }

    fn whole(self, chat: &Chat) -> HttpAnswer {
        let mut message = json!({"role": "assistant", "content": self.text, "refusal": null});
        if !self.calls.is_empty() {
            message["tool_calls"] = Value::Array(self.calls.clone());
            if self.text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        let body = json!({"id": format!("chatcmpl-{}", self.number), "object": "chat.completion", "created": CREATED,
            "model": chat.model, "usage": self.usage(),
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": self.finish_reason()}]});
        let mut answer = super::json_answer(200, &body);
        let waits = self.stream.pieces.into_iter();
        let waits = waits.filter(|piece| matches!(piece, Piece::WaitMs(_)));
        answer.body.splice(0..0, waits);
        answer
    }

    /// Breaks the answer: a stream where it stands, a whole answer before its first byte.
    fn cut_short(self, streams: bool) -> HttpAnswer {
        if streams {
            return self.stream.answer();
        }
        let mut answer = super::json_answer(200, &Value::Null);
        answer.body = match self.stream.pieces.into_iter().next_back() {
            Some(Piece::Endless(bytes)) => vec![Piece::Endless(bytes)],
            Some(_) | None => vec![Piece::Cut],
        };
        answer
    }
}
