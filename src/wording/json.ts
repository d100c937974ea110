/**
 * Returns one line of JSON. JSON escapes control characters below 0x20 only; DEL, the C1 controls (some terminals
 * obey them), the two line separators and the bidi controls, which turn around what a name seems to end in, are
 * escaped as well, which any reader of JSON undoes.
 */
export function jsonLine(value: unknown): string {
  return escaped(
    JSON.stringify(value),
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
  );
}

/**
 * What JSON leaves as it is although a terminal obeys it or nobody can see it: DEL and the C1 controls, bidi
 * controls, characters without width, line separators, fillers.
 */
const UNSEEN = /[\x7f-\x9f\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0]|\u034f/gu;

/** Returns JSON for people: every such character is escaped, which any reader of JSON undoes. */
export function visibleJson(value: unknown, indent?: number): string {
  return escaped(JSON.stringify(value, undefined, indent) ?? 'null', UNSEEN);
}

function escaped(json: string, characters: RegExp): string {
  return json.replace(characters, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
