import { type CallToolResult, createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { MAILBOX_OPERATIONS } from '../../wire/mailbox-operations.ts';
import type { Operation } from '../../wire/operation.ts';
import {
  AnswerTooLarge,
  type Forward,
  type Forwarded,
  MOST_ANSWER_BYTES,
  openForward,
} from './forward.ts';
import { toolInput, toolOutput, toolRequest } from './tool-schemas.ts';

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

export interface McpService {
  /** Answers one request of the streamable HTTP transport; its token has been checked. */
  fetch(request: Request): Promise<Response>;
  close(): Promise<void>;
}

/** What a summary leaves out and a model has to know. */
const NOTES: Readonly<Record<string, string>> = {
  getCurrentAccount: 'Begin here: every other tool takes the resourceId of a mailbox.',
  createFolder: 'The name is the full path, its parts joined by dots, such as INBOX.Invoices.',
  updateFolder: 'The name is the new full path; subfolders move along.',
  searchMessages:
    'subject, from, to, cc and body are alternatives to each other; all other criteria must hold as well.',
  getMessageText: 'Use getMessage or getMessageSource to look without marking.',
  updateMessageFlags:
    'Give addFlags, removeFlags or both. The answer tells the outcome of each uid.',
  patchMessage: 'Give addFlags, removeFlags or both.',
  sendEmail:
    'Needs to, cc or bcc. Give inReplyTo for a reply or forwardOf for a forward, never both.',
};

/** Tools that reach beyond the service: recipients of mail, and URLs that the caller names. */
const OPEN_WORLD: ReadonlySet<string> = new Set([
  'sendEmail',
  'createWebhook',
  'updateWebhook',
  'testWebhook',
]);

const IDEMPOTENT_METHODS: ReadonlySet<string> = new Set(['GET', 'PUT', 'PATCH', 'DELETE']);
/** POST operations that change nothing more when they are called again with the same arguments. */
const IDEMPOTENT_POSTS: ReadonlySet<string> = new Set([
  'searchMessages',
  'updateMessageFlags',
  'deleteMessages',
]);

interface Tool {
  readonly operation: Operation;
  readonly title: string;
  readonly input: ReturnType<typeof toolInput>;
  readonly output: z.ZodObject | null;
}

const TOOLS: readonly Tool[] = Object.values(MAILBOX_OPERATIONS).map((operation) => ({
  operation,
  title: titleOf(operation.name),
  input: toolInput(operation),
  output: toolOutput(operation),
}));

/** `getMessageSource` is "Get message source". */
function titleOf(name: string): string {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The mailbox surface as tools, one for each operation and named after it. */
export function openMcpService(baseUrl: string, maxBodyBytes: number): McpService {
  const { forward, close } = openForward(baseUrl);
  const handler = createMcpHandler(
    ({ requestInfo }) => serverFor(forward, requestInfo?.headers.get('authorization') ?? ''),
    { maxRequestBodySize: maxBodyBytes },
  );
  return {
    fetch: (request) => handler.fetch(request),
    close: async () => {
      await handler.close();
      await close();
    },
  };
}

/** A server for one request: it knows no token but the caller's. */
function serverFor(forward: Forward, authorization: string): McpServer {
  const server = new McpServer(
    { name: 'mailkeep-sandbox', version: '1.2.2' },
    { instructions: 'Mailboxes of a hosted mail service: read, search, organise and send mail.' },
  );
  for (const { operation, title, input, output } of TOOLS) {
    const note = NOTES[operation.name];
    server.registerTool(
      operation.name,
      {
        title,
        description: note === undefined ? `${operation.summary}.` : `${operation.summary}. ${note}`,
        inputSchema: input,
        ...(output === null ? {} : { outputSchema: output }),
        annotations: {
          title,
          readOnlyHint: operation.read && operation.sideEffect === null,
          destructiveHint: operation.destructive,
          idempotentHint:
            IDEMPOTENT_METHODS.has(operation.method) || IDEMPOTENT_POSTS.has(operation.name),
          openWorldHint: OPEN_WORLD.has(operation.name),
        },
      },
      async (args: Readonly<Record<string, unknown>>) => {
        const request = toolRequest(operation, args);
        try {
          const answer = await forward(request, authorization);
          return toolResult(answer, `mailbox:${request.path}`, output);
        } catch (error) {
          return unanswered(error);
        }
      },
    );
  }
  return server;
}
