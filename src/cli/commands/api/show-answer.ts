import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Bytes } from '../../../api/answers.ts';
import type { RawAnswer } from '../../../api/surface-client.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import { decodeIfFits } from '../../../wire/codec.ts';
import { mailboxPagination } from '../../../wire/mailbox-records.ts';
import type { Operation } from '../../../wire/operation.ts';
import { platformMeta } from '../../../wire/platform-records.ts';
import { bytes, count } from '../../../wording/amounts.ts';
import { jsonLine, visibleJson } from '../../../wording/json.ts';
import type { CommandContext } from '../../context.ts';

/**
 * Writes an answer to a file that only its owner can read (0600), replacing an existing one: the complete answer or
 * nothing. Anything that is not a regular file (a pipe, /dev/null) is written to directly.
 *
 * @throws usage-save-failed
 */
export async function writeAnswerFile(
  file: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  try {
    if (await isSpecial(file)) return await fill(await open(file, 'w'), chunks);
    const temporary = `${file}.${randomUUID()}.tmp`;
    try {
      await fill(await open(temporary, 'wx', 0o600), chunks);
      await rename(temporary, file);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  } catch (error) {
    const reason = errnoOf(error);
    throw reason === undefined ? error : usageError('usage-save-failed', { file, reason });
  }
}

/** Links count as special: what they point to is replaced, not they. */
async function isSpecial(file: string): Promise<boolean> {
  try {
    return !(await lstat(file)).isFile();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function fill(
  handle: FileHandle,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  try {
    for await (const chunk of chunks) await handle.writeFile(chunk);
  } finally {
    await handle.close();
  }
}

/** Some of what was asked for was done, and the answer names what was not. */
const PARTLY = 207;
const ACCEPTED = 202;

/**
 * Shows an answer as it came: JSON as one object, bytes untouched. 202 and 207 are said, and so is an answer
 * without content.
 *
 * @param file where to write it; null for standard output
 * @returns 1 for 207
 */
export async function showAnswer(
  context: CommandContext,
  operation: Operation,
  answer: RawAnswer,
  file: string | null,
): Promise<ExitCode> {
  if (answer.kind === 'bytes') await showBytes(context, operation, answer.body, file);
  else await showObject(context, operation, answer, file);
  return answer.status === PARTLY ? EXIT.failures : EXIT.done;
}

async function showBytes(
  context: CommandContext,
  operation: Operation,
  body: Bytes,
  file: string | null,
): Promise<void> {
  try {
    const chunks = body.kind === 'buffer' ? [body.bytes] : createReadStream(body.path);
    if (file === null) {
      for await (const chunk of chunks) await context.output.bytes(chunk);
      return;
    }
    const size = body.kind === 'buffer' ? body.bytes.length : body.size;
    await writeAnswerFile(path.resolve(context.surroundings.cwd, file), chunks);
    await saved(context, operation, 200, file, size);
  } finally {
    if (body.kind === 'file') await rm(body.path, { force: true });
  }
}

async function showObject(
  context: CommandContext,
  operation: Operation,
  answer: Exclude<RawAnswer, { kind: 'bytes' }>,
  file: string | null,
): Promise<void> {
  const { output, notices, surroundings } = context;
  const { status } = answer;
  const object = objectOf(answer);
  if (file !== null) {
    const text = Buffer.from(`${jsonLine(object)}\n`);
    await writeAnswerFile(path.resolve(surroundings.cwd, file), [text]);
    await saved(context, operation, status, file, text.length);
  } else {
    await output.object(object, () =>
      answer.kind === 'empty' ? `${operation.name}: done (${status})` : visibleJson(answer.json, 2),
    );
  }
  if (status === ACCEPTED) {
    notices.say(
      'Accepted (202): the service finishes it later. Check the result; do not send it again.',
    );
  }
  if (status === PARTLY) {
    notices.warn('only partly done (207); the answer names what failed.');
  }
  const page = answer.kind === 'json' ? pageNotice(operation, answer.json) : null;
  if (page !== null) notices.say(page);
}

/** Returns the body of 200 and 201 as it came; for other statuses, also what they mean. */
function objectOf(answer: Exclude<RawAnswer, { kind: 'bytes' }>): unknown {
  const { status } = answer;
  const body = answer.kind === 'json' ? answer.json : null;
  if (status === ACCEPTED) return { status, accepted: true, answer: body };
  if (answer.kind === 'empty') return { status };
  return status === PARTLY && typeof body === 'object' ? { status, ...body } : body;
}

async function saved(
  { output }: CommandContext,
  operation: Operation,
  status: number,
  savedAs: string,
  size: number,
): Promise<void> {
  await output.object(
    { operation: operation.name, status, savedAs, bytes: size },
    () => `Written to ${savedAs}: ${bytes(size)}.`,
  );
}

/** Where a page stands among the others; null where it is the only one. */
function pageNotice(operation: Operation, json: unknown): string | null {
  const place = operation.response.kind === 'page' ? placeOf(operation, json) : null;
  if (place === null) return null;
  const { page, perPage, total } = place;
  if (total <= perPage && page === 1) return null;
  const pages = Math.ceil(total / perPage);
  const next = page < pages ? ` The next: --param page=${page + 1}` : '';
  return `Page ${count(page)} of ${count(pages)}, ${count(total)} in all.${next}`;
}

function placeOf(
  { surface }: Operation,
  json: unknown,
): { readonly page: number; readonly perPage: number; readonly total: number } | null {
  if (typeof json !== 'object' || json === null) return null;
  if (surface === 'mailbox') {
    return 'pagination' in json ? (decodeIfFits(mailboxPagination, json.pagination) ?? null) : null;
  }
  const meta = 'meta' in json ? decodeIfFits(platformMeta, json.meta) : undefined;
  return meta === undefined
    ? null
    : { page: meta.current_page, perPage: meta.per_page, total: meta.total };
}
