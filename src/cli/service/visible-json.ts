/**
 * What JSON leaves as it is although a terminal obeys it or nobody can see it: DEL and the C1 controls, bidi
 * controls, characters without width, line separators, fillers.
 */
const UNSEEN = /[\x7f-\x9f\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0]|\u034f/gu;

/** JSON for people: every such character is escaped, which any reader of JSON undoes. */
export function visibleJson(value: unknown, indent?: number): string {
  return (JSON.stringify(value, undefined, indent) ?? 'null').replace(UNSEEN, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
