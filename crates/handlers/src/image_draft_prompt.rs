//! `image_draft_prompt`: three prompts of one subject, so that a user chooses before a picture costs money. Asks no model: equal
//! arguments give equal prompts.

use crate::arguments::{read, require_active, said};
use crate::outcome::{Outcome, ready, report};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{AspectRatio, Execution, Handler, Invocation, Placement, Success};

pub(crate) struct Drafter;

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    subject: Cow<'a, str>,
    #[serde(borrow)]
    style: Option<Cow<'a, str>>,
    aspect_ratio: AspectRatio,
}

/// Views of the subject, and the default style of each.
const VARIANTS: [(&str, &str, &str); 3] = [
    (
        "clear",
        "The subject alone in the middle against a plain background, soft even light",
        "a sharp photograph",
    ),
    (
        "scene",
        "The subject in its surroundings, seen from some distance, natural light of the late afternoon",
        "a detailed illustration",
    ),
    (
        "detail",
        "A close view of the subject's most telling part, shallow depth of field, strong side light",
        "a watercolour on rough paper",
    ),
];

impl Handler for Drafter {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        ready(draft(&invocation))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["subject", "aspect_ratio"],
            "properties": {
                "subject": {"type": "string"},
                "style": {"type": ["string", "null"]},
                "aspect_ratio": {"enum": ["1:1", "4:3", "3:4", "16:9", "9:16"]},
            },
        }))
    }
}

fn draft(invocation: &Invocation) -> Outcome {
    require_active(&invocation.context, "draft a prompt")?;
    let arguments: Arguments<'_> = read(&invocation.arguments)?;
    let Some(subject) = said(&arguments.subject) else {
        return Err(report(
            FailureKind::Validation,
            "`subject` says nothing; say what the picture is of",
        ));
    };
    let subject = subject.trim_end_matches('.');
    let chosen = arguments.style.as_deref().and_then(said);
    let frame = match arguments.aspect_ratio {
        AspectRatio::Square => "Square frame",
        AspectRatio::Landscape | AspectRatio::Wide => "Wide frame with room at both sides",
        AspectRatio::Portrait | AspectRatio::Tall => "Tall frame with room above",
    };
    let variants = VARIANTS.iter().map(|(name, composition, usual)| {
        let style = chosen.map_or(*usual, |style| style.trim_end_matches('.'));
        json!({
            "name": name,
            "prompt": format!("{subject}. {composition}. {frame}. Style: {style}. No text, no watermark."),
            "style": style,
        })
    });
    Ok(Success::new(json!({
        "variants": variants.collect::<Vec<_>>(),
        "aspect_ratio": arguments.aspect_ratio.text(),
    })))
}
