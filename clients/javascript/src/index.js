// Owns what the package offers. Each part can be taken alone.
export { ChatTransport } from "./chat.js";
export { rememberedSession } from "./connection.js";
export { Conversations } from "./conversations.js";
export { openMicrophone } from "./microphone.js";
export { Playback } from "./playback.js";
export { Server, WindlassError } from "./server.js";
export { Voice } from "./voice.js";
