//! The demo model: rules, no AI. It talks about the records of a knowledge base through the tools that were declared
//! to it, and says honestly what it cannot do. Knows no provider's protocol.

mod results;
mod rules;
mod tools;
mod words;

use crate::declaration::Declaration;
use results::{Found, Outcome};
use rules::Request;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use words::{Question, Record};

/// Questions that the demo model can answer from the records on the polar ship Fram.
pub const SUGGESTIONS: [&str; 5] = [
    "Who designed the ship Fram?",
    "When did Amundsen reach the South Pole?",
    "How thick was Fram's hull?",
    "Who was the captain on the first voyage?",
    "Where is the Fram Museum?",
];

/// One of those records: who serves it has them all.
pub const RECORD: &str = "doc:ship_fram";

/// What stands for the words of a user whom the demo model cannot understand.
pub const SPEECH_TRANSCRIPT: &str = "(speech, which the demo model cannot recognise)";

/// One step of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Say(String),
    Call {
        name: String,
        args: Map<String, Value>,
    },
    /// The answer goes on with [`Model::consult`] once the results of the calls are there.
    AwaitResults,
}

/// What the model is in the middle of.
#[derive(Clone, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Idle,
    Searching(Question),
    Reading(Question, Found),
    Parting {
        farewell: String,
    },
    Using {
        tool: String,
    },
}

/// The demo model in one conversation.
#[derive(Clone, Debug, Default)]
pub struct Model {
    stage: Stage,
    rude_inputs: u32,
    /// The record that was spoken of last.
    topic: Option<Record>,
}

const SEARCH: &str = "kb_search";
const GET: &str = "kb_get";
const END: &str = "end_voice_session";
const IGNORE: &str = "ignore_user";
const FILLER: &str = "One moment, I am looking that up.";
const FAREWELL: &str = "Goodbye, and fair winds!";
const SHUNNED: &str =
    "I asked for a friendlier tone. I am taking a break from this conversation now.";
const BLOCK_SECONDS: u32 = 300;
/// Hits among which the one is chosen whose words fit best.
const HITS_MAX: usize = 5;

impl Model {
    pub fn new() -> Self {
        Self::default()
    }

    /// The user typed something.
    pub fn hear(&mut self, text: &str, tools: &[Declaration]) -> Vec<Reply> {
        self.stage = Stage::Idle;
        match rules::request(text) {
            Request::Greeting => say(format!(
                "Hello! I am the demo model, rules without any AI. You can ask me: {}",
                SUGGESTIONS[0]
            )),
            Request::Thanks => say("You are welcome."),
            Request::Guidance | Request::Unclear => say(guidance()),
            Request::Farewell => self.part(tools),
            Request::Rudeness => self.answer_rudeness(tools),
            Request::Tool { name, args } => self.use_tool(name, args, tools),
            Request::Question(question) => self.search(question, tools),
            // It speaks of the user, and ends with what the model shall not do.
            Request::Notice(text) => say(words::shortened(
                text.replace("The user was", "You were")
                    .replace("The user", "You")
                    .split(" Do not call it again")
                    .next()
                    .unwrap_or_default(),
            )),
        }
    }

    /// The user spoke, which nobody here understands.
    pub fn hear_speech(&mut self) -> Vec<Reply> {
        self.stage = Stage::Idle;
        say(format!(
            "I heard you, but this demo model cannot recognise speech. Please type or click a question, such as: {}",
            SUGGESTIONS[0]
        ))
    }

    /// The results of the calls that the last answer waited for, by tool and in the order of their arrival.
    pub fn consult(&mut self, results: &[(String, Value)], tools: &[Declaration]) -> Vec<Reply> {
        let outcome = results.last().map_or(
            Outcome::Failure("no result came back".to_owned()),
            |(_, response)| results::read(response),
        );
        match std::mem::take(&mut self.stage) {
            Stage::Idle => Vec::new(),
            Stage::Searching(question) => self.found(question, outcome, tools),
            Stage::Reading(question, found) => self.fetched(&question, found, outcome),
            Stage::Parting { farewell } => part_with(farewell, outcome),
            Stage::Using { tool } => say(results::told(&tool, &outcome)),
        }
    }

    fn search(&mut self, mut question: Question, tools: &[Declaration]) -> Vec<Reply> {
        if let Some(topic) = &self.topic {
            question.lean_on(&topic.title);
        }
        let wanted = [
            ("query", Value::from(question.query())),
            ("top_k", json!(HITS_MAX)),
        ];
        match tools::arguments(tools, SEARCH, &["query"], &wanted) {
            Ok(args) => {
                self.stage = Stage::Searching(question);
                ask(tools, SEARCH, args)
            }
            Err(lack) => say(format!("I cannot look that up: {lack}")),
        }
    }

    fn found(&mut self, question: Question, outcome: Outcome, tools: &[Declaration]) -> Vec<Reply> {
        let data = match outcome {
            Outcome::Success(data) => data,
            Outcome::Failure(problem) => return self.make_do(&question, &problem),
        };
        let hits = results::hits(&data).into_iter().enumerate();
        let best = hits.max_by_key(|(rank, hit)| (question.coverage(&hit.record), Reverse(*rank)));
        let Some((_, found)) = best else {
            return unknown();
        };
        let wanted = [("id", Value::from(found.id.clone()))];
        match tools::arguments(tools, GET, &["id"], &wanted) {
            Ok(args) if !found.id.is_empty() => {
                self.stage = Stage::Reading(question, found);
                call(GET, args)
            }
            Ok(_) | Err(_) => self.tell(&question, found.record),
        }
    }

    fn fetched(&mut self, question: &Question, found: Found, outcome: Outcome) -> Vec<Reply> {
        let record = match outcome {
            Outcome::Success(data) => results::record(&data, &found.record),
            // The search brought a passage already; that is what there is.
            Outcome::Failure(_) => found.record,
        };
        self.tell(question, record)
    }

    fn tell(&mut self, question: &Question, record: Record) -> Vec<Reply> {
        let Some(answer) = question.answer_from(&record) else {
            return unknown();
        };
        self.topic = Some(record);
        say(answer)
    }

    /// The search was refused: answer with what is known already, if that speaks of what was asked.
    fn make_do(&self, question: &Question, problem: &str) -> Vec<Reply> {
        let known = self.topic.as_ref();
        match known.and_then(|topic| question.answer_from(topic)) {
            Some(answer) => say(answer),
            None => say(format!(
                "I cannot look that up now: {}",
                words::sentence(problem)
            )),
        }
    }

    fn part(&mut self, tools: &[Declaration]) -> Vec<Reply> {
        let wanted = [
            ("reason", json!("user_requested")),
            ("closing_message", json!(FAREWELL)),
        ];
        match tools::arguments(tools, END, &[], &wanted) {
            Ok(args) => {
                self.stage = Stage::Parting {
                    farewell: FAREWELL.to_owned(),
                };
                call(END, args)
            }
            Err(_) => say("Goodbye! I cannot end the session myself; you can close it."),
        }
    }

    fn answer_rudeness(&mut self, tools: &[Declaration]) -> Vec<Reply> {
        self.rude_inputs = self.rude_inputs.saturating_add(1);
        if self.rude_inputs < 2 {
            return say(
                "Please stay friendly. If this goes on, I shall stop answering for a while.",
            );
        }
        let wanted = [
            ("duration_seconds", json!(BLOCK_SECONDS)),
            ("farewell_message", json!(SHUNNED)),
        ];
        match tools::arguments(tools, IGNORE, &[], &wanted) {
            Ok(args) => {
                self.stage = Stage::Parting {
                    farewell: SHUNNED.to_owned(),
                };
                call(IGNORE, args)
            }
            Err(_) => say("I do not answer insults. Ask me something about the ship instead."),
        }
    }

    fn use_tool(
        &mut self,
        name: String,
        args: Map<String, Value>,
        tools: &[Declaration],
    ) -> Vec<Reply> {
        if !tools.iter().any(|tool| tool.name == name) {
            return say(format!("No tool called {name} was declared to me."));
        }
        self.stage = Stage::Using { tool: name.clone() };
        ask(tools, &name, args)
    }
}

/// A farewell is the answer to the result; a refusal is said as what it is.
fn part_with(farewell: String, outcome: Outcome) -> Vec<Reply> {
    match outcome {
        Outcome::Success(data) => {
            let given = data.get("finalMessage").and_then(Value::as_str);
            say(given
                .filter(|text| !text.trim().is_empty())
                .map_or(farewell, str::to_owned))
        }
        Outcome::Failure(problem) => {
            say(format!("That did not work: {}", words::sentence(&problem)))
        }
    }
}

fn guidance() -> String {
    format!(
        "I look up the words of a question in the knowledge base. If it has the records on the ship Fram, ask: {}",
        SUGGESTIONS[0]
    )
}

fn unknown() -> Vec<Reply> {
    say("I do not know: nothing that I found in the knowledge base answers this.")
}

fn say(text: impl Into<String>) -> Vec<Reply> {
    vec![Reply::Say(text.into())]
}

/// A call and, where it does not block, a word to the user meanwhile.
fn ask(tools: &[Declaration], name: &str, args: Map<String, Value>) -> Vec<Reply> {
    let mut replies = call(name, args);
    let waits = tools.iter().any(|tool| tool.name == name && !tool.blocking);
    if waits {
        replies.insert(1, Reply::Say(FILLER.to_owned()));
    }
    replies
}

fn call(name: &str, args: Map<String, Value>) -> Vec<Reply> {
    vec![
        Reply::Call {
            name: name.to_owned(),
            args,
        },
        Reply::AwaitResults,
    ]
}

#[cfg(test)]
mod tests;
