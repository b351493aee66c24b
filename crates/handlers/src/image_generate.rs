//! `image_generate`: pictures of a prompt, kept on this server, shown to the user and to a model that sees. Knows no service.

use crate::arguments::{read, require_active, said};
use crate::capability::answer;
use crate::outcome::{Outcome, ready, report};
use crate::service::{Task, service_report};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    AspectRatio, CapabilityFuture, ContentPart, Context, Execution, Finding, GeneratedImages,
    Handler, ImageRequest, Invocation, Lookup, LookupInvocation, OutcomeLookup, Report,
    ServiceError, Success, picture_type,
};

pub(crate) struct Generator;

const TASK: Task = Task {
    request: "this prompt",
    undone: Some("no picture came"),
    is_charged: true,
};

/// The same beside pictures that did come.
const REST: Task = Task {
    undone: None,
    ..TASK
};

/// Pictures of one call, whatever a project's schema allows.
const COUNT_MAX: usize = 4;

#[derive(Deserialize)]
struct Arguments {
    prompt: String,
    aspect_ratio: AspectRatio,
    count: usize,
}

impl Handler for Generator {
    fn execute(&self, invocation: Invocation) -> Execution {
        generate(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["prompt", "aspect_ratio", "count"],
            "properties": {
                "prompt": {"type": "string"},
                "aspect_ratio": {"enum": ["1:1", "4:3", "3:4", "16:9", "9:16"]},
                "count": {"type": "integer"},
            },
        }))
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }
}

impl OutcomeLookup for Generator {
    /// A picture comes with the answer of its attempt or never: no service gives it out later.
    fn look_up(&self, _: LookupInvocation) -> Lookup {
        Lookup::Found(Finding::NotHappened)
    }
}

fn generate(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "make a picture")?;
    let Arguments {
        prompt,
        aspect_ratio,
        count,
    } = read(&arguments)?;
    if said(&prompt).is_none() {
        return Err(report(
            FailureKind::Validation,
            "`prompt` says nothing; say what the picture shows",
        ));
    }
    if !(1..=COUNT_MAX).contains(&count) {
        return Err(report(
            FailureKind::Validation,
            format!("`count` is {count}; one call makes 1 to {COUNT_MAX} pictures"),
        ));
    }
    let request = ImageRequest {
        prompt,
        aspect_ratio,
        count,
        timeout_ms: context.left_ms(),
    };
    // A client that has gone misses the progress alone.
    let _ = context.progress("Drawing", Some(0.1));
    let images = context.capabilities.images();
    let making = images.generate(request);
    let keeper = context.clone();
    let made: CapabilityFuture<Result<Made, ServiceError>> = Box::pin(async move {
        let mut made = making.await?;
        let _ = keeper.progress("Keeping the picture", Some(0.9));
        let pictures = std::mem::take(&mut made.pictures);
        let kept = keep(pictures, count, &keeper).await;
        Ok(Made { made, kept })
    });
    Ok(answer(made, move |made| match made {
        Ok(made) => success(made, count, &context),
        Err(error) => Err(service_report(&error, TASK, &context)),
    }))
}

/// The service's answer, and its pictures as they are kept: the type and address of each.
struct Made {
    made: GeneratedImages,
    kept: Vec<(&'static str, String)>,
}

async fn keep(
    pictures: Vec<Vec<u8>>,
    count: usize,
    context: &Context,
) -> Vec<(&'static str, String)> {
    let mut kept = Vec::new();
    for picture in pictures.into_iter().take(count) {
        let Some(mime_type) = picture_type(&picture) else {
            continue;
        };
        let url = context.capabilities.keep_picture(picture.into()).await;
        kept.extend(url.map(|url| (mime_type, url)));
    }
    kept
}

fn success(Made { made, kept }: Made, count: usize, context: &Context) -> Outcome {
    if kept.is_empty() {
        return Err(Box::new(Report {
            partial_side_effects: Some(false),
            ..Report::new(
                FailureKind::Permanent,
                "a picture was made and cannot be shown: this server has no room for pictures, or keeps none",
            )
        }));
    }
    let pictures = kept
        .iter()
        .map(|(mime_type, url)| json!({"image_url": url, "type": mime_type}));
    let mut data = json!({
        "pictures": pictures.collect::<Vec<_>>(),
        "service": made.service,
        "placeholder": made.is_placeholder,
    });
    if let Some(note) = note(&made, count, &kept, context) {
        data["note"] = note.into();
    }
    let content = kept.into_iter().map(|(mime_type, url)| ContentPart::Image {
        mime_type: mime_type.to_owned(),
        url,
    });
    Ok(Success {
        content: content.collect(),
        ..Success::new(data)
    })
}

/// The note for the model beside the pictures, if any.
fn note(
    made: &GeneratedImages,
    count: usize,
    kept: &[(&str, String)],
    context: &Context,
) -> Option<String> {
    let mut notes = Vec::new();
    if made.is_placeholder {
        notes.push(
            "this is a placeholder that shows nothing of the prompt, because no image service is configured; say so"
                .to_owned(),
        );
    }
    if kept.len() < count {
        let reason = match &made.shortfall {
            Some(error) => service_report(error, REST, context).message,
            None => "this server has no room for the others".to_owned(),
        };
        notes.push(format!("{} of {count} pictures came: {reason}", kept.len()));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}
