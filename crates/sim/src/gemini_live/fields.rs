//! The message types of a Gemini Live client, as data. Knows no meaning of any field.
//!
//! The lists follow the fields that the official SDKs serialize (`google-genai` 3.4.0, `@google/genai` 2.32.0).

/// The type of a field.
pub(crate) enum Kind {
    Text,
    Bool,
    Number,
    /// Protobuf JSON spells 64-bit integers as numbers or as strings.
    Integer,
    Enumeration(&'static [&'static str]),
    Message(&'static Message),
    List(&'static Kind),
    /// An object whose keys are data and stay as they are.
    Map(&'static Kind),
    /// Any JSON object, untouched.
    Struct,
    /// Any JSON, untouched.
    Any,
}

/// A message type: its fields, in lowerCamelCase.
pub(crate) struct Message {
    pub(crate) fields: &'static [(&'static str, Kind)],
}

impl Message {
    pub(crate) fn find(&self, key: &str) -> Option<(&'static str, &'static Kind)> {
        self.fields
            .iter()
            .find(|(name, _)| spells(key, name))
            .map(|(name, kind)| (*name, kind))
    }
}

/// Whether `key` is `camel` itself or its snake_case form.
fn spells(key: &str, camel: &str) -> bool {
    if key == camel {
        return true;
    }
    let mut key = key.bytes();
    for expected in camel.bytes() {
        if expected.is_ascii_uppercase() {
            if key.next() != Some(b'_') || key.next() != Some(expected.to_ascii_lowercase()) {
                return false;
            }
        } else if key.next() != Some(expected) {
            return false;
        }
    }
    key.next().is_none()
}

pub(crate) static CLIENT_MESSAGE: Message = Message {
    fields: &[
        ("setup", Kind::Message(&SETUP)),
        ("clientContent", Kind::Message(&CLIENT_CONTENT)),
        ("realtimeInput", Kind::Message(&REALTIME_INPUT)),
        ("toolResponse", Kind::Message(&TOOL_RESPONSE)),
        ("contextUpdate", Kind::Message(&CONTEXT_UPDATE)),
    ],
};

static EMPTY: Message = Message { fields: &[] };

static CLIENT_CONTENT: Message = Message {
    fields: &[
        ("turns", Kind::List(&Kind::Message(&CONTENT))),
        ("turnComplete", Kind::Bool),
    ],
};

static REALTIME_INPUT: Message = Message {
    fields: &[
        ("audio", Kind::Message(&BLOB)),
        ("video", Kind::Message(&BLOB)),
        ("mediaChunks", Kind::List(&Kind::Message(&BLOB))),
        ("text", Kind::Text),
        ("audioStreamEnd", Kind::Bool),
        ("activityStart", Kind::Message(&EMPTY)),
        ("activityEnd", Kind::Message(&EMPTY)),
    ],
};

static TOOL_RESPONSE: Message = Message {
    fields: &[(
        "functionResponses",
        Kind::List(&Kind::Message(&FUNCTION_RESPONSE)),
    )],
};

static FUNCTION_RESPONSE: Message = Message {
    fields: &[
        ("id", Kind::Text),
        ("name", Kind::Text),
        ("response", Kind::Struct),
        (
            "scheduling",
            Kind::Enumeration(&["SCHEDULING_UNSPECIFIED", "SILENT", "WHEN_IDLE", "INTERRUPT"]),
        ),
        ("willContinue", Kind::Bool),
        ("parts", Kind::List(&Kind::Struct)),
    ],
};

static CONTEXT_UPDATE: Message = Message {
    fields: &[
        ("systemInstruction", Kind::Message(&CONTENT)),
        ("tools", Kind::Message(&TOOL_LIST)),
    ],
};

static TOOL_LIST: Message = Message {
    fields: &[("tools", Kind::List(&Kind::Message(&TOOL)))],
};

static BLOB: Message = Message {
    fields: &[
        ("data", Kind::Text),
        ("mimeType", Kind::Text),
        ("displayName", Kind::Text),
    ],
};

static CONTENT: Message = Message {
    fields: &[
        ("role", Kind::Text),
        ("parts", Kind::List(&Kind::Message(&PART))),
    ],
};

static PART: Message = Message {
    fields: &[
        ("text", Kind::Text),
        ("thought", Kind::Bool),
        ("thoughtSignature", Kind::Text),
        ("inlineData", Kind::Message(&BLOB)),
        ("fileData", Kind::Struct),
        ("functionCall", Kind::Struct),
        ("functionResponse", Kind::Struct),
        ("executableCode", Kind::Struct),
        ("codeExecutionResult", Kind::Struct),
        ("videoMetadata", Kind::Struct),
        ("mediaResolution", Kind::Any),
    ],
};

static SETUP: Message = Message {
    fields: &[
        ("model", Kind::Text),
        ("generationConfig", Kind::Message(&GENERATION_CONFIG)),
        ("systemInstruction", Kind::Message(&CONTENT)),
        ("tools", Kind::List(&Kind::Message(&TOOL))),
        ("realtimeInputConfig", Kind::Message(&REALTIME_INPUT_CONFIG)),
        ("sessionResumption", Kind::Message(&SESSION_RESUMPTION)),
        ("contextWindowCompression", Kind::Message(&COMPRESSION)),
        ("inputAudioTranscription", Kind::Message(&TRANSCRIPTION)),
        ("outputAudioTranscription", Kind::Message(&TRANSCRIPTION)),
        ("proactivity", Kind::Message(&PROACTIVITY)),
        ("historyConfig", Kind::Message(&HISTORY_CONFIG)),
        ("explicitVadSignal", Kind::Bool),
        ("avatarConfig", Kind::Struct),
        ("safetySettings", Kind::List(&Kind::Message(&SAFETY))),
        ("labels", Kind::Map(&Kind::Text)),
    ],
};

static GENERATION_CONFIG: Message = Message {
    fields: &[
        (
            "responseModalities",
            Kind::List(&Kind::Enumeration(&[
                "MODALITY_UNSPECIFIED",
                "AUDIO",
                "TEXT",
                "VIDEO",
                "IMAGE",
            ])),
        ),
        ("temperature", Kind::Number),
        ("topP", Kind::Number),
        ("topK", Kind::Number),
        ("maxOutputTokens", Kind::Integer),
        ("candidateCount", Kind::Integer),
        ("presencePenalty", Kind::Number),
        ("frequencyPenalty", Kind::Number),
        ("seed", Kind::Integer),
        (
            "mediaResolution",
            Kind::Enumeration(&[
                "MEDIA_RESOLUTION_UNSPECIFIED",
                "MEDIA_RESOLUTION_LOW",
                "MEDIA_RESOLUTION_MEDIUM",
                "MEDIA_RESOLUTION_HIGH",
            ]),
        ),
        ("speechConfig", Kind::Message(&SPEECH_CONFIG)),
        ("thinkingConfig", Kind::Message(&THINKING_CONFIG)),
        ("enableAffectiveDialog", Kind::Bool),
        ("translationConfig", Kind::Message(&TRANSLATION_CONFIG)),
    ],
};

static SPEECH_CONFIG: Message = Message {
    fields: &[
        ("voiceConfig", Kind::Message(&VOICE_CONFIG)),
        ("languageCode", Kind::Text),
    ],
};

static VOICE_CONFIG: Message = Message {
    fields: &[
        ("prebuiltVoiceConfig", Kind::Message(&PREBUILT_VOICE)),
        ("replicatedVoiceConfig", Kind::Struct),
        ("voice", Kind::Text),
    ],
};

static PREBUILT_VOICE: Message = Message {
    fields: &[("voiceName", Kind::Text)],
};

static THINKING_CONFIG: Message = Message {
    fields: &[
        ("includeThoughts", Kind::Bool),
        ("thinkingBudget", Kind::Integer),
        (
            "thinkingLevel",
            Kind::Enumeration(&[
                "THINKING_LEVEL_UNSPECIFIED",
                "MINIMAL",
                "LOW",
                "MEDIUM",
                "HIGH",
                "XHIGH",
            ]),
        ),
    ],
};

static TRANSLATION_CONFIG: Message = Message {
    fields: &[
        ("targetLanguageCode", Kind::Text),
        ("echoTargetLanguage", Kind::Bool),
    ],
};

static REALTIME_INPUT_CONFIG: Message = Message {
    fields: &[
        ("automaticActivityDetection", Kind::Message(&DETECTION)),
        (
            "activityHandling",
            Kind::Enumeration(&[
                "ACTIVITY_HANDLING_UNSPECIFIED",
                "START_OF_ACTIVITY_INTERRUPTS",
                "NO_INTERRUPTION",
            ]),
        ),
        (
            "turnCoverage",
            Kind::Enumeration(&[
                "TURN_COVERAGE_UNSPECIFIED",
                "TURN_INCLUDES_ONLY_ACTIVITY",
                "TURN_INCLUDES_ALL_INPUT",
                "TURN_INCLUDES_AUDIO_ACTIVITY_AND_ALL_VIDEO",
            ]),
        ),
        ("interimTranscriptTimestampEnabled", Kind::Bool),
    ],
};

static DETECTION: Message = Message {
    fields: &[
        ("disabled", Kind::Bool),
        (
            "startOfSpeechSensitivity",
            Kind::Enumeration(&[
                "START_SENSITIVITY_UNSPECIFIED",
                "START_SENSITIVITY_HIGH",
                "START_SENSITIVITY_LOW",
            ]),
        ),
        (
            "endOfSpeechSensitivity",
            Kind::Enumeration(&[
                "END_SENSITIVITY_UNSPECIFIED",
                "END_SENSITIVITY_HIGH",
                "END_SENSITIVITY_LOW",
            ]),
        ),
        ("prefixPaddingMs", Kind::Integer),
        ("silenceDurationMs", Kind::Integer),
    ],
};

static SESSION_RESUMPTION: Message = Message {
    fields: &[("handle", Kind::Text), ("transparent", Kind::Bool)],
};

static COMPRESSION: Message = Message {
    fields: &[
        ("triggerTokens", Kind::Integer),
        ("slidingWindow", Kind::Message(&SLIDING_WINDOW)),
    ],
};

static SLIDING_WINDOW: Message = Message {
    fields: &[("targetTokens", Kind::Integer)],
};

static TRANSCRIPTION: Message = Message {
    fields: &[
        ("languageCodes", Kind::List(&Kind::Text)),
        ("customVocabulary", Kind::List(&Kind::Text)),
        ("wordTimestamp", Kind::Bool),
        ("diarization", Kind::Bool),
        ("mode", Kind::Enumeration(&["VERBATIM", "SMART"])),
        ("sourceText", Kind::Any),
        ("languageAuto", Kind::Any),
        ("languageHints", Kind::Any),
        ("adaptationPhrases", Kind::Any),
    ],
};

static PROACTIVITY: Message = Message {
    fields: &[
        ("proactiveAudio", Kind::Bool),
        ("proactiveVideo", Kind::Bool),
    ],
};

static HISTORY_CONFIG: Message = Message {
    fields: &[("initialHistoryInClientContent", Kind::Bool)],
};

static SAFETY: Message = Message {
    fields: &[
        ("category", Kind::Text),
        ("threshold", Kind::Text),
        ("method", Kind::Text),
    ],
};

static TOOL: Message = Message {
    fields: &[
        (
            "functionDeclarations",
            Kind::List(&Kind::Message(&FUNCTION_DECLARATION)),
        ),
        ("googleSearch", Kind::Struct),
        ("codeExecution", Kind::Struct),
        ("urlContext", Kind::Struct),
        ("googleMaps", Kind::Struct),
        ("computerUse", Kind::Struct),
        ("fileSearch", Kind::Struct),
        ("mcpServers", Kind::Any),
        ("googleSearchRetrieval", Kind::Struct),
        ("retrieval", Kind::Struct),
        ("enterpriseWebSearch", Kind::Struct),
    ],
};

static FUNCTION_DECLARATION: Message = Message {
    fields: &[
        ("name", Kind::Text),
        ("description", Kind::Text),
        ("parameters", Kind::Message(&SCHEMA)),
        ("parametersJsonSchema", Kind::Any),
        ("response", Kind::Message(&SCHEMA)),
        ("responseJsonSchema", Kind::Any),
        (
            "behavior",
            Kind::Enumeration(&["UNSPECIFIED", "BLOCKING", "NON_BLOCKING"]),
        ),
    ],
};

/// The OpenAPI-like subset. `additionalProperties`, `defs` and `ref` exist on Vertex only, which the caller checks.
static SCHEMA: Message = Message {
    fields: &[
        ("type", Kind::Text),
        ("format", Kind::Text),
        ("title", Kind::Text),
        ("description", Kind::Text),
        ("nullable", Kind::Bool),
        ("enum", Kind::List(&Kind::Text)),
        ("default", Kind::Any),
        ("example", Kind::Any),
        ("items", Kind::Message(&SCHEMA)),
        ("minItems", Kind::Integer),
        ("maxItems", Kind::Integer),
        ("properties", Kind::Map(&Kind::Message(&SCHEMA))),
        ("required", Kind::List(&Kind::Text)),
        ("minProperties", Kind::Integer),
        ("maxProperties", Kind::Integer),
        ("propertyOrdering", Kind::List(&Kind::Text)),
        ("minimum", Kind::Number),
        ("maximum", Kind::Number),
        ("minLength", Kind::Integer),
        ("maxLength", Kind::Integer),
        ("pattern", Kind::Text),
        ("anyOf", Kind::List(&Kind::Message(&SCHEMA))),
        ("additionalProperties", Kind::Any),
        ("defs", Kind::Any),
        ("ref", Kind::Text),
    ],
};
