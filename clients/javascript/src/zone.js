// Owns the time zone of the user, which is the browser's. Knows nobody who is told.

/** A name of the IANA, such as `Europe/Oslo`; nothing where the browser keeps it to itself. */
export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || undefined;
