/** Where the interface allows null, by the name of the field; written by hand. */
const NULLABLE: ReadonlySet<string> = new Set([
  'specialUse',
  'subject',
  'from',
  'messageId',
  'inReplyTo',
  'filename',
  'contentId',
  'description',
  'error',
  'limit',
  'percentage',
  'totalLimit',
  'totalPercentage',
  'messages_quota',
  'html',
  'text',
]);

/** Free form inside: the interface does not say what is in it. */
const OPAQUE: ReadonlySet<string> = new Set(['params', 'errors']);

/**
 * Where a value is not of the shape of a sample: other field names, other types. Elements of a list are held
 * against the sample's first one. @returns a sentence for each place
 */
export function shapeProblems(sample: unknown, found: unknown, path = ''): string[] {
  const name =
    path
      .split('.')
      .at(-1)
      ?.replace(/\[\d+\]$/, '') ?? '';
  if (found === null && NULLABLE.has(name)) return [];
  if (sample === null && NULLABLE.has(name)) return [];
  // A share of 50 % is a number as well as one of 68.36 %.
  if (kind(sample) === 'number' && kind(found) === 'integer') return [];
  if (kind(sample) !== kind(found)) return [`${path}: ${kind(found)} instead of ${kind(sample)}`];
  if (Array.isArray(sample) && Array.isArray(found)) {
    const [model] = sample;
    if (model === undefined) return [];
    return found.flatMap((item, index) => shapeProblems(model, item, `${path}[${index}]`));
  }
  if (!isRecord(sample) || !isRecord(found) || OPAQUE.has(name)) return [];
  const missing = Object.keys(sample).filter((key) => !(key in found));
  const unknown = Object.keys(found).filter((key) => !(key in sample));
  return [
    ...missing.map((key) => `${path}: ${key} is missing`),
    ...unknown.map((key) => `${path}: ${key} is not of the interface`),
    ...Object.keys(sample)
      .filter((key) => key in found)
      .flatMap((key) =>
        shapeProblems(sample[key], found[key], path === '' ? key : `${path}.${key}`),
      ),
  ];
}

function kind(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  if (typeof value === 'string' && /^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/.test(value)) return 'time';
  return typeof value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
