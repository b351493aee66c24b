//! Writes outputs as the lines that scripts expect.

use windlass_session::client::{ClientUpdate, Image};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Output, RateCharge};
use windlass_session::model::ModelCommand;
use windlass_tool::envelope::{Outcome, Projection, ProjectionBody};

pub(crate) fn render_all(outputs: &[Output]) -> String {
    outputs
        .iter()
        .filter_map(render)
        .map(|line| line + "\n")
        .collect()
}

fn render(output: &Output) -> Option<String> {
    Some(match output {
        Output::ReadLedger => "read ledger".to_owned(),
        // Said once in every script of a search; those that care ask for it.
        Output::NoteReading => return None,
        Output::Reserve(request) => {
            let kept = request.effect_id.as_ref();
            let kept = kept.map(|id| format!(" as {id}")).unwrap_or_default();
            let grant = request.grant.map(|hash| format!(" with token-{}", hash[0]));
            let grant = grant.unwrap_or_default();
            format!("reserve {} {}{kept}{grant}", request.call, request.tool)
        }
        Output::RequestConfirmation(request) => {
            let old = request
                .replaces
                .map(|hash| format!(" in place of token-{}", hash[0]));
            let old = old.unwrap_or_default();
            format!("propose {} {}{old}", request.call, request.tool)
        }
        Output::DeclineConfirmation { token_hash } => format!("declined token-{}", token_hash[0]),
        Output::WithdrawConfirmation { token_hash } => format!("withdraw token-{}", token_hash[0]),
        Output::RecordOutcome(record) => format!("record {} {:?}", record.effect_id, record.state),
        Output::Lookup(lookup) => format!("look up {} of {}", lookup.effect_id(), lookup.tool().id),
        Output::AwaitEffect { call, effect_id } => format!("await {effect_id} for {call}"),
        Output::FindApproval { token_hash } => format!("find token-{}", token_hash[0]),
        Output::CheckRate {
            call, tool, charge, ..
        } => match charge {
            RateCharge::Charge => format!("check rate {call} {tool}"),
            RateCharge::Peek => format!("check rate {call} {tool} (free)"),
        },
        // What every script of a change would repeat without saying more.
        Output::MarkAnswered { effect_id } => format!("answered {effect_id}"),
        Output::StartCall(call) => format!(
            "start {} {}{} {}",
            call.call().call,
            call.tool().id,
            call.effect_id()
                .map(|id| format!(" ({id})"))
                .unwrap_or_default(),
            serde_json::to_string(call.arguments()).unwrap()
        ),
        Output::AbortCall { call, drop } => {
            format!(
                "abort {}{}",
                call.call,
                if *drop { "" } else { " (let it end)" }
            )
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
        Output::Event(event) => return render_event(event),
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
    }
}

fn render_projection(projection: &Projection) -> String {
    match &projection.body {
        ProjectionBody::Success { data, quoted, .. } => {
            let data = data.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("ok{} {data}", if *quoted { " quoted" } else { "" })
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
            "client: confirm {} {:?}{}",
            question.call,
            question.preview.expose(),
            question
                .warning
                .as_ref()
                .map(|warning| format!(" warned {warning:?}"))
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
        ClientUpdate::Message(message) => format!("client: message {message}"),
        other => format!("client: {other:?}"),
    }
}

fn render_event(event: &SessionEvent) -> Option<String> {
    Some(match event {
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
        SessionEvent::EffectSettled {
            call,
            effect_id,
            succeeded,
            ..
        } => format!("{call} settled {effect_id}: {succeeded}"),
        SessionEvent::CallRetried {
            call,
            attempt,
            delay_ms,
            ..
        } => format!("{call} attempt {attempt} in {delay_ms} ms"),
        SessionEvent::OutcomeUnrecorded { effect_id, .. } => format!("{effect_id} not recorded"),
        SessionEvent::OutcomesRecorded => "all outcomes recorded".to_owned(),
        SessionEvent::CallRejected(record) => {
            format!(
                "{} rejected {:?}",
                record.call(),
                record.error_type().unwrap()
            )
        }
        SessionEvent::CallFinished(record) => match record.error_type() {
            None => format!("{} finished", record.call()),
            Some(error_type) => {
                let again = match record.is_in_vain_again {
                    true => " again",
                    false => "",
                };
                format!("{} finished {error_type:?}{again}", record.call())
            }
        },
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
        SessionEvent::IntentApplied { call, intent, .. } => {
            format!("{call} applied {}", intent.name())
        }
        SessionEvent::IntentRejected { call, problem, .. } => {
            format!("{call} intent rejected: {problem}")
        }
        SessionEvent::ProviderSilentAfterResult { .. } => {
            "provider silent after a result".to_owned()
        }
        SessionEvent::HandlerProblem { call, problem, .. } => format!("{call} problem: {problem}"),
        SessionEvent::CallProgressed { call, message, .. } => format!("{call} progress: {message}"),
        SessionEvent::SessionEnded { reason } => format!("session ended: {reason:?}"),
        // What every script would repeat without saying more.
        _ => return None,
    })
}
