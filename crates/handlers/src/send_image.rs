//! `send_image`: shows the user an existing picture: from an allowed host, from the knowledge base, or from an earlier call. A picture of
//! another host is fetched and kept, so that the user's browser asks this server alone. The model chooses the address, so it leads to
//! allowed hosts with public names alone, carries no query, and is requested without any key.

use crate::arguments::{read, require_active, said};
use crate::capability::{answer, knowledge_report, mark_external};
use crate::outcome::{Outcome, ready, report, without_effect};
use crate::record::{is_picture, picture, picture_part};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    ASSETS, CapabilityFuture, ContentPart, Context, Execution, FetchError, GetRequest, Handler,
    HttpAnswer, HttpRequest, Invocation, PICTURES, Record, Redirects, Report, Success,
    picture_type,
};

pub(crate) struct Sender;

/// Bytes of a picture that is shown.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// Endings of names that are not public (RFC 6761, RFC 6762, RFC 8375, and names of networks at home and at work).
const PRIVATE_ENDS: [&str; 9] = [
    "arpa",
    "corp",
    "home",
    "internal",
    "intranet",
    "lan",
    "local",
    "localdomain",
    "localhost",
];

#[derive(Deserialize)]
struct Arguments {
    image_url: String,
    caption: Option<String>,
}

impl Handler for Sender {
    fn execute(&self, invocation: Invocation) -> Execution {
        send(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["image_url"],
            "properties": {
                "image_url": {"type": "string"},
                "caption": {"type": ["string", "null"]},
            },
        }))
    }
}

fn send(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "show a picture")?;
    let Arguments { image_url, caption } = read(&arguments)?;
    let Some(image_url) = said(&image_url).map(str::to_owned) else {
        return Err(report(FailureKind::Validation, "`image_url` is empty"));
    };
    let caption = caption.as_deref().and_then(said).map(str::to_owned);
    let scheme = image_url.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some(_) if is_public(&image_url) => Ok(send_fetched(image_url, caption, context)),
        Some(_) => Err(report(
            FailureKind::Validation,
            "`image_url` has to be https:// with a public name, the usual port and no query, or the id of a record, or \
             the image_url of a picture that a call brought",
        )),
        None if image_url.starts_with(PICTURES) => Ok(send_kept(image_url, caption, context)),
        None => {
            let id = image_url.strip_prefix(ASSETS).unwrap_or(&image_url);
            Ok(send_recorded(id.to_owned(), caption, context))
        }
    }
}

/// Whether an address has a public name, uses TLS at the usual port, and has nothing else but a path.
fn is_public(url: &str) -> bool {
    const SCHEME: &str = "https://";
    let Some((scheme, rest)) = url.split_at_checked(SCHEME.len()) else {
        return false;
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.strip_suffix(":443").unwrap_or(authority);
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\".contains(&byte);
    scheme.eq_ignore_ascii_case(SCHEME) && is_public_name(host) && path.bytes().all(is_plain)
}

/// A name of several labels. The last label is no number, so no spelling of an IP address passes.
fn is_public_name(host: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(fits);
    let Some((_, last)) = host.rsplit_once('.') else {
        return false;
    };
    let is_punycode = last
        .get(..4)
        .is_some_and(|head| head.eq_ignore_ascii_case("xn--"));
    host.split('.').all(is_label)
        && (is_punycode || last.bytes().all(|byte| byte.is_ascii_alphabetic()))
        && !PRIVATE_ENDS
            .iter()
            .any(|end| last.eq_ignore_ascii_case(end))
}

/// Sends a picture of an earlier call. Its content is external.
fn send_kept(address: String, caption: Option<String>, context: Context) -> Execution {
    let reader = context.caller.reader();
    let found = context.capabilities.picture(&address, &reader, BYTES_MAX);
    let capabilities = context.capabilities.clone();
    let kept: CapabilityFuture<Option<(&'static str, String)>> = Box::pin(async move {
        let data = found.await?;
        let mime_type = picture_type(&data)?;
        // The kept address expires; a picture that is shown again is kept anew.
        let kept = capabilities.keep_picture(data).await;
        Some((mime_type, kept.unwrap_or(address)))
    });
    answer(kept, move |kept| {
        note_stranger(&context)?;
        let Some((mime_type, address)) = kept else {
            return Err(report(
                FailureKind::NotFound,
                "there is no such picture, or it is not kept any more",
            ));
        };
        show(address, mime_type, caption, &context)
    })
}

/// Sends a picture of the knowledge base.
fn send_recorded(id: String, caption: Option<String>, context: Context) -> Execution {
    let request = GetRequest {
        id: id.clone(),
        namespace: None,
        reader: context.caller.reader(),
    };
    let knowledge = context.capabilities.knowledge();
    answer(knowledge.get(request), move |found| match found {
        Ok(Ok(record)) if is_picture(&record) => show_record(&record, caption, &context),
        Ok(Ok(_)) => Err(report(
            FailureKind::Validation,
            format!("the record {id:?} is no picture"),
        )),
        Ok(Err(_)) => Err(report(
            FailureKind::NotFound,
            format!("there is no picture {id:?} in the knowledge base"),
        )),
        Err(error) => Err(knowledge_report(error, &context)),
    })
}

fn show_record(record: &Record, caption: Option<String>, context: &Context) -> Outcome {
    let Some(address) = picture(record) else {
        return Err(report(
            FailureKind::NotFound,
            format!("the record {:?} names no picture", record.id),
        ));
    };
    note_stranger(context)?;
    tell(&address, caption.or(Some(record.title.clone())), context)?;
    Ok(Success {
        content: picture_part(record).into_iter().collect(),
        ..Success::new(json!({"shown": true, "image_url": address}))
    })
}

/// Sends a picture of another host.
fn send_fetched(url: String, caption: Option<String>, context: Context) -> Execution {
    let fetched = context.fetch(HttpRequest {
        method: "GET".to_owned(),
        url,
        headers: vec![(
            "accept".to_owned(),
            "image/png, image/jpeg, image/webp".to_owned(),
        )],
        body: Vec::new(),
        timeout_ms: context.left_ms(),
        // The target of a redirect has not been checked.
        redirects: Redirects::Keep,
    });
    let keeper = context.clone();
    let kept: CapabilityFuture<Outcome<(&'static str, String)>> = Box::pin(async move {
        let fetched = fetched.await;
        // The host's answer, a refusal too, is external content.
        note_stranger(&keeper)?;
        let data = picture_of(fetched, &keeper)?;
        let Some(mime_type) = picture_type(&data) else {
            return Err(report(
                FailureKind::Permanent,
                "what is at this address is no PNG, JPEG or WebP",
            ));
        };
        let Some(address) = keeper.capabilities.keep_picture(data.into()).await else {
            return Err(report(
                FailureKind::Permanent,
                "the picture cannot be shown: this server has no room for pictures, or keeps none",
            ));
        };
        Ok((mime_type, address))
    });
    answer(kept, move |kept| {
        let (mime_type, address) = kept?;
        show(address, mime_type, caption, &context)
    })
}

/// The bytes of a picture, if the answer is one.
fn picture_of(fetched: Result<HttpAnswer, FetchError>, context: &Context) -> Outcome<Vec<u8>> {
    let answer = match fetched {
        Ok(answer) => answer,
        // The causes may name addresses within this network.
        Err(FetchError::Refused(cause)) => {
            note(context, &cause);
            return Err(report(
                FailureKind::Permanent,
                "this server may not fetch from that host; its operator allows hosts in `handlers.allow_fetch`",
            ));
        }
        Err(FetchError::Unreachable(cause) | FetchError::Unanswered(cause)) => {
            note(context, &cause);
            return Err(without_effect("the host of the picture does not answer"));
        }
    };
    match answer.status {
        200..=299 => {}
        300..=399 => {
            return Err(report(
                FailureKind::Permanent,
                "the address names another place, and no picture is fetched from there",
            ));
        }
        404 | 410 => {
            return Err(report(
                FailureKind::NotFound,
                "there is no picture at this address",
            ));
        }
        408 | 429 | 500..=599 => {
            return Err(without_effect(
                "the host of the picture does not give it now; try again in a moment",
            ));
        }
        status => {
            return Err(report(
                FailureKind::Permanent,
                format!("the host of the picture answers with status {status}"),
            ));
        }
    }
    let said = answer.header("content-type").map(str::to_owned);
    let data = answer.body.map_err(|incomplete| {
        note(context, &incomplete.problem);
        report(
            FailureKind::Permanent,
            "the picture did not come whole: it broke off, or is too large",
        )
    })?;
    if data.len() > BYTES_MAX {
        return Err(report(
            FailureKind::Permanent,
            format!(
                "the picture has {} bytes; {BYTES_MAX} are shown at most",
                data.len()
            ),
        ));
    }
    // A missing or generic content type does not contradict the bytes.
    let said = said.map(|said| {
        let said = said.split(';').next().unwrap_or_default();
        said.trim().to_ascii_lowercase().replace("jpg", "jpeg")
    });
    let is_other = |said: &String| {
        let is_plain = said.is_empty() || said == "application/octet-stream";
        !is_plain && Some(said.as_str()) != picture_type(&data)
    };
    match said.filter(is_other) {
        Some(_) => Err(report(
            FailureKind::Permanent,
            "what is at this address is of another type than it says, or no PNG, JPEG or WebP",
        )),
        None => Ok(data),
    }
}

fn note(context: &Context, cause: &str) {
    // The caller's answer stays the same when the audit is closed.
    let _ = context.audit("picture_not_fetched", json!({"cause": cause}));
}

fn show(address: String, mime_type: &str, caption: Option<String>, context: &Context) -> Outcome {
    tell(&address, caption, context)?;
    Ok(Success {
        content: vec![ContentPart::Image {
            mime_type: mime_type.to_owned(),
            url: address.clone(),
        }],
        ..Success::new(json!({"shown": true, "image_url": address}))
    })
}

/// Marks the content of a picture as external.
fn note_stranger(context: &Context) -> Outcome<()> {
    mark_external(context).map_err(|_| not_told())
}

fn tell(address: &str, caption: Option<String>, context: &Context) -> Outcome<()> {
    let mut message = json!({"type": "image", "url": address});
    if let Some(caption) = caption {
        message["caption"] = caption.into();
    }
    context.send_message(message).map_err(|_| not_told())
}

fn not_told() -> Box<Report> {
    without_effect("the client could not be told; the picture was not shown")
}
