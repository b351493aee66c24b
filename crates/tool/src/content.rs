//! What a response has for the eye beside its data. Knows no tool and no client.

use serde::{Deserialize, Serialize};

/// Something for the eye.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum ContentPart {
    Image { mime_type: String, url: String },
}
