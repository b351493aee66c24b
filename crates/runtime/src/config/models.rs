//! The sections of models: what configuration says of one, for every protocol that a model of this name may speak. Knows
//! which field belongs to which profile; finds no profile.

use super::error::ConfigError;
use super::layers::Values;
use super::path::KeyPath;
use super::values::Problem;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use toml::de::Error;
use toml::{Table, Value};
use windlass_provider::{gemini_live, gemini_text, openai_chat};

/// Changes of one model's profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChange {
    /// By voice, at whichever provider.
    pub live: gemini_live::profile::ProfileOverride,
    /// By text, over Chat Completions.
    pub chat: openai_chat::profile::ProfileOverride,
    /// By text, over Gemini's own protocol.
    pub gemini: gemini_text::profile::ProfileOverride,
}

pub(super) fn models(values: &Values) -> Result<BTreeMap<String, ModelChange>, ConfigError> {
    let mut models = BTreeMap::new();
    for model in values.names("models") {
        let section = KeyPath::from("models").child(&model);
        let (mut live, mut chat, mut gemini) = (Table::new(), Table::new(), Table::new());
        for (path, found) in values.found() {
            let Some([field]) = path.behind(&section) else {
                continue;
            };
            let one = Table::from_iter([(field.clone(), found.value.clone())]);
            // A field means the same wherever it is known, but not every protocol knows it, or each of its values.
            let refusals = [
                accept::<gemini_live::profile::ProfileOverride>(&one, &mut live),
                accept::<openai_chat::profile::ProfileOverride>(&one, &mut chat),
                accept::<gemini_text::profile::ProfileOverride>(&one, &mut gemini),
            ];
            if refusals.iter().any(Result::is_ok) {
                continue;
            }
            let mut causes = refusals
                .into_iter()
                .filter_map(Result::err)
                .map(|error| error.message().trim().replace('\n', ", "));
            let is_of_value = |cause: &String| !cause.starts_with("unknown field");
            let cause = causes.find(is_of_value).unwrap_or_default();
            let cause = format!("does not fit: {cause}");
            let problem = Problem::new(cause, "see docs/configuration.md");
            return Err(values.refuse_at(path, problem));
        }
        let change = ModelChange {
            live: read(live),
            chat: read(chat),
            gemini: read(gemini),
        };
        models.insert(model, change);
    }
    Ok(models)
}

/// Puts a field to the others where the profile takes it.
fn accept<T: DeserializeOwned>(one: &Table, all: &mut Table) -> Result<(), Error> {
    T::deserialize(Value::Table(one.clone()))?;
    all.extend(one.clone());
    Ok(())
}

fn read<T: DeserializeOwned + Default>(fields: Table) -> T {
    T::deserialize(Value::Table(fields)).unwrap_or_default()
}
