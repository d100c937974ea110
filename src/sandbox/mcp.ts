import { type CallToolResult, createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { Pool } from 'undici';
import { z } from 'zod';
import { MAILBOX_OPERATIONS } from '../service/mailbox-wire.ts';
import type { MailboxOperationName } from '../service/platform-wire.ts';
import { type Operation, type Param, readParam } from '../service/wire.ts';

interface Forwarded {
  readonly status: number;
  readonly contentType: string;
  readonly bytes: Buffer;
}

type Forward = ReturnType<typeof openForward>['forward'];

/** A client must hold a response in memory as one JSON string, so larger ones are refused. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

class AnswerTooLarge extends Error {}

/**
 * Sends requests to the Mailbox API with the caller's token, so that its permissions, limits, faults and request log
 * apply. Cannot reach anything else.
 */
function openForward(baseUrl: string) {
  const pool = new Pool(baseUrl, { connections: 8 });
  return {
    forward: async (
      { method, path, body }: ToolRequest,
      authorization: string,
    ): Promise<Forwarded> => {
      const answer = await pool.request({
        method,
        path,
        headers: { 'content-type': 'application/json', authorization },
        ...(body === null ? {} : { body }),
      });
      const chunks: Buffer[] = [];
      let length = 0;
      for await (const chunk of answer.body) {
        if (!Buffer.isBuffer(chunk)) continue;
        length += chunk.length;
        if (length > MAX_ANSWER_BYTES) throw new AnswerTooLarge();
        chunks.push(chunk);
      }
      return {
        status: answer.statusCode,
        contentType: String(answer.headers['content-type'] ?? ''),
        bytes: Buffer.concat(chunks, length),
      };
    },
    close: () => pool.destroy(),
  };
}

function toolInput(operation: Operation): z.ZodObject {
  const fields: Record<string, z.ZodType> = {};
  for (const param of operation.params) fields[param.name] = paramSchema(param);
  // The API checks the rules that apply to the body as a whole.
  return z.strictObject({ ...fields, ...bodyFields(operation) });
}

function paramSchema(param: Param): z.ZodType {
  const schema = (param.type === 'integer' ? integer(param) : string(param)).describe(param.help);
  return param.required ? schema : schema.optional();
}

function integer({ min, max }: Extract<Param, { type: 'integer' }>): z.ZodInt {
  const low = min === undefined ? z.int() : z.int().min(min);
  return max === undefined ? low : low.max(max);
}

function string({ values, minLength }: Extract<Param, { type: 'string' }>): z.ZodType {
  return values === undefined ? z.string().min(minLength ?? 0) : z.enum(values);
}

function bodyFields({ body }: Operation): Readonly<Record<string, z.core.$ZodType>> {
  return body instanceof z.ZodObject ? body.shape : {};
}

interface ToolRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string | null;
}

function toolRequest(operation: Operation, input: Readonly<Record<string, unknown>>): ToolRequest {
  let { path } = operation;
  const query = new URLSearchParams();
  for (const param of operation.params) {
    const value = input[param.name];
    if (typeof value !== 'string' && typeof value !== 'number') continue;
    const parsed = readParam(param, value);
    const text = String(parsed.ok ? parsed.value : value);
    if (param.in === 'path') path = path.replace(`{${param.name}}`, () => encodeURIComponent(text));
    else query.set(param.name, text);
  }
  const body: Record<string, unknown> = {};
  for (const name of Object.keys(bodyFields(operation))) {
    if (input[name] !== undefined) body[name] = input[name];
  }
  return {
    method: operation.method,
    path: query.size === 0 ? path : `${path}?${query}`,
    body: operation.body === null ? null : JSON.stringify(body),
  };
}

/** Strict tool result schemas for clients that check them. The schemas of the service's client are too lenient. */

const time = z.iso.datetime();
const count = z.int().min(0);
const uid = z.int().min(1);
const address = z.object({ name: z.string(), address: z.string() });

const folder = z.object({
  path: z.string(),
  name: z.string(),
  delimiter: z.string(),
  specialUse: z.string().nullable().describe('RFC 6154 attribute, such as \\Sent'),
  messageCount: count,
  unreadCount: count,
});

const message = z.object({
  uid,
  path: z.string().describe('full path of the folder'),
  date: time.describe('when the message was received'),
  flags: z.array(z.string()),
  unseen: z.boolean(),
  size: count.describe('bytes of the raw source'),
  subject: z.string().nullable(),
  from: address.nullable(),
  to: z.array(address),
  cc: z.array(address),
  bcc: z.array(address),
  messageId: z.string().nullable(),
  inReplyTo: z.string().nullable(),
  attachments: z.array(
    z.object({
      id: z.string(),
      contentType: z.string(),
      sizeBytes: count,
      inline: z.boolean(),
      filename: z.string().nullable(),
      contentId: z.string().nullable(),
    }),
  ),
});

const webhook = z.object({
  id: z.string(),
  accountResourceId: z.string(),
  mailbox: z.string(),
  name: z.string(),
  description: z.string().nullable(),
  events: z.array(z.string()),
  status: z.string(),
  url: z.string(),
  createdAt: time,
  updatedAt: time,
});
const webhookWithSecret = webhook.extend({ secret: z.string() });

const usage = { usage: count, limit: count, percentage: count };
const quota = z.object({
  quotas: z.array(z.object({ resourceName: z.string(), ...usage })),
  totalUsage: count,
  totalLimit: count,
  totalPercentage: count,
  supported: z.boolean(),
});

const account = z.object({
  orderResourceId: z.string(),
  mailboxes: z.array(z.object({ resourceId: z.string(), address: z.string() })),
});
const flagsResult = z.object({
  successful: z.array(uid),
  failed: z.array(z.object({ uid, reason: z.string() })),
});
const messageText = z.object({ text: z.string(), html: z.string() });
const webhookTest = z.object({
  httpStatus: z.int().describe('0 where no answer came'),
  success: z.boolean(),
  error: z.string().nullable(),
});

const item = (record: z.ZodType) => z.object({ data: record });
const page = (record: z.ZodType) =>
  z.object({
    data: z.array(record),
    pagination: z.object({ page: count, perPage: count, total: count, totalPages: count }),
  });
const empty = z.object({ data: z.null() });

const OUTPUT: Readonly<Record<string, z.ZodObject>> = {
  getCurrentAccount: item(account),
  getQuota: item(quota),
  listFolders: page(folder),
  createFolder: item(folder),
  updateFolder: item(folder),
  listMessages: page(message),
  searchMessages: page(message),
  updateMessageFlags: item(flagsResult),
  getMessage: item(message),
  patchMessage: item(message),
  getMessageText: item(messageText),
  listWebhooks: page(webhook),
  createWebhook: item(webhookWithSecret),
  getWebhook: item(webhook),
  updateWebhook: item(webhook),
  regenerateWebhookSecret: item(webhookWithSecret),
  testWebhook: item(webhookTest),
} satisfies Partial<Record<MailboxOperationName, z.ZodObject>>;

/** Returns a tool's output schema, or null for bytes, which are sent as an embedded resource. */
function toolOutput({ name, response }: Operation): z.ZodObject | null {
  return response.kind === 'bytes' ? null : (OUTPUT[name] ?? empty);
}

const jsonObject = z.record(z.string(), z.unknown());

/**
 * Returns JSON as text and structured content, and bytes as a resource.
 *
 * @param output schema of the structured content, or null for bytes
 */
function toolResult(
  { status, contentType, bytes }: Forwarded,
  uri: string,
  output: z.ZodObject | null,
): CallToolResult {
  if (status >= 400) return failure(bytes.toString('utf8'));
  if (output !== null) {
    const json = status === 204 ? { data: null } : readJson(contentType, bytes);
    // This may be a proxy's page or a broken response. Clients that check the output must not receive it.
    return output.safeParse(json).success ? structured(json) : failure(NOT_AN_ANSWER);
  }
  return { content: [{ type: 'resource', resource: resource(uri, contentType, bytes) }] };
}

function noResponseError(error: unknown): CallToolResult {
  const envelope =
    error instanceof AnswerTooLarge
      ? {
          error: 'The answer is too large for a tool result',
          code: 'ERR_ANSWER_TOO_LARGE',
          params: { maxBytes: MAX_ANSWER_BYTES },
        }
      : { error: 'The service could not be asked', code: 'ERR_UPSTREAM_UNREACHABLE', params: {} };
  return failure(JSON.stringify(envelope));
}

function structured(value: unknown): CallToolResult {
  const content: CallToolResult['content'] = [{ type: 'text', text: JSON.stringify(value) }];
  const read = jsonObject.safeParse(value);
  return read.success ? { content, structuredContent: read.data } : { content };
}

/** @param envelope envelope of the API, passed on unchanged */
function failure(envelope: string): CallToolResult {
  return { isError: true, content: [{ type: 'text', text: envelope }] };
}

const NOT_AN_ANSWER = JSON.stringify({
  error: 'The service answered something other than the interface describes',
  code: 'ERR_UPSTREAM_UNREADABLE',
  params: {},
});

function readJson(contentType: string, bytes: Buffer): unknown {
  if (!/^application\/json\b/.test(contentType)) return undefined;
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Returns UTF-8 as text, which a model can read without loss, and other bytes as a blob. */
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
  // A zero byte is valid UTF-8 but rarely text.
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

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

/** Tools that reach beyond the service: to mail recipients, or to URLs from the caller. */
const OPEN_WORLD: ReadonlySet<string> = new Set([
  'sendEmail',
  'createWebhook',
  'updateWebhook',
  'testWebhook',
]);

const IDEMPOTENT_METHODS: ReadonlySet<string> = new Set(['GET', 'PUT', 'PATCH', 'DELETE']);
const IDEMPOTENT_POSTS: ReadonlySet<string> = new Set([
  'searchMessages',
  'updateMessageFlags',
  'deleteMessages',
]);

const TOOLS = Object.values(MAILBOX_OPERATIONS).map((operation) => ({
  operation,
  title: titleOf(operation.name),
  input: toolInput(operation),
  output: toolOutput(operation),
}));

/** Turns `getMessageSource` into "Get message source". */
function titleOf(name: string): string {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function openMcpService(baseUrl: string, maxBodyBytes: number) {
  const { forward, close } = openForward(baseUrl);
  const handler = createMcpHandler(
    ({ requestInfo }) => serverFor(forward, requestInfo?.headers.get('authorization') ?? ''),
    { maxRequestBodySize: maxBodyBytes },
  );
  return {
    /** Handles a request over the streamable HTTP transport. The caller has checked its token. */
    fetch: (request: Request): Promise<Response> => handler.fetch(request),
    close: async () => {
      await handler.close();
      await close();
    },
  };
}

/** Creates a server for one request, which holds only the caller's token. */
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
          return noResponseError(error);
        }
      },
    );
  }
  return server;
}
