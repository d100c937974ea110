/** Returns a filter of the query language, such as `in:"INBOX.Old mail"`. */
export function filterText(operator: string, value: string): string {
  const isPlain = /^[\p{L}\p{N}@._+/-]+$/u.test(value);
  return `${operator}:${isPlain ? value : `"${value.replaceAll('"', '')}"`}`;
}

/** Returns whether a filter stands in a query as a word of its own. */
export function hasWord(query: string, word: string): boolean {
  return wordsOf(query).some((part) => part === word);
}

/** Returns a query with a word added at its end, or taken out where it stands; the rest stays as it was typed. */
export function toggled(query: string, word: string): string {
  const parts = wordsOf(query);
  const at = parts.indexOf(word);
  if (at < 0) return `${query.trimEnd()} ${word}`.trim();
  // With the blank behind it.
  return [...parts.slice(0, at), ...parts.slice(at + 2)].join('').trim();
}

/** The words of a query and the blanks between them; what is quoted or in brackets stays in one piece. */
function wordsOf(query: string): string[] {
  const parts: string[] = [];
  let current = '';
  let depth = 0;
  let quoted = false;
  for (const character of query) {
    const isBlank = /\s/.test(character) && !quoted && depth === 0;
    if (character === '"') quoted = !quoted;
    if (!quoted && /[({]/.test(character)) depth += 1;
    if (!quoted && /[)}]/.test(character)) depth -= 1;
    if (isBlank) {
      if (current !== '') parts.push(current);
      parts.push(character);
      current = '';
    } else current += character;
  }
  return current === '' ? parts : [...parts, current];
}

/** Returns the part of a query that says as of when: `asof:…` as it was typed, or an empty text. */
export function asOfWord(query: string): string {
  return wordsOf(query).find((part) => /^asof:/i.test(part)) ?? '';
}

export interface MailAddress {
  readonly q?: string | undefined;
  readonly m?: string | undefined;
  readonly view?: string | undefined;
  readonly after?: string | undefined;
  readonly sort?: string | undefined;
}

/** Returns the address of a page, with the parameters that have a value. */
export function pageAddress(
  path: string,
  parameters: MailAddress & Record<string, string | undefined>,
): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, value]],
  );
  const search = new URLSearchParams(given).toString();
  return search === '' ? path : `${path}?${search}`;
}
