//! Writes outputs as the lines that scripts expect.

use super::names::Names;
use std::fmt::Write;
use windlass_contract::envelope::{Outcome, Projection, ProjectionBody};
use windlass_contract::id::EffectId;
use windlass_session::client::{ClientUpdate, Image};
use windlass_session::event::{CallRecord, ConsentReason, SessionEvent, StandingNote};
use windlass_session::io::{Output, RateCharge};
use windlass_session::log_text::Said;
use windlass_session::model::ModelCommand;
use windlass_store::command::AnswerVerdict;
use windlass_store::{
    Entry, EntryEvent, QuestionNumber, StandingApproval, StandingEvent, standing_id,
};

/// The outputs of the session of this name.
pub(crate) fn render_all(name: &str, outputs: &[Output], names: &mut Names, text: &mut String) {
    for output in outputs {
        if let Some(line) = render(output, names) {
            match name {
                "" => writeln!(text, "{line}").unwrap(),
                name => writeln!(text, "{name}: {line}").unwrap(),
            }
        }
    }
}

/// An entry of the log, without its number, which says nothing.
pub(crate) fn render_entry(entry: &Entry, names: &mut Names) -> String {
    let leg = entry.leg.as_ref().map(ToString::to_string);
    let leg = leg.unwrap_or_default();
    let what = match &entry.event {
        EntryEvent::Onset => "the user begins".to_owned(),
        EntryEvent::Said(_) => match Said::of(entry).unwrap() {
            Said::Words { role, text, .. } => format!("{role:?} said {:?}", text.expose()),
            Said::Call {
                call,
                tool,
                arguments,
                result,
                ..
            } => {
                let arguments = arguments.map(|arguments| arguments.expose().to_string());
                let arguments = arguments.unwrap_or_else(|| "unread".to_owned());
                format!("{call} {tool} {arguments} brought {}", result.expose())
            }
            Said::Notice { text } => format!("notice {:?}", text.expose()),
            Said::State { changed, values } => {
                let values = serde_json::to_string(&values).unwrap();
                format!("values {values} after {}", changed.join(", "))
            }
            other => format!("{other:?}"),
        },
        EntryEvent::Effect(change) => format!(
            "{} of {} {:?}, attempt {}",
            names.of(&change.effect_id),
            change.tool,
            change.state,
            change.attempt.0
        ),
        EntryEvent::Question(change) => {
            format!(
                "question-{} about {} {:?}",
                change.number.0, change.tool, change.state
            )
        }
        EntryEvent::Standing(change) => {
            let what = match &change.event {
                StandingEvent::Given => "given".to_owned(),
                StandingEvent::Used(Some(effect_id)) => format!("used by {}", names.of(effect_id)),
                StandingEvent::Used(None) => "used".to_owned(),
                StandingEvent::Ended(why) => format!("ended: {}", why.as_str()),
            };
            let id = standing_id(change.question);
            format!("{id} for {} {what}", change.tool)
        }
        EntryEvent::Replayed(effect_id) => format!("{} told again", names.of(effect_id)),
        EntryEvent::CancelRequested(effect_id) => format!("{} is to stop", names.of(effect_id)),
        EntryEvent::Asked(request) => format!("asked of {}: {:?}", request.leg, request.intents),
        EntryEvent::Attached(mode) => format!("begins by {}", mode.as_str()),
        EntryEvent::Gone => "is over".to_owned(),
    };
    format!("{leg}: {what}")
}

fn list(effects: &[EffectId], questions: &[QuestionNumber], names: &mut Names) -> String {
    let mut all: Vec<String> = effects.iter().map(|id| names.of(id)).collect();
    all.extend(
        questions
            .iter()
            .map(|number| format!("question-{}", number.0)),
    );
    all.join(", ")
}

fn render(output: &Output, names: &mut Names) -> Option<String> {
    Some(match output {
        // Said in every script; those that care ask for the log.
        Output::Append(_) | Output::Taint => return None,
        Output::Request { call, request } => format!("request {call} {}", request.tool.id),
        Output::Answer {
            call,
            question,
            answer,
        } => match &answer.verdict {
            AnswerVerdict::Approved(_) => format!("answer question-{} yes as {call}", question.0),
            AnswerVerdict::Denied { .. } => format!("answer question-{} no", question.0),
        },
        Output::Abandon { .. } => "abandon".to_owned(),
        Output::Progress(told) => format!(
            "keep that {} is at {:?}",
            names.of(&told.effect_id),
            told.progress.message.expose()
        ),
        Output::CancelTask(effect_id) => format!("cancel {}", names.of(effect_id)),
        Output::Record { record, .. } => {
            format!(
                "record {} {:?}",
                names.of(&record.effect_id),
                record.outcome
            )
        }
        Output::Withdraw(questions) => {
            let questions: Vec<QuestionNumber> = questions
                .iter()
                .map(|withdrawn| withdrawn.question)
                .collect();
            format!("withdraw {}", list(&[], &questions, names))
        }
        Output::Revoke(question) => format!("revoke {}", standing_id(*question)),
        Output::Heard { effects, questions } => {
            format!("heard {}", list(effects, questions, names))
        }
        Output::CheckRate {
            call, tool, charge, ..
        } => match charge {
            RateCharge::Charge => format!("check rate {call} {tool}"),
            RateCharge::Peek => format!("check rate {call} {tool} (free)"),
            RateCharge::Note => format!("check rate {call} {tool} (noted)"),
        },
        Output::StartCall(call) => format!(
            "start {} {}{}{} {}{}",
            call.call().call,
            call.tool().id,
            match &*call.tool().version {
                "1.0.0" => String::new(),
                version => format!("@{version}"),
            },
            call.effect_id()
                .map(|id| format!(" ({})", names.of(id)))
                .unwrap_or_default(),
            serde_json::to_string(call.arguments()).unwrap(),
            match call.session().values.is_empty() {
                true => String::new(),
                false => {
                    let values = serde_json::to_string(&call.session().values).unwrap();
                    format!(" knowing {values}")
                }
            }
        ),
        Output::AbortCall { call, drop } => {
            format!(
                "abort {}{}",
                call.call,
                if *drop { "" } else { " (let it end)" }
            )
        }
        Output::AnswerHandler { reply, response } => {
            let response = response.expose();
            let replayed = match response.meta.idempotent_cache_hit {
                true => " again",
                false => "",
            };
            let said = match &response.outcome {
                Outcome::Success { data, .. } => {
                    let data = data.as_deref().cloned().unwrap_or_default();
                    format!("ok{replayed} {data}")
                }
                Outcome::Failure(error) => {
                    format!("{}{replayed} {}", error.error_type.code(), error.message)
                }
            };
            let parent = response.meta.parent_call_id.as_deref();
            format!("to {} #{}: {said}", parent.unwrap_or("nobody"), reply.0)
        }
        Output::Connect {
            generation,
            handle,
            history_follows,
        } => {
            let handle = handle
                .as_ref()
                .map(|handle| format!(" with {}", handle.expose()))
                .unwrap_or_default();
            let history = if *history_follows {
                ", history follows"
            } else {
                ""
            };
            format!("connect {generation}{handle}{history}")
        }
        Output::SendModel(command) => render_command(command),
        Output::SendClient(update) => render_update(update),
        Output::DiscardAudio => "discard audio".to_owned(),
        Output::AcceptAudio => "accept audio".to_owned(),
        Output::SuppressAudio(value) => format!("suppress audio {value}"),
        Output::HoldMicrophone(value) => format!("hold microphone {value}"),
        Output::Event(event) => return render_event(event, names),
        Output::Part(reason) => format!("part {reason:?}"),
        Output::Close(reason) => format!("close {reason:?}"),
    })
}

fn render_command(command: &ModelCommand) -> String {
    match command {
        ModelCommand::ToolResponses(responses) => {
            let texts: Vec<String> = responses
                .iter()
                .map(|response| {
                    let id = response.id.as_deref().unwrap_or("-");
                    let scheduling = response
                        .scheduling
                        .map(|value| format!(" {value:?}"))
                        .unwrap_or_default();
                    format!(
                        "{id}{scheduling} {}",
                        render_projection(&response.projection)
                    )
                })
                .collect();
            format!("to model: {}", texts.join(" + "))
        }
        ModelCommand::LateResults(responses) => {
            let texts: Vec<String> = responses
                .iter()
                .map(|response| {
                    let result = render_projection(&response.projection);
                    format!("{} {result}", response.name)
                })
                .collect();
            format!("to model: late {}", texts.join(" + "))
        }
        ModelCommand::UserText(text) => format!("to model: text {:?}", text.expose()),
        ModelCommand::Notice(text) => format!("to model: notice {:?}", text.expose()),
        ModelCommand::History { entries, .. } => {
            let texts: Vec<&str> = entries
                .iter()
                .map(|entry| entry.text.expose().as_str())
                .collect();
            format!("to model: history {:?}", texts.join(" / "))
        }
        ModelCommand::Image { .. } => "to model: image".to_owned(),
        ModelCommand::AudioEnded => "to model: audio ended".to_owned(),
        ModelCommand::Resynchronize => "to model: resynchronize".to_owned(),
    }
}

fn render_projection(projection: &Projection) -> String {
    match &projection.body {
        ProjectionBody::Success {
            data, quoted, cut, ..
        } => {
            let data = data.as_ref().map(ToString::to_string).unwrap_or_default();
            let note = cut.as_ref().map(|note| format!(" ({note})"));
            let note = note.unwrap_or_default();
            format!("ok{} {data}{note}", if *quoted { " quoted" } else { "" })
        }
        ProjectionBody::Failure {
            error_type,
            message,
            ..
        } => {
            format!("{} {message}", error_type.code())
        }
    }
}

fn render_standing(standing: &StandingApproval) -> String {
    format!(
        "{} {} {}",
        standing.id(),
        standing.tool,
        standing.values.expose()
    )
}

fn render_image(image: &Image) -> String {
    match &image.caption {
        Some(caption) => format!("{} ({caption})", image.url),
        None => image.url.clone(),
    }
}

fn render_update(update: &ClientUpdate) -> String {
    match update {
        ClientUpdate::Transcript {
            role,
            text,
            is_final,
            citations,
            images,
        } => {
            let cited: Vec<&str> = citations.iter().map(|citation| &*citation.id).collect();
            let cited = if cited.is_empty() {
                String::new()
            } else {
                format!(" citing {}", cited.join(", "))
            };
            let shown: Vec<String> = images.iter().map(render_image).collect();
            let shown = match shown.is_empty() {
                true => String::new(),
                false => format!(" showing {}", shown.join(", ")),
            };
            let kind = if *is_final { "said" } else { "piece" };
            format!("client: {role:?} {kind} {:?}{cited}{shown}", text.expose())
        }
        ClientUpdate::SessionComplete { transcripts } => {
            format!(
                "client: session complete, {} transcripts",
                transcripts.len()
            )
        }
        ClientUpdate::Error { code, message, .. } => {
            format!("client: error {}: {message}", code.as_str())
        }
        ClientUpdate::EndVoiceSession { reason, .. } => {
            format!("client: end voice session: {reason}")
        }
        ClientUpdate::ConfirmationRequest(question) => format!(
            "client: confirm {} token-{} {}{}{}{}",
            question.call,
            question.question.0,
            match &question.preview {
                Some(preview) => format!("{:?}", preview.expose()),
                None => serde_json::to_string(question.arguments.expose()).unwrap(),
            },
            question
                .warning
                .as_ref()
                .map(|warning| format!(" warned {warning:?}"))
                .unwrap_or_default(),
            question
                .because
                .as_ref()
                .map(|because| format!(" because {because:?}"))
                .unwrap_or_default(),
            question
                .remember
                .as_ref()
                .map(|offer| format!(
                    ", may stand for {} for {} minutes",
                    offer.arguments.expose(),
                    offer.minutes
                ))
                .unwrap_or_default()
        ),
        ClientUpdate::ConfirmationResult { call, response } => {
            let call = call.map(|call| call.to_string()).unwrap_or_default();
            let result = match &response.expose().outcome {
                Outcome::Success { .. } => "ok".to_owned(),
                Outcome::Failure(error) => {
                    format!("{} {}", error.error_type.code(), error.message)
                }
            };
            let stored = match response.expose().meta.recorded {
                Some(false) => " (not stored)",
                Some(true) | None => "",
            };
            format!("client: confirmation result {call} {result}{stored}")
        }
        ClientUpdate::StandingApprovals(standing) => {
            let shown: Vec<String> = standing.iter().map(render_standing).collect();
            format!("client: standing [{}]", shown.join(", "))
        }
        ClientUpdate::CancelResult { call, outcome } => {
            format!("client: cancel result {call} {}", outcome.as_str())
        }
        ClientUpdate::ToolOutput {
            call,
            sequence,
            data,
        } => format!("client: output {call} #{sequence} {}", data.expose()),
        ClientUpdate::Message(message) => format!("client: message {message}"),
        ClientUpdate::Custom(message) => format!("client: custom {message}"),
        other => format!("client: {other:?}"),
    }
}

/// Why the user was asked by a condition.
fn by_condition(record: &CallRecord) -> String {
    match record.consent.as_deref() {
        Some(
            reason @ (ConsentReason::Holds(_)
            | ConsentReason::Unjudged(..)
            | ConsentReason::AskedBefore(_)),
        ) => format!(" ({reason})"),
        _ => String::new(),
    }
}

/// By which standing approval a call has run.
fn covered(record: &CallRecord) -> String {
    match record.consent.as_deref() {
        Some(ConsentReason::Standing { approval, .. }) => {
            format!(", covered by {}", standing_id(*approval))
        }
        _ => String::new(),
    }
}

fn render_event(event: &SessionEvent, names: &mut Names) -> Option<String> {
    Some(match event {
        SessionEvent::CallRequested {
            call,
            tool,
            parent: Some(parent),
            ..
        } => format!("{call} {tool} asked for by {parent}"),
        SessionEvent::TurnStarted { turn } => format!("turn {turn} started"),
        SessionEvent::TurnEnded { turn, summary } => format!(
            "turn {turn} ended: calls {} retrieval {} refusals {} repeats {}{}{}",
            summary.calls,
            summary.retrieval_calls,
            summary.refusals,
            summary.repeats,
            if summary.interrupted {
                " interrupted"
            } else {
                ""
            },
            if summary.wound_up { " wound up" } else { "" },
        ),
        SessionEvent::ConfirmationResolved { call, resolution } => {
            let call = call.map(|call| call.to_string());
            format!("{} {resolution:?}", call.unwrap_or("nothing".to_owned()))
        }
        SessionEvent::StandingApproval {
            approval,
            tool,
            note,
        } => {
            let id = standing_id(*approval);
            match note {
                StandingNote::Given { call, .. } => {
                    format!("{id} stands for {tool}, given with {call}")
                }
                StandingNote::Ended { why, .. } => format!("{id} ended: {}", why.as_str()),
            }
        }
        SessionEvent::EffectSettled {
            call,
            effect_id,
            succeeded,
            ..
        } => format!("{call} settled {}: {succeeded}", names.of(effect_id)),
        SessionEvent::CallRetried {
            call,
            attempt,
            delay_ms,
            ..
        } => format!("{call} attempt {attempt} in {delay_ms} ms"),
        SessionEvent::OutcomeUnrecorded { effect_id, .. } => {
            format!("{} not recorded", names.of(effect_id))
        }
        SessionEvent::OutcomesRecorded => "all outcomes recorded".to_owned(),
        SessionEvent::CallRejected(record) => {
            format!(
                "{} rejected {:?}{}",
                record.call(),
                record.error_type().unwrap(),
                by_condition(record)
            )
        }
        SessionEvent::CallFinished(record) => match record.error_type() {
            None if record.response.expose().meta.accepted_until.is_some() => {
                format!("{} is at work{}", record.call(), covered(record))
            }
            None => format!(
                "{} finished{}{}",
                record.call(),
                by_condition(record),
                covered(record)
            ),
            Some(error_type) => format!("{} finished {error_type:?}", record.call()),
        },
        SessionEvent::CallSettled(record) => match record.error_type() {
            None => format!("{} has ended", record.call()),
            Some(error_type) => format!("{} has ended {error_type:?}", record.call()),
        },
        SessionEvent::CancelRequested {
            call, way, outcome, ..
        } => format!(
            "the user cancels {call} by {}: {}",
            way.as_str(),
            outcome.as_str()
        ),
        SessionEvent::CallCancelled(record) => format!("{} cancelled", record.call()),
        SessionEvent::CallDeduplicated { call, rule, .. } => {
            format!("{call} is a repeat: {rule:?}")
        }
        SessionEvent::LateResultDropped { call } => {
            format!("{call} is given up, and the model not told")
        }
        SessionEvent::CallReturnedLate { call } => format!("{call} returned late"),
        SessionEvent::ArgumentClamped {
            call,
            argument,
            from,
            to,
            ..
        } => {
            format!("{call} clamped {argument} {from} to {to}")
        }
        SessionEvent::LatencyExceeded {
            call,
            limit,
            limit_ms,
            actual_ms,
        } => {
            format!("{call} took {actual_ms} ms, over {limit:?} {limit_ms}")
        }
        SessionEvent::IntentApplied {
            call,
            intent,
            change,
            ..
        } => match intent.shown_key() {
            // As trail and journal have it.
            Some(key) => format!(
                "{call} applied {} of {key}: {} to {}",
                intent.name(),
                change.from,
                change.to
            ),
            None => format!("{call} applied {}", intent.name()),
        },
        SessionEvent::IntentRejected { call, problem, .. } => {
            format!("{call} intent rejected: {problem}")
        }
        SessionEvent::ProviderSilentAfterResult { .. } => {
            "provider silent after a result".to_owned()
        }
        SessionEvent::HandlerProblem { call, problem, .. } => format!("{call} problem: {problem}"),
        SessionEvent::CallProgressed { call, message, .. } => format!("{call} progress: {message}"),
        SessionEvent::AuditNote {
            call, event, data, ..
        } => format!("{call} notes {event} {}", data.expose()),
        SessionEvent::ContextNearlyFull {
            context,
            is_estimate,
        } => {
            let (model, tokens) = (&context.model, context.tokens);
            let of = match is_estimate {
                true => "estimated",
                false => "counted",
            };
            format!(
                "{model} is nearly full: {tokens} of {} {of}",
                context.window_tokens
            )
        }
        SessionEvent::SessionEnded { reason } => format!("session ended: {reason:?}"),
        // What every script would repeat without saying more.
        _ => return None,
    })
}
