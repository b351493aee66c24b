// The types of errors and intents that a handler may use, and the error that it throws.
export const ErrorType = Object.freeze({
  VALIDATION: 'VALIDATION',
  NOT_FOUND: 'NOT_FOUND',
  SESSION_INACTIVE: 'SESSION_INACTIVE',
  SESSION_ACTIVE: 'SESSION_ACTIVE',
  TRANSIENT: 'TRANSIENT',
  PERMANENT: 'PERMANENT',
  RATE_LIMIT: 'RATE_LIMIT',
  AUTH: 'AUTH',
  CONFLICT: 'CONFLICT',
  INTERNAL: 'INTERNAL',
});

export const IntentType = Object.freeze({
  END_VOICE_SESSION: 'END_VOICE_SESSION',
  SUPPRESS_AUDIO: 'SUPPRESS_AUDIO',
  SUPPRESS_TRANSCRIPT: 'SUPPRESS_TRANSCRIPT',
  SET_PENDING_MESSAGE: 'SET_PENDING_MESSAGE',
  SET_STATE: 'SET_STATE',
});

const OPTIONS = [
  'retryable', 'partialSideEffects', 'idempotencyRequired', 'retryAfterMs', 'retryAfter', 'maxRetries', 'suggestion', 'details', 'intents',
];

export class ToolError extends Error {
  constructor(type, message, options = {}) {
    super(message);
    this.name = 'ToolError';
    this.type = type;
    for (const name of OPTIONS) if (options[name] !== undefined) this[name] = options[name];
  }
}
