//! The messages that a Gemini Live server sends, as they are on the wire, and nothing of what they mean. Borrows from the
//! frame wherever the text holds no escapes. Both spellings of every field are read, because the service speaks protobuf
//! JSON, which knows `lowerCamelCase` and `snake_case`; a field that is not listed here is kept by name.

use super::call::FunctionCall;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Text that borrows from the frame where it can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A count. Protobuf JSON writes 64-bit integers as strings or numbers; what is neither counts as nothing, because no
/// count is worth the rest of its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) u64);

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an integer, or one in a string")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
        Ok(Count(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(number).unwrap_or(0)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
        // A cast from a float saturates, and gives zero for what is no number.
        Ok(Count(number as u64))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.parse().unwrap_or(0)))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

/// Where in a message something is, as a chain on the stack, so that a path costs nothing until it is written.
pub(super) struct Path<'p> {
    pub(super) parent: Option<&'p Path<'p>>,
    pub(super) name: &'p str,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(formatter, "{parent}.")?;
        }
        formatter.write_str(self.name)
    }
}

/// Finds the fields of a message that are not listed here.
pub(super) trait Unlisted {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>));
}

macro_rules! leaf {
    ($($type:ty),*) => {$(
        impl Unlisted for $type {
            fn unlisted(&self, _: Option<&Path<'_>>, _: &mut dyn FnMut(&Path<'_>)) {}
        }
    )*};
}

leaf!(bool, Text<'_>, Count);

impl<T: Unlisted> Unlisted for Option<T> {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        if let Some(inner) = self {
            inner.unlisted(path, report);
        }
    }
}

impl<T: Unlisted> Unlisted for Vec<T> {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        for item in self {
            item.unlisted(path, report);
        }
    }
}

/// Declares one message: its fields with their spellings, and the spellings that are known and not needed. A field that
/// is there twice makes the message invalid: whichever were taken, somebody meant the other.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> {
            $($field:ident: $type:ty = $camel:literal $(or $alias:literal)*,)*
        }
        ignores [$($ignored:literal),*]
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name<$life> {
            $(pub(super) $field: Option<$type>,)*
            unknown: Vec<Cow<$life, str>>,
        }

        impl<$life> Deserialize<$life> for $name<$life> {
            fn deserialize<D: Deserializer<$life>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;

                impl<$life> Visitor<$life> for Reader {
                    type Value = $name<$life>;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<$life>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut message = $name::default();
                        while let Some(Text(key)) = map.next_key::<Text<$life>>()? {
                            match &*key {
                                $($camel $(| $alias)* => {
                                    if message.$field.is_some() {
                                        return Err(A::Error::duplicate_field($camel));
                                    }
                                    message.$field = map.next_value()?;
                                })*
                                $($ignored => {
                                    map.next_value::<IgnoredAny>()?;
                                })*
                                _ => {
                                    map.next_value::<IgnoredAny>()?;
                                    message.unknown.push(key);
                                }
                            }
                        }
                        Ok(message)
                    }
                }

                deserializer.deserialize_map(Reader)
            }
        }

        impl Unlisted for $name<'_> {
            fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
                for name in &self.unknown {
                    report(&Path { parent: path, name });
                }
                $(self.$field.unlisted(Some(&Path { parent: path, name: $camel }), report);)*
            }
        }
    };
}

message! {
    /// One frame.
    ServerMessage<'a> {
        setup_complete: SetupComplete<'a> = "setupComplete" or "setup_complete",
        server_content: ServerContent<'a> = "serverContent" or "server_content",
        tool_call: ToolCall<'a> = "toolCall" or "tool_call",
        tool_call_cancellation: ToolCallCancellation<'a> = "toolCallCancellation" or "tool_call_cancellation",
        usage_metadata: UsageMetadata<'a> = "usageMetadata" or "usage_metadata",
        go_away: GoAway<'a> = "goAway" or "go_away",
        session_resumption_update: SessionResumptionUpdate<'a> = "sessionResumptionUpdate" or "session_resumption_update",
        voice_activity: VoiceActivity<'a> = "voiceActivity" or "voice_activity",
        detection_signal: DetectionSignal<'a> = "voiceActivityDetectionSignal" or "voice_activity_detection_signal",
    }
    ignores []
}

message! {
    SetupComplete<'a> {
        session_id: Text<'a> = "sessionId" or "session_id",
    }
    ignores ["voiceConsentSignature", "voice_consent_signature"]
}

message! {
    ServerContent<'a> {
        model_turn: Content<'a> = "modelTurn" or "model_turn",
        generation_complete: bool = "generationComplete" or "generation_complete",
        turn_complete: bool = "turnComplete" or "turn_complete",
        interrupted: bool = "interrupted",
        input_transcription: Transcription<'a> = "inputTranscription" or "input_transcription",
        output_transcription: Transcription<'a> = "outputTranscription" or "output_transcription",
        waiting_for_input: bool = "waitingForInput" or "waiting_for_input",
        turn_complete_reason: Text<'a> = "turnCompleteReason" or "turn_complete_reason",
        interaction_status: Text<'a> = "interactionStatus" or "interaction_status",
    }
    // An interim transcript is superseded by the transcript itself, whose pieces are to add up.
    ignores [
        "interimInputTranscription", "interim_input_transcription",
        "groundingMetadata", "grounding_metadata",
        "urlContextMetadata", "url_context_metadata"
    ]
}

message! {
    Content<'a> {
        parts: Vec<Part<'a>> = "parts",
    }
    ignores ["role"]
}

message! {
    Part<'a> {
        inline_data: Blob<'a> = "inlineData" or "inline_data",
        text: Text<'a> = "text",
        thought: bool = "thought",
        function_call: FunctionCall<'a> = "functionCall" or "function_call",
    }
    // Code that a model wrote is neither run nor spoken, nor is what the provider made of it.
    ignores [
        "executableCode", "executable_code",
        "codeExecutionResult", "code_execution_result",
        "thoughtSignature", "thought_signature",
        "videoMetadata", "video_metadata",
        "mediaResolution", "media_resolution",
        "fileData", "file_data",
        "functionResponse", "function_response"
    ]
}

message! {
    Blob<'a> {
        mime_type: Text<'a> = "mimeType" or "mime_type",
        data: Text<'a> = "data",
    }
    ignores ["displayName", "display_name"]
}

message! {
    Transcription<'a> {
        text: Text<'a> = "text",
        finished: bool = "finished",
    }
    ignores [
        "languageCode", "language_code",
        "speakerLabel", "speaker_label",
        "words",
        "startOffset", "start_offset",
        "endOffset", "end_offset"
    ]
}

message! {
    ToolCall<'a> {
        function_calls: Vec<FunctionCall<'a>> = "functionCalls" or "function_calls",
    }
    ignores []
}

message! {
    ToolCallCancellation<'a> {
        ids: Vec<Text<'a>> = "ids",
    }
    ignores []
}

message! {
    GoAway<'a> {
        time_left: Text<'a> = "timeLeft" or "time_left",
    }
    ignores []
}

message! {
    SessionResumptionUpdate<'a> {
        new_handle: Text<'a> = "newHandle" or "new_handle",
        resumable: bool = "resumable",
    }
    ignores ["lastConsumedClientMessageIndex", "last_consumed_client_message_index"]
}

message! {
    /// The Gemini API says `response…`, Vertex `candidates…`.
    UsageMetadata<'a> {
        prompt_tokens: Count = "promptTokenCount" or "prompt_token_count",
        response_tokens: Count = "responseTokenCount" or "response_token_count" or "candidatesTokenCount" or "candidates_token_count",
        thoughts_tokens: Count = "thoughtsTokenCount" or "thoughts_token_count",
        tool_use_tokens: Count = "toolUsePromptTokenCount" or "tool_use_prompt_token_count",
        cached_tokens: Count = "cachedContentTokenCount" or "cached_content_token_count",
        total_tokens: Count = "totalTokenCount" or "total_token_count",
    }
    ignores [
        "promptTokensDetails", "prompt_tokens_details",
        "responseTokensDetails", "response_tokens_details",
        "candidatesTokensDetails", "candidates_tokens_details",
        "toolUsePromptTokensDetails", "tool_use_prompt_tokens_details",
        "cacheTokensDetails", "cache_tokens_details",
        "trafficType", "traffic_type",
        "serviceTier", "service_tier"
    ]
}

message! {
    VoiceActivity<'a> {
        kind: Text<'a> = "type" or "voiceActivityType" or "voice_activity_type",
    }
    ignores ["audioOffset", "audio_offset"]
}

message! {
    DetectionSignal<'a> {
        kind: Text<'a> = "vadSignalType" or "vad_signal_type",
    }
    ignores []
}
