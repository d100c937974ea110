/**
 * One line of JSON. JSON escapes control characters below 0x20 only; DEL, the C1 controls (some terminals
 * obey them) and the two line separators are escaped as well, which any reader of JSON undoes.
 */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
