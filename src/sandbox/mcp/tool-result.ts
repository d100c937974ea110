import type { CallToolResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { AnswerTooLarge, type Forwarded, MOST_ANSWER_BYTES } from './forward.ts';

const jsonObject = z.record(z.string(), z.unknown());

/**
 * What a tool answers: the surface's JSON as text and as structured content, raw bytes as a resource.
 *
 * @param output what the structured content must be; null where the answer is bytes
 */
export function toolResult(
  { status, contentType, bytes }: Forwarded,
  uri: string,
  output: z.ZodObject | null,
): CallToolResult {
  if (status >= 400) return failure(bytes.toString('utf8'));
  if (output !== null) {
    const json = status === 204 ? { data: null } : readJson(contentType, bytes);
    // A page of a proxy, or an answer that broke: a client that checks the output must not get it as one.
    return output.safeParse(json).success ? structured(json) : failure(NOT_AN_ANSWER);
  }
  return { content: [{ type: 'resource', resource: resource(uri, contentType, bytes) }] };
}

/** A tool error for an answer that did not arrive. */
export function unanswered(error: unknown): CallToolResult {
  const envelope =
    error instanceof AnswerTooLarge
      ? {
          error: 'The answer is too large for a tool result',
          code: 'ERR_ANSWER_TOO_LARGE',
          params: { maxBytes: MOST_ANSWER_BYTES },
        }
      : { error: 'The service could not be asked', code: 'ERR_UPSTREAM_UNREACHABLE', params: {} };
  return failure(JSON.stringify(envelope));
}

function structured(value: unknown): CallToolResult {
  const content: CallToolResult['content'] = [{ type: 'text', text: JSON.stringify(value) }];
  const read = jsonObject.safeParse(value);
  return read.success ? { content, structuredContent: read.data } : { content };
}

/** The error envelope of the surface as it came. */
function failure(envelope: string): CallToolResult {
  return { isError: true, content: [{ type: 'text', text: envelope }] };
}

const NOT_AN_ANSWER = JSON.stringify({
  error: 'The service answered something other than the interface describes',
  code: 'ERR_UPSTREAM_UNREADABLE',
  params: {},
});

/** Undefined where it is no JSON. */
function readJson(contentType: string, bytes: Buffer): unknown {
  if (!/^application\/json\b/.test(contentType)) return undefined;
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Bytes that are UTF-8 stand as text, which a model can read; it is exact, since decoding them loses nothing. */
function resource(
  uri: string,
  contentType: string,
  bytes: Buffer,
): { uri: string; mimeType: string } & ({ text: string } | { blob: string }) {
  const mimeType = contentType.split(';', 1)[0] ?? contentType;
  const text = utf8(bytes);
  return text === null
    ? { uri, mimeType, blob: bytes.toString('base64') }
    : { uri, mimeType, text };
}

function utf8(bytes: Buffer): string | null {
  // A zero byte is valid UTF-8 and hardly ever text.
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
