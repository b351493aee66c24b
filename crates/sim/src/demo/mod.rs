//! The demo model: rules, no AI. It talks about the records of a knowledge base through its declared tools, and admits what it cannot do.
//! Knows no provider's protocol.

mod calendar;
mod guided;
mod memory;
mod messages;
mod phrases;
mod readers;
mod results;
mod rules;
mod skills;
mod times;
mod tools;
mod words;
mod world;

use crate::declaration::Declaration;
use memory::{Event, Memory};
use messages::{Fate, Notice};
use results::{Found, Outcome};
use rules::Request;
use serde_json::{Map, Value, json};
use skills::{CREATE_EVENT, Heard, Known, MOVE_EVENT, Skill, Sureness, WEB_SEARCH};
use std::cmp::Reverse;
use times::Times;
use words::{Question, Record};
use world::Example;
pub use world::World;

/// Questions that the demo model can answer from the records on the polar ship Fram.
pub const SUGGESTIONS: [&str; 5] = [
    "Who designed the ship Fram?",
    "When did Amundsen reach the South Pole?",
    "How thick was Fram's hull?",
    "Who was the captain on the first voyage?",
    "Where is the Fram Museum?",
];

/// One of these records; a server that has it has them all.
pub const RECORD: &str = "doc:ship_fram";

/// The transcript of speech that the demo model cannot recognise.
pub const SPEECH_TRANSCRIPT: &str = "(speech, which the demo model cannot recognise)";

/// One step of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Say(String),
    Call {
        name: String,
        args: Map<String, Value>,
    },
    /// The answer continues with [`Model::consult`] once the results of the calls have come.
    AwaitResults,
}

/// A call in preparation, with the user's messages for it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Draft {
    tool: String,
    /// The guide's example that led to it; only for tools of the project.
    example: Option<Example>,
    /// The messages, the newest at the end.
    messages: Vec<String>,
    /// The arguments of its newest call.
    arguments: Map<String, Value>,
    /// The event to change, if the call changes one.
    event: Option<Event>,
    /// Events that the user may choose from.
    choices: Vec<Event>,
    /// The last parameter that the user was asked for.
    asked: Option<String>,
    /// The number of questions to the user.
    rounds: usize,
}

/// The model's current activity.
#[derive(Clone, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Idle,
    Searching(Question),
    Reading(Question, Found),
    Parting {
        farewell: String,
    },
    /// A call was made; its draft can be repeated in other words.
    Using {
        tool: String,
        draft: Option<Draft>,
    },
    /// The events are being listed, to find the one to change.
    Finding(Draft),
    /// The user was asked for an argument.
    Asking(Draft),
}

/// The demo model in one conversation.
#[derive(Clone, Debug, Default)]
pub struct Model {
    stage: Stage,
    rude_inputs: u32,
    /// The last record of the conversation.
    topic: Option<Record>,
    memory: Memory,
    /// A change that the user is being asked about.
    proposal: Option<Draft>,
    /// Earlier changes that the user is still asked about, as far as known.
    asked_before: Vec<Map<String, Value>>,
    /// The tool for a choice among the last offers.
    choice_for: Option<&'static str>,
    /// The user's last words.
    heard: String,
}

const SEARCH: &str = "kb_search";
const GET: &str = "kb_get";
const END: &str = "end_voice_session";
const IGNORE: &str = "ignore_user";
/// Tools with special handling here, or without any.
const OWN: [&str; 6] = [
    SEARCH,
    GET,
    END,
    IGNORE,
    "start_voice_session",
    "describe_tool",
];
const FILLER: &str = "One moment, I am looking that up.";
const FAREWELL: &str = "Goodbye, and fair winds!";
const SHUNNED: &str =
    "I asked for a friendlier tone. I am taking a break from this conversation now.";
const BLOCK_SECONDS: u32 = 300;
/// The hits from which the one with the best matching words is chosen.
const HITS_MAX: usize = 5;
/// The most characters of a message that are read.
const HEARD_CHARACTERS_MAX: usize = 10_000;
/// The most messages that one call is made from.
const MESSAGES_MAX: usize = 8;
/// The most questions to the user for one call before it is given up.
const ROUNDS_MAX: usize = 3;
/// The most earlier questions that a denial is matched with.
const QUESTIONS_MAX: usize = 8;
/// The most examples in the answer to a user who asks for help.
const EXAMPLES_MAX: usize = 2;
/// The most characters of such an example.
const EXAMPLE_CHARACTERS_MAX: usize = 80;
/// The name of the parameter for the choice of an event.
const EVENT: &str = "event";

impl Model {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a message: the user's words, or notices of the program.
    pub fn hear(&mut self, text: &str, world: &World<'_>) -> Vec<Reply> {
        let message = messages::read(text);
        let mut told = Vec::new();
        for notice in &message.notices {
            self.note(notice);
            let tell =
                |tool: &str, outcome: &Outcome| results::told(tool, outcome, world.now.as_ref());
            told.push(messages::told(notice, tell));
        }
        let words = match message.is_once_more && message.words.is_empty() {
            true => std::mem::take(&mut self.heard),
            false => message.words,
        };
        if words.is_empty() && !told.is_empty() {
            // The question to the user is still open.
            if !matches!(self.stage, Stage::Asking(_)) {
                self.stage = Stage::Idle;
            }
            return say(told.join(" "));
        }
        let mut replies = self.answer(&words, world);
        if !told.is_empty() {
            replies.insert(0, Reply::Say(told.join(" ")));
        }
        replies
    }

    /// Takes several messages of the user without an answer between them: answers the last, and the notices of all.
    pub fn hear_parts(&mut self, parts: &[String], world: &World<'_>) -> Vec<Reply> {
        let has_words = |part: &String| !messages::read(part).words.is_empty();
        let last = parts.iter().rposition(has_words);
        let is_heard = |(index, part): &(usize, &String)| Some(*index) == last || !has_words(part);
        let heard = parts.iter().enumerate().filter(is_heard);
        let heard: Vec<&str> = heard.map(|(_, part)| part.as_str()).collect();
        self.hear(&heard.join("\n\n"), world)
    }

    /// Takes speech, which is not recognised here.
    pub fn hear_speech(&mut self) -> Vec<Reply> {
        self.stage = Stage::Idle;
        say(format!(
            "I heard you, but this demo model cannot recognise speech. Please type or click a question, such as: {}",
            SUGGESTIONS[0]
        ))
    }

    /// Takes the results of the calls that the last answer waited for: tool and result, in the order of their arrival.
    pub fn consult(&mut self, results: &[(String, Value)], world: &World<'_>) -> Vec<Reply> {
        let outcome = results.last().map_or(
            Outcome::Failure("no result came back".to_owned()),
            |(_, response)| results::read(response),
        );
        match std::mem::take(&mut self.stage) {
            Stage::Idle | Stage::Asking(_) => Vec::new(),
            Stage::Searching(question) => self.found(question, outcome, world),
            Stage::Reading(question, found) => self.fetched(&question, found, outcome),
            Stage::Parting { farewell } => part_with(farewell, outcome),
            Stage::Using { tool, draft } => self.used(&tool, draft, outcome, world),
            Stage::Finding(draft) => self.listed(draft, outcome, world),
        }
    }

    /// Remembers the contents of a notice.
    fn note(&mut self, notice: &Notice) {
        let (tool, outcome) = match notice {
            Notice::Approved { tool, fate } => match fate {
                Fate::Ended(outcome) => (tool, Some(outcome)),
                Fate::AtWork | Fate::Unknown => (tool, None),
            },
            Notice::Denied {
                tool, arguments, ..
            } => {
                let before = self.asked_before.iter();
                let mut before = before.map(|asked| is_part(asked, arguments));
                if let Some(index) = before.position(|is_meant| is_meant) {
                    // The question after it is still open.
                    self.asked_before.remove(index);
                    return;
                }
                (tool, None)
            }
            Notice::Ended { tool, outcome } => (tool, Some(outcome)),
            Notice::Other(_) => return,
        };
        if self
            .proposal
            .as_ref()
            .is_some_and(|proposal| proposal.tool == *tool)
        {
            self.proposal = None;
        }
        if let Some(Outcome::Success(data)) = outcome {
            self.memory.learn(tool, data);
        }
    }

    fn answer(&mut self, text: &str, world: &World<'_>) -> Vec<Reply> {
        let stage = std::mem::take(&mut self.stage);
        let choice_for = self.choice_for.take();
        let request = rules::request(text);
        let text = cut(text);
        text.clone_into(&mut self.heard);
        self.memory.note_said(text);
        if let Stage::Asking(draft) = stage
            && let Some(replies) = self.go_on(draft, text, &request, world)
        {
            return replies;
        }
        match request {
            Request::Tool { name, args } => return self.use_tool(name, args, world),
            Request::Rudeness => return self.answer_rudeness(world),
            Request::Guidance => return say(guidance(world)),
            _ => {}
        }
        if choice_for.is_none()
            && let Some(replies) = self.reconsider(text, world)
        {
            return replies;
        }
        let is_offered = |tool: &str| !OWN.contains(&tool) && skills::of_tool(tool).is_none();
        let guided = guided::meant(text, world, is_offered);
        if let Some(guided) = guided.as_ref().filter(|guided| guided.is_sure) {
            return self.begin(&guided.tool.name, guided.example.cloned(), text, world);
        }
        let skill = skills::meant(text, Sureness::Said, |tool| world.has(tool));
        if let Some(tool) = skill
            .map(|skill| skill.tool)
            .or_else(|| said_in_guide(text, world))
        {
            return self.begin(tool, None, text, world);
        }
        if let Some(tool) = choice_for.filter(|tool| world.has(tool))
            && self.is_choice(text, world)
        {
            return self.begin(tool, None, text, world);
        }
        if request == Request::Farewell {
            return self.part(world);
        }
        if let Some(guided) = guided {
            return self.begin(&guided.tool.name, guided.example.cloned(), text, world);
        }
        let searches = world.has(SEARCH);
        let has = |tool: &str| world.has(tool) && !(searches && tool == WEB_SEARCH);
        if let Some(skill) = skills::meant(text, Sureness::Likely, has) {
            return self.begin(skill.tool, None, text, world);
        }
        match request {
            Request::Greeting => say(format!(
                "Hello! I am the demo model, rules without any AI. {}",
                offer(world)
            )),
            Request::Thanks => say("You are welcome."),
            Request::Question(_) if !searches && world.has(WEB_SEARCH) => {
                self.begin(WEB_SEARCH, None, text, world)
            }
            Request::Question(question) => self.search(question, world),
            // The other requests were answered above.
            _ => match skills::meant(text, Sureness::Said, |_| true) {
                Some(skill) => say(format!(
                    "I cannot do that here: no tool {} was declared to me.",
                    skill.tool
                )),
                None => say(guidance(world)),
            },
        }
    }

    /// Whether the words choose among the offers, or accept them.
    fn is_choice(&self, text: &str, world: &World<'_>) -> bool {
        let count = self.memory.offers.len().max(self.memory.drafts.len());
        let agrees = phrases::clauses(text).iter().any(|clause| {
            phrases::begins(
                clause,
                &[
                    "book $",
                    "do $",
                    "do_it",
                    "book_it",
                    "take_it",
                    "sure",
                    "of_course",
                ],
            )
        }) || rules::is_yes(text);
        let says_hour = || Times::read(text, world.now.as_ref()).says_hour();
        !text.contains('?')
            && (readers::picked(text, count).is_some() || agrees && count == 1 || says_hour())
    }

    /// Handles words about a change that the user is being asked about.
    fn reconsider(&mut self, text: &str, world: &World<'_>) -> Option<Vec<Reply>> {
        let proposal = self.proposal.as_ref()?;
        if rules::is_yes(text) {
            return Some(say(
                "Please answer the question that you are shown: a yes in words is no approval.",
            ));
        }
        if rules::leaves(text) || calendar::withdraws(text) {
            self.proposal = None;
            return Some(say(
                "Then please say no to the question that you are shown: without your yes nothing is done.",
            ));
        }
        let meant = skills::meant(text, Sureness::Said, |tool| world.has(tool));
        let is_whole =
            |skill: &Skill| skill.tool == CREATE_EVENT && self.is_whole(skill.tool, text, world);
        let is_other = meant.is_some_and(|skill| {
            ![CREATE_EVENT, MOVE_EVENT].contains(&skill.tool) || is_whole(skill)
        });
        if is_other || !calendar::changes_mind(text, world.now.as_ref()) {
            return None;
        }
        let mut draft = proposal.clone();
        draft.push(text);
        Some(self.pursue(draft, world))
    }

    fn begin(
        &mut self,
        tool: &str,
        example: Option<Example>,
        text: &str,
        world: &World<'_>,
    ) -> Vec<Reply> {
        let draft = Draft {
            tool: tool.to_owned(),
            example,
            messages: vec![text.to_owned()],
            ..Draft::default()
        };
        self.pursue(draft, world)
    }

    /// Takes the user's answer to a question. `None` where the words are about something else.
    fn go_on(
        &mut self,
        mut draft: Draft,
        text: &str,
        request: &Request,
        world: &World<'_>,
    ) -> Option<Vec<Reply>> {
        if rules::leaves(text) {
            return Some(say("All right, I leave it."));
        }
        let is_other = matches!(
            request,
            Request::Tool { .. } | Request::Farewell | Request::Rudeness | Request::Guidance
        );
        if is_other {
            return None;
        }
        let meant = skills::meant(text, Sureness::Said, |tool| world.has(tool));
        // For an event that does not exist yet, moving it means another start.
        let corrects = |skill: &&Skill| {
            skill.tool == draft.tool || skill.tool == MOVE_EVENT && draft.tool == CREATE_EVENT
        };
        if meant.is_some_and(|skill| !corrects(&skill)) {
            return None;
        }
        let is_same = meant.is_some_and(|skill| skill.tool == draft.tool && !skill.changes_event);
        if is_same && self.is_whole(&draft.tool, text, world) {
            return None;
        }
        let before = self.missing(&draft, world);
        draft.push(text);
        let is_question = text.trim_end().ends_with('?');
        if is_question && meant.is_none() && self.missing(&draft, world) == before {
            return None;
        }
        Some(self.pursue(draft, world))
    }

    /// Whether a message has all arguments of a call, so that it is a request of its own.
    fn is_whole(&self, tool: &str, text: &str, world: &World<'_>) -> bool {
        let alone = Draft {
            tool: tool.to_owned(),
            messages: vec![text.to_owned()],
            ..Draft::default()
        };
        self.missing(&alone, world).is_empty()
    }

    /// Calls the tool of a draft, or asks for what is missing.
    fn pursue(&mut self, draft: Draft, world: &World<'_>) -> Vec<Reply> {
        match skills::of_tool(&draft.tool) {
            Some(skill) if skill.changes_event => self.change_event(draft, world),
            Some(skill) => self.use_skill(skill, draft, world),
            None => self.use_guided(draft, world),
        }
    }

    /// The names of the arguments that a draft still lacks.
    fn missing(&self, draft: &Draft, world: &World<'_>) -> Vec<String> {
        match skills::of_tool(&draft.tool) {
            Some(skill) => {
                let (_, missing) = self.filled(skill, draft, world);
                missing.iter().map(|(name, _)| (*name).to_owned()).collect()
            }
            None => draft
                .guided(world)
                .map(|(_, missing)| missing)
                .unwrap_or_default(),
        }
    }

    /// The arguments in the words, and the parameters that the user is to be asked for.
    fn filled(
        &self,
        skill: &'static Skill,
        draft: &Draft,
        world: &World<'_>,
    ) -> (Map<String, Value>, Vec<(&'static str, &'static str)>) {
        let heard = draft.heard(world);
        let names: Vec<String> = world.tools.iter().map(|tool| tool.name.clone()).collect();
        let (mut arguments, mut missing) = (Map::new(), Vec::new());
        for parameter in skill.parameters {
            let known = Known {
                now: world.now.as_ref(),
                memory: &self.memory,
                arguments: &arguments,
                tools: &names,
            };
            match ((parameter.read)(&heard, &known), parameter.asked) {
                (Some(value), _) => {
                    arguments.insert(parameter.name.to_owned(), value);
                }
                (None, Some(asked)) if tools::takes(world.tools, skill.tool, parameter.name) => {
                    missing.push((parameter.name, asked));
                }
                (None, _) => {}
            }
        }
        (arguments, missing)
    }

    fn use_skill(&mut self, skill: &'static Skill, draft: Draft, world: &World<'_>) -> Vec<Reply> {
        let (arguments, missing) = self.filled(skill, &draft, world);
        if let Some((first, _)) = missing.first() {
            let asked: Vec<&str> = missing.iter().map(|(_, asked)| *asked).collect();
            return self.ask_for(draft, first, &asked.join(" and "), world);
        }
        let wanted: Vec<(&str, Value)> = arguments
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        match tools::arguments(world.tools, skill.tool, &[], &wanted) {
            Ok(arguments) => self.call_with(draft, arguments, world),
            Err(lack) => say(format!("I cannot do that: {lack}")),
        }
    }

    fn use_guided(&mut self, draft: Draft, world: &World<'_>) -> Vec<Reply> {
        let Some((arguments, missing)) = draft.guided(world) else {
            return say(format!("No tool called {} was declared to me.", draft.tool));
        };
        let Some(first) = missing.first() else {
            return self.call_with(draft, arguments, world);
        };
        let asked = format!("the {}", missing.join(" and the "));
        let first = first.clone();
        let asked = format!("{asked} for {}", draft.tool);
        self.ask_for(draft, &first, &asked, world)
    }

    fn ask_for(
        &mut self,
        mut draft: Draft,
        name: &str,
        asked: &str,
        world: &World<'_>,
    ) -> Vec<Reply> {
        if draft.rounds >= ROUNDS_MAX {
            return say("I do not understand it, so that I leave it.");
        }
        draft.rounds += 1;
        draft.asked = Some(name.to_owned());
        let is_time = ["start_time", "start_date", "end_date"].contains(&name);
        let form = match is_time && world.now.is_none() {
            true => ", written in full as in 2026-12-01T10:00:00+01:00",
            false => "",
        };
        self.stage = Stage::Asking(draft);
        say(format!("Please tell me {asked}{form}."))
    }

    fn call_with(
        &mut self,
        draft: Draft,
        arguments: Map<String, Value>,
        world: &World<'_>,
    ) -> Vec<Reply> {
        let tool = draft.tool.clone();
        let draft = Draft {
            arguments: arguments.clone(),
            ..draft
        };
        self.stage = Stage::Using {
            tool: tool.clone(),
            draft: Some(draft),
        };
        ask(world.tools, &tool, arguments)
    }

    /// Takes the result of a call.
    fn used(
        &mut self,
        tool: &str,
        draft: Option<Draft>,
        outcome: Outcome,
        world: &World<'_>,
    ) -> Vec<Reply> {
        let now = world.now.as_ref();
        match outcome {
            Outcome::Success(mut data) => {
                if let Some(draft) = draft.filter(|draft| draft.tool == WEB_SEARCH) {
                    keep_fitting(&mut data, &draft.messages);
                }
                self.memory.learn(tool, &data);
                self.choice_for = match tool {
                    "calendar_get_availability" if !self.memory.offers.is_empty() => {
                        Some(CREATE_EVENT)
                    }
                    "image_draft_prompt" => Some("image_generate"),
                    _ => None,
                };
                say(results::told(tool, &Outcome::Success(data), now))
            }
            Outcome::Asked(message) => {
                let told = results::told(tool, &Outcome::Asked(message), now);
                let earlier = std::mem::replace(&mut self.proposal, draft);
                let is_changed = earlier.as_ref().is_some_and(|earlier| {
                    let now = self.proposal.as_ref();
                    now.is_some_and(|now| {
                        now.tool == earlier.tool && now.messages.len() > earlier.messages.len()
                    })
                });
                let asked = self.proposal.as_ref().map(|now| &now.arguments);
                self.asked_before.retain(|before| asked != Some(before));
                if let Some(earlier) = earlier.filter(|earlier| asked != Some(&earlier.arguments)) {
                    self.asked_before.truncate(QUESTIONS_MAX - 1);
                    self.asked_before.insert(0, earlier.arguments);
                }
                match is_changed {
                    true => say(format!("{told} Please say no to the question before it.")),
                    false => say(told),
                }
            }
            Outcome::Failure(problem) => say(results::told(tool, &Outcome::Failure(problem), now)),
        }
    }

    fn search(&mut self, mut question: Question, world: &World<'_>) -> Vec<Reply> {
        if let Some(topic) = &self.topic {
            question.lean_on(&topic.title);
        }
        let wanted = [
            ("query", Value::from(question.query())),
            ("top_k", json!(HITS_MAX)),
        ];
        match tools::arguments(world.tools, SEARCH, &["query"], &wanted) {
            Ok(args) => {
                self.stage = Stage::Searching(question);
                ask(world.tools, SEARCH, args)
            }
            Err(lack) => say(format!("I cannot look that up: {lack}")),
        }
    }

    fn found(&mut self, question: Question, outcome: Outcome, world: &World<'_>) -> Vec<Reply> {
        let data = match outcome.ended() {
            Ok(data) => data,
            Err(problem) => return self.make_do(&question, &problem),
        };
        let hits = results::hits(&data).into_iter().enumerate();
        let best = hits.max_by_key(|(rank, hit)| (question.coverage(&hit.record), Reverse(*rank)));
        let Some((_, found)) = best else {
            return unknown();
        };
        // A passage without a word of the question has another subject: it is neither read nor named.
        if !found.record.text.is_empty() && question.coverage(&found.record) == 0 {
            return unknown();
        }
        let wanted = [("id", Value::from(found.id.clone()))];
        match tools::arguments(world.tools, GET, &["id"], &wanted) {
            Ok(args) if !found.id.is_empty() => {
                self.stage = Stage::Reading(question, found);
                call(GET, args)
            }
            Ok(_) | Err(_) => self.tell(&question, found.record),
        }
    }

    fn fetched(&mut self, question: &Question, found: Found, outcome: Outcome) -> Vec<Reply> {
        let record = match outcome.ended() {
            Ok(data) => results::record(&data, &found.record),
            // The search returned a passage already, which is used.
            Err(_) => found.record,
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

    /// Answers after a refused search from the known record, if that is about the question.
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

    fn part(&mut self, world: &World<'_>) -> Vec<Reply> {
        let wanted = [
            ("reason", json!("user_requested")),
            ("closing_message", json!(FAREWELL)),
        ];
        match tools::arguments(world.tools, END, &[], &wanted) {
            Ok(args) => {
                self.stage = Stage::Parting {
                    farewell: FAREWELL.to_owned(),
                };
                call(END, args)
            }
            Err(_) => say("Goodbye! I cannot end the session myself; you can close it."),
        }
    }

    fn answer_rudeness(&mut self, world: &World<'_>) -> Vec<Reply> {
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
        match tools::arguments(world.tools, IGNORE, &[], &wanted) {
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
        world: &World<'_>,
    ) -> Vec<Reply> {
        if !world.has(&name) {
            return say(format!("No tool called {name} was declared to me."));
        }
        self.stage = Stage::Using {
            tool: name.clone(),
            draft: None,
        };
        ask(world.tools, &name, args)
    }
}

impl Draft {
    fn push(&mut self, text: &str) {
        if self.messages.len() == MESSAGES_MAX {
            self.messages.remove(1);
        }
        self.messages.push(text.to_owned());
    }

    /// The parameter that the newest message answers.
    fn answered(&self) -> Option<&str> {
        self.asked.as_deref().filter(|_| self.messages.len() > 1)
    }

    fn heard(&self, world: &World<'_>) -> Heard<'_> {
        let read = |text: &String| Times::read(text, world.now.as_ref());
        let times = self.messages.iter().map(read).reduce(Times::corrected_by);
        Heard {
            messages: &self.messages,
            times: times.unwrap_or_default(),
            asked: self.answered(),
        }
    }

    /// The arguments of a project's tool, and the missing ones; `None` where the tool is not declared.
    fn guided(&self, world: &World<'_>) -> Option<(Map<String, Value>, Vec<String>)> {
        let tool = world.tool(&self.tool)?;
        let answers = self.answered();
        let example = self.example.as_ref();
        Some(guided::arguments(
            &self.messages,
            answers,
            tool,
            example,
            world.now.as_ref(),
        ))
    }
}

/// The built-in tool whose guide has exactly this sentence.
fn said_in_guide(text: &str, world: &World<'_>) -> Option<&'static str> {
    let words = phrases::words(text);
    let is_said = |example: &&Example| phrases::words(&example.said) == words;
    let mut said = world.examples.iter().filter(is_said);
    said.find_map(|example| Some(skills::of_tool(&example.tool)?.tool))
}

/// Whether these are the arguments of a denied call, to which the program adds those with defaults.
fn is_part(arguments: &Map<String, Value>, denied: &Value) -> bool {
    !arguments.is_empty()
        && arguments
            .iter()
            .all(|(name, value)| denied.get(name) == Some(value))
}

/// Keeps only pages with a word of the question; other pages are not to be cited.
fn keep_fitting(data: &mut Value, messages: &[String]) {
    let question = Question::new(messages.first().map_or("", String::as_str));
    if let Some(pages) = data.get_mut("results").and_then(Value::as_array_mut) {
        pages.retain(|page| question.coverage(&results::record(page, &Record::default())) > 0);
    }
}

/// The part of a message that is read.
fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(HEARD_CHARACTERS_MAX);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Answers the result with the farewell, or with the refusal.
fn part_with(farewell: String, outcome: Outcome) -> Vec<Reply> {
    match outcome.ended() {
        Ok(data) => {
            let given = data.get("finalMessage").and_then(Value::as_str);
            say(given
                .filter(|text| !text.trim().is_empty())
                .map_or(farewell, str::to_owned))
        }
        Err(problem) => say(format!("That did not work: {}", words::sentence(&problem))),
    }
}

fn guidance(world: &World<'_>) -> String {
    match examples(world).is_empty() {
        true => format!(
            "I look up the words of a question in the knowledge base. If it has the records on the ship Fram, ask: {}",
            SUGGESTIONS[0]
        ),
        false => offer(world),
    }
}

/// The answer to a user who asks for help, from the guides of the tools.
fn offer(world: &World<'_>) -> String {
    match examples(world).as_slice() {
        [] => format!("You can ask me: {}", SUGGESTIONS[0]),
        examples => format!("You can say: “{}”", examples.join("” or “")),
    }
}

/// Examples of guides that lead to a call here: one for each tool, the project's own tools first.
fn examples<'w>(world: &'w World<'_>) -> Vec<&'w str> {
    let is_offered = |tool: &str| !OWN.contains(&tool);
    let leads = |example: &&Example| {
        let said = &example.said;
        let skill = skills::meant(said, Sureness::Said, |tool| world.has(tool));
        let is_own = skills::of_tool(&example.tool).is_none();
        is_offered(&example.tool)
            && said.chars().count() <= EXAMPLE_CHARACTERS_MAX
            && (is_own && skill.is_none() || skill.is_some_and(|skill| skill.tool == example.tool))
    };
    let mut found: Vec<&Example> = Vec::new();
    // A question changes nothing, so questions come first.
    for (own, asks) in [(true, true), (true, false), (false, true), (false, false)] {
        for example in world.examples.iter().filter(leads) {
            let is_own = skills::of_tool(&example.tool).is_none();
            let is_new = found.iter().all(|other| other.tool != example.tool);
            let fits = is_own == own && example.said.ends_with('?') == asks;
            if fits && is_new && found.len() < EXAMPLES_MAX {
                found.push(example);
            }
        }
    }
    found
        .into_iter()
        .map(|example| example.said.as_str())
        .collect()
}

fn unknown() -> Vec<Reply> {
    say("I do not know: nothing that I found in the knowledge base answers this.")
}

fn say(text: impl Into<String>) -> Vec<Reply> {
    vec![Reply::Say(text.into())]
}

/// A call, and, if it does not block, some words to the user meanwhile.
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
mod dialogues;
#[cfg(test)]
mod tests;
