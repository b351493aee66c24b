//! A function as a client has declared it, in any protocol. Knows no wire form.

use serde_json::Value;

/// A function that the client declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    pub name: String,
    pub description: String,
    /// The parameters' schema as declared, in either form.
    pub parameters: Value,
    /// Whether it was declared through `parametersJsonSchema`.
    pub json_schema: bool,
    /// Whether the model waits for the result before it goes on.
    pub blocking: bool,
}
