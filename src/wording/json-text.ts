/**
 * One line of JSON. JSON escapes control characters below 0x20 only; DEL, the C1 controls (some terminals
 * obey them), the two line separators and the bidi controls, which turn around what a name seems to end in, are
 * escaped as well, which any reader of JSON undoes.
 */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
