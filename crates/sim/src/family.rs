//! The generations of Live models that scripts name. Knows none of their rules.

use serde::Deserialize;

/// The model generations whose rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Family {
    #[serde(rename = "2.5-native")]
    Native25,
    #[serde(rename = "3.1")]
    Flash31,
    #[serde(rename = "3.8")]
    Live38,
    #[serde(rename = "3.8-ext")]
    Extended38,
}
