//! The codecs of the model providers' wire protocols: frames become model events, model commands become frames. Knows no
//! policy, no session state, no socket and no clock.

pub mod gemini_live;
