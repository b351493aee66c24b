//! The messages that a Gemini Live server sends, in their wire form and without their meaning. Both spellings of every field are
//! read, because the service speaks protobuf JSON, which knows `lowerCamelCase` and `snake_case`; a field that is not listed here
//! is kept by name.

use super::call::FunctionCall;
use crate::message::{Count, List, Text, message};
use crate::provider_tools::Grounding;
use serde_json::value::RawValue;

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
    reports others
}

message! {
    SetupComplete<'a> {
        session_id: Text<'a> = "sessionId" or "session_id",
    }
    reports others
    but ["voiceConsentSignature", "voice_consent_signature"]
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
        grounding: Grounding<'a> = "groundingMetadata" or "grounding_metadata",
    }
    reports others
    // An interim transcript is superseded by the transcript itself, whose pieces are to add up.
    but [
        "interimInputTranscription", "interim_input_transcription",
        "urlContextMetadata", "url_context_metadata"
    ]
}

message! {
    Content<'a> {
        parts: List<Part<'a>> = "parts",
    }
    reports others
    but ["role"]
}

message! {
    Part<'a> {
        inline_data: Blob<'a> = "inlineData" or "inline_data",
        text: Text<'a> = "text",
        thought: bool = "thought",
        function_call: FunctionCall<'a, &'a RawValue> = "functionCall" or "function_call",
        code_result: CodeResult<'a> = "codeExecutionResult" or "code_execution_result",
    }
    reports others
    // Code that a model wrote is neither run nor spoken.
    but [
        "executableCode", "executable_code",
        "thoughtSignature", "thought_signature",
        "videoMetadata", "video_metadata",
        "mediaResolution", "media_resolution",
        "fileData", "file_data",
        "functionResponse", "function_response"
    ]
}

message! {
    /// The provider's result of running a model's code. Only its presence counts.
    CodeResult<'a> {
        outcome: Text<'a> = "outcome",
    }
    skips others
}

message! {
    Blob<'a> {
        mime_type: Text<'a> = "mimeType" or "mime_type",
        data: Text<'a> = "data",
    }
    reports others
    but ["displayName", "display_name"]
}

message! {
    Transcription<'a> {
        text: Text<'a> = "text",
        finished: bool = "finished",
    }
    reports others
    but [
        "languageCode", "language_code",
        "speakerLabel", "speaker_label",
        "words",
        "startOffset", "start_offset",
        "endOffset", "end_offset"
    ]
}

message! {
    ToolCall<'a> {
        function_calls: List<FunctionCall<'a, &'a RawValue>> = "functionCalls" or "function_calls",
    }
    reports others
}

message! {
    ToolCallCancellation<'a> {
        ids: List<Text<'a>> = "ids",
    }
    reports others
}

message! {
    GoAway<'a> {
        time_left: Text<'a> = "timeLeft" or "time_left",
    }
    reports others
}

message! {
    SessionResumptionUpdate<'a> {
        new_handle: Text<'a> = "newHandle" or "new_handle",
        resumable: bool = "resumable",
    }
    reports others
    but ["lastConsumedClientMessageIndex", "last_consumed_client_message_index"]
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
    reports others
    but [
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
    reports others
    but ["audioOffset", "audio_offset"]
}

message! {
    DetectionSignal<'a> {
        kind: Text<'a> = "vadSignalType" or "vad_signal_type",
    }
    reports others
}
