import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { MAILBOX_OPERATIONS } from '../../wire/mailbox-operations.ts';
import type { Operation } from '../../wire/operation.ts';
import type { MailboxOperationName } from '../../wire/operations.ts';
import { type Forward, openForward } from './forward.ts';
import { toolInput, toolRequest } from './tool-input.ts';
import { TOOL_OUTPUT } from './tool-output.ts';
import { toolResult, unanswered } from './tool-result.ts';

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
  readonly output: (typeof TOOL_OUTPUT)[MailboxOperationName];
}

const TOOLS: readonly Tool[] = Object.entries(MAILBOX_OPERATIONS).map(([name, operation]) => ({
  operation,
  title: titleOf(name),
  input: toolInput(operation),
  output: Object.entries(TOOL_OUTPUT).find(([known]) => known === name)?.[1] ?? null,
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
          return toolResult(
            await forward(request, authorization),
            `mailbox:${request.path}`,
            output,
          );
        } catch (error) {
          return unanswered(error);
        }
      },
    );
  }
  return server;
}
