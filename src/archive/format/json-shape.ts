/** JSON, or undefined where the text is none (JSON itself has no undefined). */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Returns true for a JSON object; its fields still have to be checked. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A whole number from 0 that a double holds exactly. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

const HASH = /^[0-9a-f]{64}$/;

/** A lower-case hexadecimal SHA-256. */
export function isHash(value: unknown): value is string {
  return typeof value === 'string' && HASH.test(value);
}
