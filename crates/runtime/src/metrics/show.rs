//! The two forms in which metrics are shown: the JSON of `GET /metrics`, and Prometheus text.

use super::{Counted, NO_VERSION, ToolCounts, WindowCounts};
use serde_json::{Map, Value, json};
use std::fmt::Write;

pub(super) fn json(counted: &Counted) -> Value {
    let per_tool = |value: fn(&ToolCounts) -> Value| -> Value {
        let tools = counted.tools.iter();
        let shown = tools.map(|(name, versions)| {
            let value = value(&ToolCounts::merged(versions));
            (name.to_string(), value)
        });
        Value::Object(shown.collect())
    };
    let mut tools = per_tool(tool_json);
    for (name, versions) in &counted.tools {
        let each = versions.iter();
        let each = each.filter(|(version, _)| &***version != NO_VERSION);
        let each = each.map(|(version, tool)| (version.to_string(), tool_json(tool)));
        tools[&**name]["versions"] = Value::Object(each.collect());
    }
    let context = &counted.context;
    let audio = &counted.audio;
    json!({
        "responseSizes": per_tool(|tool| json!(tool.response_characters.percentiles())),
        "responseTokens": per_tool(|tool| json!({
            "avg": tool.response_characters.average().div_ceil(4),
            "p95": tool.response_characters.percentiles().p95.div_ceil(4),
        })),
        "context": {
            "sessionInitTokens": context.session_init_tokens(),
            "systemPromptTokens": context.system_prompt_tokens,
            "toolDeclTokens": context.tool_decl_tokens,
            "historyTokens": context.history_tokens,
            "peakTokens": counted.peak_tokens,
            "models": windows_json(counted),
        },
        "loopDetection": {
            "activeSessions": counted.sessions_active,
            "totalTurnsTracked": counted.turns_total,
        },
        "tools": tools,
        "sessions": {
            "active": counted.sessions_active,
            "total": counted.sessions_total,
            "turnsWoundUp": counted.turns_wound_up,
        },
        "refused": refused_json(counted),
        "provider": {
            "lost": counted.providers_lost,
            "oddities": counted.provider_oddities.values().sum::<u64>(),
            "odditiesByKind": counted.provider_oddities,
            "silencesAfterResult": counted.silences_after_result,
        },
        "audio": {
            "microphoneBytes": audio.microphone_bytes,
            "speakerBytes": audio.speaker_bytes,
            "bufferOverflowBytes": audio.buffer_overflow_bytes,
            "microphoneOverflowBytes": audio.microphone_overflow_bytes,
            "microphoneHeldBytes": audio.microphone_held_bytes,
            "providerSlowBytes": audio.provider_slow_bytes,
            "clientSlowBytes": audio.client_slow_bytes,
            "speakerDiscardedBytes": audio.speaker_discarded_bytes,
            "speakerSuppressedBytes": audio.speaker_suppressed_bytes,
        },
    })
}

/// The use of each model's window, by the model's name.
fn windows_json(counted: &Counted) -> Map<String, Value> {
    let windows = counted.windows.iter().map(|(model, window)| {
        let shown = json!({
            "windowTokens": window.window_tokens,
            "peakTokens": window.peak_tokens,
            "peakShare": peak_share(window),
            "warnings": window.warnings,
        });
        (model.to_string(), shown)
    });
    windows.collect()
}

/// The greatest part of its window that a model's context took.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share needs no more than the digits of a double"
)]
fn peak_share(window: &WindowCounts) -> f64 {
    window.peak_tokens as f64 / window.window_tokens.max(1) as f64
}

/// Refusals by the refused thing, and under it by the kind of the share's owner.
fn refused_json(counted: &Counted) -> Value {
    let mut refused = Map::new();
    for ((what, party), count) in &counted.refused {
        let by_party = refused.entry(*what).or_insert_with(|| json!({}));
        by_party[*party] = json!(count);
    }
    Value::Object(refused)
}

pub(super) fn errors_by_type(tool: &ToolCounts) -> Map<String, Value> {
    let errors = tool.errors.iter();
    errors
        .map(|(error_type, count)| (error_type.code().to_owned(), json!(count)))
        .collect()
}

/// The part of the tool's calls that succeeded; `None` for a tool without calls.
#[expect(
    clippy::cast_precision_loss,
    reason = "a rate needs no more than the digits of a double"
)]
fn success_rate(tool: &ToolCounts) -> Option<f64> {
    (tool.calls > 0).then(|| tool.succeeded as f64 / tool.calls as f64)
}

fn tool_json(tool: &ToolCounts) -> Value {
    json!({
        "calls": tool.calls,
        "cancelled": tool.cancelled,
        "asked": tool.asked,
        "duplicates": tool.duplicates,
        "errors": errors_by_type(tool),
        "successRate": success_rate(tool),
        "latencyMs": tool.latency_ms.percentiles(),
        "budgetViolations": tool.budget_violations,
    })
}

/// The results of each tool: times in milliseconds, over its last responses.
pub(super) fn by_tool(counted: &Counted) -> Value {
    let tools = counted.tools.iter().map(|(name, versions)| {
        let tool = &ToolCounts::merged(versions);
        let latency = tool.latency_ms.percentiles();
        let stats = json!({
            "calls": tool.calls,
            "errors": tool.errors.values().sum::<u64>(),
            "avgDuration": tool.latency_ms.average(),
            "errorsByType": errors_by_type(tool),
            "successRate": success_rate(tool),
            "p50": latency.p50,
            "p95": latency.p95,
            "p99": latency.p99,
            "budgetViolations": tool.budget_violations,
        });
        (name.to_string(), stats)
    });
    Value::Object(tools.collect())
}

pub(super) fn prometheus(counted: &Counted) -> String {
    let mut text = String::with_capacity(4_096);
    for (name, kind, help, value) in of_sessions(counted).into_iter().chain(of_audio(counted)) {
        head(&mut text, name, kind, help);
        line(&mut text, format_args!("{name} {value}"));
    }
    oddities(&mut text, counted);
    refused(&mut text, counted);
    windows(&mut text, counted);
    tools(&mut text, counted);
    text
}

fn oddities(text: &mut String, counted: &Counted) {
    let name = "windlass_provider_oddities_total";
    head(
        text,
        name,
        "counter",
        "What of a provider's messages nobody understands, by kind.",
    );
    for (kind, count) in &counted.provider_oddities {
        let kind = kind.replace('\\', "\\\\").replace('"', "\\\"");
        line(text, format_args!("{name}{{kind=\"{kind}\"}} {count}"));
    }
}

fn refused(text: &mut String, counted: &Counted) {
    let name = "windlass_refused_total";
    let help = "What was refused because somebody's share of it was used up.";
    head(text, name, "counter", help);
    for ((what, party), count) in &counted.refused {
        line(
            text,
            format_args!("{name}{{what=\"{what}\",party=\"{party}\"}} {count}"),
        );
    }
}

fn windows(text: &mut String, counted: &Counted) {
    let of_each = |text: &mut String,
                   name: &str,
                   kind: &str,
                   help: &str,
                   value: fn(&WindowCounts) -> String| {
        head(text, name, kind, help);
        for (model, window) in &counted.windows {
            let model = model.replace('\\', "\\\\").replace('"', "\\\"");
            let value = value(window);
            line(text, format_args!("{name}{{model=\"{model}\"}} {value}"));
        }
    };
    let name = "windlass_context_peak_share";
    let help = "The part of a model's window that its fullest context took.";
    of_each(text, name, "gauge", help, |window| {
        peak_share(window).to_string()
    });
    let name = "windlass_context_warnings_total";
    let help = "How often a session took over 90 % of a model's window, estimated or counted.";
    of_each(text, name, "counter", help, |window| {
        window.warnings.to_string()
    });
}

/// Name, kind, help and value of one number.
type Number = (&'static str, &'static str, &'static str, u64);

fn of_sessions(counted: &Counted) -> [Number; 8] {
    [
        (
            "windlass_sessions_active",
            "gauge",
            "Sessions that run.",
            counted.sessions_active,
        ),
        (
            "windlass_sessions_total",
            "counter",
            "Sessions begun.",
            counted.sessions_total,
        ),
        (
            "windlass_turns_total",
            "counter",
            "Turns begun.",
            counted.turns_total,
        ),
        (
            "windlass_turns_wound_up_total",
            "counter",
            "Turns ended for too many refusals or repeats.",
            counted.turns_wound_up,
        ),
        (
            "windlass_provider_lost_total",
            "counter",
            "Provider connections lost.",
            counted.providers_lost,
        ),
        (
            "windlass_provider_silences_total",
            "counter",
            "Results after which a model stayed silent.",
            counted.silences_after_result,
        ),
        (
            "windlass_provider_speech_seconds_total",
            "counter",
            "Seconds of speech that a provider counted by time.",
            counted.live_seconds,
        ),
        (
            "windlass_context_peak_tokens",
            "gauge",
            "The most tokens that a provider counted in one context.",
            counted.peak_tokens,
        ),
    ]
}

fn of_audio(counted: &Counted) -> [Number; 4] {
    let audio = &counted.audio;
    [
        (
            "windlass_microphone_bytes_total",
            "counter",
            "Microphone audio passed on.",
            audio.microphone_bytes,
        ),
        (
            "windlass_speaker_bytes_total",
            "counter",
            "Model audio passed on.",
            audio.speaker_bytes,
        ),
        (
            "windlass_microphone_dropped_bytes_total",
            "counter",
            "Microphone audio dropped.",
            audio.microphone_dropped_bytes(),
        ),
        (
            "windlass_speaker_dropped_bytes_total",
            "counter",
            "Model audio dropped.",
            audio.speaker_dropped_bytes(),
        ),
    ]
}

/// One of the counts of a tool.
type Count = fn(&ToolCounts) -> u64;

fn tools(text: &mut String, counted: &Counted) {
    // Without a version there is no label for it.
    let labelled = || {
        counted.tools.iter().flat_map(|(tool, versions)| {
            versions.iter().map(move |(version, counts)| {
                let labels = match &**version {
                    NO_VERSION => format!("tool=\"{tool}\""),
                    version => format!("tool=\"{tool}\",version=\"{version}\""),
                };
                (labels, counts)
            })
        })
    };
    let name = "windlass_tool_calls_total";
    head(
        text,
        name,
        "counter",
        "Calls answered, by tool, version and outcome.",
    );
    for (labels, counts) in labelled() {
        let succeeded = counts.succeeded;
        line(
            text,
            format_args!("{name}{{{labels},outcome=\"ok\"}} {succeeded}"),
        );
        for (error_type, count) in &counts.errors {
            let code = error_type.code();
            line(
                text,
                format_args!("{name}{{{labels},outcome=\"{code}\"}} {count}"),
            );
        }
    }
    let counts: [(&str, &str, Count); 3] = [
        (
            "windlass_tool_questions_total",
            "Calls that the user has to confirm; how each that they were asked about ended is counted as any other call.",
            |counts| counts.asked,
        ),
        (
            "windlass_tool_refusals_total",
            "Calls that were refused before they ran; they are counted as calls, too.",
            |counts| counts.refused,
        ),
        (
            "windlass_tool_budget_violations_total",
            "Calls slower than the tool's own budget, or refused because the turn's was spent.",
            |counts| counts.budget_violations,
        ),
    ];
    for (name, help, count) in counts {
        head(text, name, "counter", help);
        for (labels, counts) in labelled() {
            let count = count(counts);
            line(text, format_args!("{name}{{{labels}}} {count}"));
        }
    }
    let latency = "windlass_tool_latency_milliseconds";
    head(
        text,
        latency,
        "summary",
        "Time that calls took, over the last thousand of each version of a tool.",
    );
    for (labels, counts) in labelled() {
        summary(text, latency, &labels, &counts.latency_ms);
    }
    let size = "windlass_tool_response_characters";
    head(
        text,
        size,
        "summary",
        "Length of responses, over the last thousand of each version of a tool.",
    );
    for (labels, counts) in labelled() {
        summary(text, size, &labels, &counts.response_characters);
    }
}

fn summary(text: &mut String, name: &str, labels: &str, samples: &super::Samples) {
    let percentiles = samples.percentiles();
    for (quantile, value) in [
        ("0.5", percentiles.p50),
        ("0.95", percentiles.p95),
        ("0.99", percentiles.p99),
    ] {
        line(
            text,
            format_args!("{name}{{{labels},quantile=\"{quantile}\"}} {value}"),
        );
    }
    let (sum, count) = (samples.sum(), samples.count());
    line(text, format_args!("{name}_sum{{{labels}}} {sum}"));
    line(text, format_args!("{name}_count{{{labels}}} {count}"));
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, format_args!("# HELP {name} {help}"));
    line(text, format_args!("# TYPE {name} {kind}"));
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("writing to a string cannot fail");
}
