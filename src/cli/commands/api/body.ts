import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { jsonErrorOffset } from '../../../config/json-position.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { operationError } from '../../../errors/operations.ts';
import { nearest } from '../../../names/nearest.ts';
import { encodeBody } from '../../../wire/codec.ts';
import type { Operation } from '../../../wire/operation.ts';
import type { CommandContext } from '../../context.ts';
import { bodyFields } from './params.ts';

/** No service accepts more in one request; wrong input piped here is refused early. */
const MOST_BODY_BYTES = 64 * 1024 * 1024;

/**
 * The body of a request: from a file, from standard input (`-`), or as JSON typed in place (it begins with `{`).
 * Every bound of the interface is checked here, before anything is asked or sent.
 *
 * @throws operation-no-body, operation-field-unknown, operation-body-missing, -unreadable, -no-object; request-invalid
 */
export async function readBody(
  operation: Operation,
  given: string | undefined,
  context: Pick<CommandContext, 'stdin' | 'surroundings'>,
): Promise<unknown> {
  if (operation.body === null) {
    if (given === undefined) return undefined;
    throw operationError('operation-no-body', { operation: operation.name });
  }
  let body: object = {};
  if (given === undefined) {
    if (operation.body.safeParse(body).success) return body;
  } else {
    const { text, source } = await bodyText(given, context);
    body = objectIn(text, source);
  }
  checkFields(operation, Object.keys(body));
  encodeBody(operation.body, body, operation.name);
  return body;
}

/** For a misspelt or missing field, an error with its name helps more than one with its bounds. */
function checkFields(operation: Operation, given: readonly string[]): void {
  const fields = bodyFields(operation);
  const known = fields.map(({ name }) => name);
  const unknown = given.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw operationError('operation-field-unknown', {
      operation: operation.name,
      field: unknown,
      nearest: nearest(unknown, known),
      known,
    });
  }
  const missing = fields.filter(({ name, required }) => required && !given.includes(name));
  if (missing.length > 0) {
    throw operationError('operation-body-missing', {
      operation: operation.name,
      fields: missing.map(({ name }) => name),
    });
  }
}

async function bodyText(
  given: string,
  { stdin, surroundings }: Pick<CommandContext, 'stdin' | 'surroundings'>,
): Promise<{ text: string; source: string }> {
  if (given.trimStart().startsWith('{')) return { text: given, source: 'the command line' };
  const source = given === '-' ? 'standard input' : given;
  const fail = (reason: string) => operationError('operation-body-unreadable', { source, reason });
  try {
    const bytes =
      given === '-' ? await piped(stdin()) : await readFile(path.resolve(surroundings.cwd, given));
    if (bytes.length > MOST_BODY_BYTES) throw fail(`more than ${MOST_BODY_BYTES} bytes`);
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), source };
  } catch (error) {
    const reason = errnoOf(error);
    if (reason !== undefined) throw fail(reason);
    // Bytes that are no UTF-8 would be sent as something else.
    if (error instanceof TypeError) throw fail('it is not UTF-8');
    throw error;
  }
}

async function piped(stdin: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    chunks.push(bytes);
    if (length > MOST_BODY_BYTES) break;
  }
  return Buffer.concat(chunks);
}

function objectIn(text: string, source: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The parser's own words quote the text, and with it mail.
    throw operationError('operation-body-no-object', { source, ...placeOf(text) });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw operationError('operation-body-no-object', { source, line: null, column: null });
}

function placeOf(text: string): { line: number; column: number } {
  const before = text.slice(0, jsonErrorOffset(text) ?? 0).split('\n');
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 };
}
