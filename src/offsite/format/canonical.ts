import { canonicalJson } from '../../archive/format/facts.ts';
import { isObject, parseJson } from '../../archive/format/json-shape.ts';

/** Fields of a JSON object that are not checked yet. */
export type Fields = Readonly<Record<string, unknown>>;

/**
 * Returns the object that canonical JSON describes, or undefined for other bytes: longer than `most`, no JSON, or the
 * same content written in another way, so that no byte can change without a trace. `isShaped` sees it first, because
 * writing it again takes a stack as deep as it is nested.
 */
export function readCanonical(
  bytes: Buffer,
  most: number,
  isShaped: (fields: Fields) => boolean,
): Fields | undefined {
  if (bytes.length > most) return undefined;
  const value = parseJson(bytes.toString('utf8'));
  if (!isObject(value) || !isShaped(value)) return undefined;
  return canonicalBytes(value).equals(bytes) ? value : undefined;
}

/** Returns canonical JSON in UTF-8. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

/** True if there are no other fields than these, and all that are not optional. */
export function hasOnly(
  fields: Fields,
  names: readonly string[],
  optional: readonly string[] = [],
): boolean {
  return (
    names.every((name) => Object.hasOwn(fields, name)) &&
    Object.keys(fields).every((name) => names.includes(name) || optional.includes(name))
  );
}

/** Returns the bytes of canonical base64 (RFC 4648, padded), or undefined if they are others or of another length. */
export function fromBase64(value: unknown, length?: number): Buffer | undefined {
  if (typeof value !== 'string') return undefined;
  const bytes = Buffer.from(value, 'base64');
  if (length !== undefined && bytes.length !== length) return undefined;
  return bytes.toString('base64') === value ? bytes : undefined;
}

/** Returns the bytes of lower-case hexadecimal digits, or undefined. */
export function fromHex(value: unknown, length: number): Buffer | undefined {
  if (typeof value !== 'string' || value.length !== 2 * length) return undefined;
  const bytes = Buffer.from(value, 'hex');
  return bytes.toString('hex') === value ? bytes : undefined;
}
