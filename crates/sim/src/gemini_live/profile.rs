//! The behaviour and the refusals of each Live model, as a table. Knows no connection; where a row differs from the documentation it
//! follows the measured or recorded behaviour of the real service.

use super::address::Backend;
use crate::family::Family;

/// Whether a call blocks, by its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRule {
    BlockingUnlessDeclared,
    NonBlockingUnlessDeclared,
    /// `NON_BLOCKING` is accepted without effect.
    BlockingAlways,
    /// `BLOCKING` is refused.
    NonBlockingAlways,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingRule {
    Budget,
    Levels(&'static [&'static str]),
    /// Neither level nor budget can be set.
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) family: Family,
    pub(crate) vertex: bool,
    pub(crate) calls: CallRule,
    pub(crate) thinking: ThinkingRule,
    /// Whether `clientContent` is accepted during the whole session, and not only as announced history.
    pub(crate) content_anytime: bool,
    pub(crate) history_config: bool,
    pub(crate) media_chunks: bool,
    pub(crate) context_update: bool,
    /// Whether a thought summary precedes an answer to the user.
    pub(crate) thoughts: bool,
    /// Whether transcription and audio travel in one frame.
    pub(crate) bundles: bool,
    pub(crate) interaction_status: bool,
    /// Whether calls of functions declared with `parametersJsonSchema` keep their arguments.
    pub(crate) json_schema_arguments: bool,
    /// Whether a result with INTERRUPT speaks over a user who is speaking.
    pub(crate) talks_over_user: bool,
    pub(crate) call_ids: bool,
}

const NATIVE_25: Profile = Profile {
    family: Family::Native25,
    vertex: false,
    calls: CallRule::BlockingUnlessDeclared,
    thinking: ThinkingRule::Budget,
    content_anytime: true,
    history_config: false,
    media_chunks: true,
    context_update: false,
    thoughts: true,
    bundles: false,
    interaction_status: false,
    json_schema_arguments: false,
    talks_over_user: true,
    call_ids: true,
};

const FLASH_31: Profile = Profile {
    family: Family::Flash31,
    calls: CallRule::BlockingAlways,
    thinking: ThinkingRule::Levels(&["MINIMAL", "LOW", "MEDIUM", "HIGH"]),
    content_anytime: false,
    history_config: true,
    media_chunks: false,
    thoughts: false,
    bundles: true,
    json_schema_arguments: true,
    talks_over_user: false,
    ..NATIVE_25
};

const LIVE_38: Profile = Profile {
    family: Family::Live38,
    calls: CallRule::NonBlockingUnlessDeclared,
    thinking: ThinkingRule::Fixed,
    content_anytime: true,
    context_update: true,
    bundles: false,
    ..FLASH_31
};

const EXTENDED_38: Profile = Profile {
    family: Family::Extended38,
    calls: CallRule::NonBlockingAlways,
    thinking: ThinkingRule::Levels(&["LOW", "MEDIUM", "HIGH"]),
    context_update: false,
    interaction_status: true,
    ..LIVE_38
};

/// Model ids with their rules. An id that ends in `-` stands for its whole line.
const MODELS: &[(&str, &Profile)] = &[
    ("gemini-3.8-live", &LIVE_38),
    ("gemini-3.8-live-extended-thinking", &EXTENDED_38),
    ("gemini-3.1-flash-live-preview", &FLASH_31),
    ("gemini-2.5-flash-native-audio-", &NATIVE_25),
    ("gemini-live-2.5-flash-native-audio", &NATIVE_25),
];

impl Profile {
    /// The rules for a model resource name, or `None` where the backend has no such model.
    pub(crate) fn find(resource: &str, backend: Backend) -> Option<Self> {
        let id = match backend {
            Backend::GeminiApi => resource.strip_prefix("models/")?,
            Backend::Vertex => resource.rsplit_once("publishers/google/models/")?.1,
        };
        let known = |name: &str| match name.strip_suffix('-') {
            Some(line) => id
                .strip_prefix(line)
                .is_some_and(|rest| rest.starts_with('-')),
            None => id == name,
        };
        let (name, profile) = MODELS.iter().find(|(name, _)| known(name))?;
        let vertex_only = *name == "gemini-live-2.5-flash-native-audio";
        match backend {
            Backend::GeminiApi if vertex_only => None,
            Backend::GeminiApi => Some(**profile),
            Backend::Vertex => Some(profile.on_vertex()),
        }
    }

    pub(crate) fn of_family(family: Family, backend: Backend) -> Self {
        let profile = match family {
            Family::Native25 => NATIVE_25,
            Family::Flash31 => FLASH_31,
            Family::Live38 => LIVE_38,
            Family::Extended38 => EXTENDED_38,
        };
        match backend {
            Backend::GeminiApi => profile,
            Backend::Vertex => profile.on_vertex(),
        }
    }

    /// The profile on Vertex, which keeps the model's rules, names some fields differently and gives calls of older models no ids.
    fn on_vertex(&self) -> Self {
        Self {
            vertex: true,
            call_ids: self.family != Family::Native25,
            thoughts: false,
            ..*self
        }
    }

    /// Whether a call of a function declared with this `behavior` blocks.
    pub(crate) fn blocks(&self, behavior: Option<&str>) -> bool {
        match self.calls {
            CallRule::BlockingUnlessDeclared => behavior != Some("NON_BLOCKING"),
            CallRule::NonBlockingUnlessDeclared => behavior == Some("BLOCKING"),
            CallRule::BlockingAlways => true,
            CallRule::NonBlockingAlways => false,
        }
    }

    pub(crate) fn audio_mime_type(&self) -> &'static str {
        if self.vertex {
            "audio/pcm"
        } else {
            "audio/pcm;rate=24000"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_id_finds_its_rules_and_an_unknown_one_finds_none() {
        let gemini = Backend::GeminiApi;
        for (resource, backend, family) in [
            ("models/gemini-3.8-live", gemini, Some(Family::Live38)),
            (
                "models/gemini-3.8-live-extended-thinking",
                gemini,
                Some(Family::Extended38),
            ),
            (
                "models/gemini-3.1-flash-live-preview",
                gemini,
                Some(Family::Flash31),
            ),
            (
                "models/gemini-2.5-flash-native-audio-preview-12-2025",
                gemini,
                Some(Family::Native25),
            ),
            (
                "models/gemini-2.5-flash-native-audio-latest",
                gemini,
                Some(Family::Native25),
            ),
            ("models/gemini-live-2.5-flash-native-audio", gemini, None),
            ("models/gemini-9", gemini, None),
            ("gemini-3.8-live", gemini, None),
            (
                "publishers/google/models/gemini-live-2.5-flash-native-audio",
                Backend::Vertex,
                Some(Family::Native25),
            ),
            (
                "projects/p/locations/l/publishers/google/models/gemini-3.8-live",
                Backend::Vertex,
                Some(Family::Live38),
            ),
            ("models/gemini-3.8-live", Backend::Vertex, None),
        ] {
            let found = Profile::find(resource, backend).map(|profile| profile.family);
            assert_eq!(found, family, "{resource}");
        }
    }

    #[test]
    fn whether_a_call_blocks_depends_on_the_model_as_much_as_on_the_declaration() {
        for (profile, undeclared, blocking, non_blocking) in [
            (NATIVE_25, true, true, false),
            (FLASH_31, true, true, true),
            (LIVE_38, false, true, false),
            (EXTENDED_38, false, false, false),
        ] {
            assert_eq!(profile.blocks(None), undeclared);
            assert_eq!(profile.blocks(Some("BLOCKING")), blocking);
            assert_eq!(profile.blocks(Some("NON_BLOCKING")), non_blocking);
        }
    }
}
