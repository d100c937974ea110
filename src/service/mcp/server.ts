import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { MAILBOX_OPERATIONS } from '../../wire/mailbox-operations.ts';
import type { Operation } from '../../wire/operation.ts';
import { type Forward, openForward } from './forward.ts';
import { toolInput, toolRequest } from './tool-input.ts';
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

interface Tool {
  readonly operation: Operation;
  readonly input: ReturnType<typeof toolInput>;
}

const TOOLS: readonly Tool[] = Object.values(MAILBOX_OPERATIONS).map((operation: Operation) => ({
  operation,
  input: toolInput(operation),
}));

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
  for (const { operation, input } of TOOLS) {
    const note = NOTES[operation.name];
    server.registerTool(
      operation.name,
      {
        description: note === undefined ? `${operation.summary}.` : `${operation.summary}. ${note}`,
        inputSchema: input,
        annotations: {
          readOnlyHint: operation.read && operation.sideEffect === null,
          destructiveHint: operation.destructive,
          openWorldHint: operation.name === 'sendEmail',
        },
      },
      async (args: Readonly<Record<string, unknown>>) => {
        const request = toolRequest(operation, args);
        try {
          return toolResult(await forward(request, authorization), `mailbox:${request.path}`);
        } catch (error) {
          return unanswered(error);
        }
      },
    );
  }
  return server;
}
