//! Writes outputs as the lines that scripts expect.

use windlass_session::client::ClientUpdate;
use windlass_session::event::SessionEvent;
use windlass_session::io::Output;
use windlass_session::model::ModelCommand;
use windlass_tool::envelope::{Projection, ProjectionBody};

pub(crate) fn render_all(outputs: &[Output]) -> String {
    outputs
        .iter()
        .filter_map(render)
        .map(|line| line + "\n")
        .collect()
}

fn render(output: &Output) -> Option<String> {
    Some(match output {
        Output::Reserve { call, tool, .. } => format!("reserve {call} {tool}"),
        Output::CheckRate { call, tool, .. } => format!("check rate {call} {tool}"),
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
        ModelCommand::UserText(text) => format!("to model: text {:?}", text.expose()),
        ModelCommand::History { entries, .. } => format!("to model: {} of history", entries.len()),
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

fn render_update(update: &ClientUpdate) -> String {
    match update {
        ClientUpdate::Transcript {
            role,
            text,
            is_final,
            citations,
            ..
        } => {
            let cited: Vec<&str> = citations.iter().map(|citation| &*citation.id).collect();
            let cited = if cited.is_empty() {
                String::new()
            } else {
                format!(" citing {}", cited.join(", "))
            };
            let kind = if *is_final { "said" } else { "piece" };
            format!("client: {role:?} {kind} {:?}{cited}", text.expose())
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
        SessionEvent::CallRejected(record) => {
            format!(
                "{} rejected {:?}",
                record.call,
                record.error_type().unwrap()
            )
        }
        SessionEvent::CallFinished(record) => match record.error_type() {
            None => format!("{} finished", record.call),
            Some(error_type) => format!("{} finished {error_type:?}", record.call),
        },
        SessionEvent::CallCancelled(record) => format!("{} cancelled", record.call),
        SessionEvent::CallDeduplicated { call, rule, .. } => {
            format!("{call} is a repeat: {rule:?}")
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
