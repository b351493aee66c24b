//! The visible content of a response besides its data. Knows no tool and no client.

use serde::{Deserialize, Serialize};

/// A visible part of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    try_from = "PartForm"
)]
pub enum ContentPart {
    Image { mime_type: String, url: String },
}

/// A part as handlers write it: a picture has an address, or comes in base64 as in the blocks of MCP.
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
enum PartForm {
    Image {
        mime_type: String,
        url: Option<String>,
        data: Option<String>,
    },
}

impl TryFrom<PartForm> for ContentPart {
    type Error = &'static str;

    fn try_from(form: PartForm) -> Result<Self, Self::Error> {
        let PartForm::Image {
            mime_type,
            url,
            data,
        } = form;
        let in_place = data.map(|data| format!("data:{mime_type};base64,{data}"));
        let url = url.or(in_place);
        let url = url.ok_or("a picture has a `url`, or its bytes in base64 as `data`")?;
        Ok(Self::Image { mime_type, url })
    }
}
