//! Compiled JSON Schemas: the only module that names the validator crate, behind functions that are not generic, so that its code is
//! generated once.

mod defaults;
mod explain;
mod formats;

use crate::arguments::Arguments;
use crate::effect_key::KeySpec;
use defaults::Defaults;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The formats that are asserted.
pub const FORMATS: [&str; 19] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// A compiled schema, and the defaults that it declares.
pub struct Validator {
    schema: Arc<Value>,
    /// Built on first use: most tools of a catalogue are never called.
    judge: OnceLock<Result<jsonschema::Validator, SchemaError>>,
    defaults: Defaults,
    /// How the arguments of the tool's key are compared. A validator serves one tool, whose key never changes.
    key_spec: OnceLock<Arc<KeySpec>>,
}

impl fmt::Debug for Validator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Validator")
    }
}

/// One rule of the schema that a value breaks.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// JSON pointer into the value.
    pub pointer: String,
    /// The rule, without the value itself.
    pub message: String,
    /// The allowed names, if an unknown name is the problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

/// The reason why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON pointer into the schema.
    pub pointer: String,
    pub message: String,
}

impl Validator {
    /// Compiles a JSON Schema 2020-12 document. Formats are asserted, references stay inside the document, and patterns
    /// run in linear time.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let validator = Self::trusting(Arc::new(schema.clone()));
        match validator.judge() {
            Ok(_) => Ok(validator),
            Err(error) => Err(error.clone()),
        }
    }

    /// Takes a schema that compiled when its artifact was built, and defers most of the work to the first use. If it does not compile
    /// after all, every value violates it.
    pub fn trusting(schema: Arc<Value>) -> Self {
        Self {
            defaults: Defaults::of(&schema),
            judge: OnceLock::new(),
            key_spec: OnceLock::new(),
            schema,
        }
    }

    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Fills in the defaults that the arguments leave out and returns their JSON pointers.
    pub fn apply_defaults(&self, arguments: &mut Arguments) -> Arc<[Arc<str>]> {
        self.defaults.apply(arguments)
    }

    /// How arguments are compared that identify an effect: the arguments in `names`, or all if it is empty.
    pub(crate) fn key_spec(&self, names: &[Arc<str>]) -> &Arc<KeySpec> {
        self.key_spec.get_or_init(|| {
            let mut defaults = Arguments::none();
            self.apply_defaults(&mut defaults);
            Arc::new(KeySpec::of(&self.schema, names, &defaults))
        })
    }

    /// All violations of a value, sorted by pointer and then message; empty for a valid value.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        match self.judge() {
            Ok(judge) if judge.is_valid(value) => Vec::new(),
            Ok(judge) => explain::violations(&self.schema, judge.iter_errors(value)),
            Err(error) => vec![Violation {
                pointer: String::new(),
                message: format!("the tool's schema does not compile: {}", error.message),
                allowed: Vec::new(),
            }],
        }
    }

    pub fn is_valid(&self, value: &Value) -> bool {
        self.judge().is_ok_and(|judge| judge.is_valid(value))
    }

    /// Removes members that are null where the schema neither allows null nor requires the member, and returns their pointers: many
    /// models write null for a missing value.
    pub fn leave_out_nulls(&self, arguments: &mut Arguments) -> Arc<[Arc<str>]> {
        if !has_null(arguments.as_value()) {
            return Arc::default();
        }
        let mut taken: Vec<String> = Vec::new();
        for violation in self.violations(arguments.as_value()) {
            let pointer = violation.pointer;
            let is_null = arguments.as_value().pointer(&pointer) == Some(&Value::Null);
            if is_null && take_member(arguments.as_value_mut(), &pointer) {
                taken.push(pointer);
            }
        }
        if !taken.is_empty() {
            let missing = self.violations(arguments.as_value());
            taken.retain(|pointer| {
                let is_missed = missing.iter().any(|one| one.pointer == *pointer);
                if is_missed {
                    put_null(arguments.as_value_mut(), pointer);
                }
                !is_missed
            });
        }
        taken.into_iter().map(Arc::from).collect()
    }

    /// [`Self::violations`] of arguments.
    pub fn argument_violations(&self, arguments: &Arguments) -> Vec<Violation> {
        self.violations(arguments.as_value())
    }

    fn judge(&self) -> Result<&jsonschema::Validator, &SchemaError> {
        self.judge.get_or_init(|| build(&self.schema)).as_ref()
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The object around a member, and the member's name.
fn around<'v>(value: &'v mut Value, pointer: &str) -> Option<(&'v mut Map<String, Value>, String)> {
    let (parent, name) = pointer.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    Some((value.pointer_mut(parent)?.as_object_mut()?, name))
}

fn take_member(value: &mut Value, pointer: &str) -> bool {
    around(value, pointer).is_some_and(|(members, name)| members.remove(&name).is_some())
}

fn put_null(value: &mut Value, pointer: &str) {
    if let Some((members, name)) = around(value, pointer) {
        members.insert(name, Value::Null);
    }
}

fn build(schema: &Value) -> Result<jsonschema::Validator, SchemaError> {
    build_within(schema, PATTERN_BYTES_MAX)
}

/// `pattern_bytes_max` limits the compiled size of each pattern.
fn build_within(
    schema: &Value,
    pattern_bytes_max: usize,
) -> Result<jsonschema::Validator, SchemaError> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .with_format("email", formats::is_email)
        .with_format("idn-email", formats::is_idn_email)
        .with_format("idn-hostname", formats::is_hostname)
        .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(pattern_bytes_max))
        .offline()
        .build(schema)
        .map_err(|error| SchemaError {
            pointer: error.instance_path().to_string(),
            message: explain::shorten(&error.to_string()),
        })
}

/// The violations of a schema against the meta-schema.
pub fn meta_violations(schema: &Value) -> Vec<Violation> {
    let meta = jsonschema::draft202012::meta::validator();
    explain::violations(&Value::Null, meta.iter_errors(schema))
}

/// The most bytes of one compiled pattern.
pub const PATTERN_BYTES_MAX: usize = 10 * 1024 * 1024;
/// The fewest bytes that a pattern counts as.
const PATTERN_BYTES_MIN: usize = 10 * 1024;

/// Why a pattern cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    #[error("it looks around or refers back")]
    LooksAround,
    #[error("it is no regular expression")]
    NoExpression,
    #[error("it is too large a regular expression once it is compiled")]
    TooLarge,
}

/// The approximate size of a pattern, compiled for the engine that runs in linear time: at most twice its real size.
pub fn pattern_bytes(pattern: &str, bytes_max: usize) -> Result<usize, BadPattern> {
    const BEYOND: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];
    let schema = serde_json::json!({ "pattern": pattern });
    let mut bytes = PATTERN_BYTES_MIN.min(bytes_max);
    while build_within(&schema, bytes).is_err() {
        if bytes < bytes_max {
            bytes = (bytes * 2).min(bytes_max);
            continue;
        }
        let refers_back = pattern
            .as_bytes()
            .windows(2)
            .any(|pair| pair[0] == b'\\' && (b'1'..=b'9').contains(&pair[1]));
        let looks_around = BEYOND.iter().any(|group| pattern.contains(group));
        let is_too_large = || {
            let compiled = regex::RegexBuilder::new(pattern).size_limit(0).build();
            matches!(compiled, Err(regex::Error::CompiledTooBig(_)))
        };
        return Err(match refers_back || looks_around {
            true => BadPattern::LooksAround,
            false if is_too_large() => BadPattern::TooLarge,
            false => BadPattern::NoExpression,
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
