import { createMcpHandler } from '@modelcontextprotocol/server';
import { readAtMost } from '../core/listener.ts';
import type { ApiToken } from '../core/state.ts';
import { envelope, Refusal } from '../service/surface.ts';
import { TokenQueue } from './content-threads.ts';
import { mcpServer } from './mcp-server.ts';
import { type ToolContext, ToolRefusal } from './mcp-tools.ts';
import { bearerToken, refuseForeign, requireToken, toResponse } from './mirror.ts';

const MAX_BODY_BYTES = 64 * 1024;

interface McpSurfaceOptions {
  readonly use: <T>(
    mailboxes: readonly string[] | null,
    signal: AbortSignal,
    act: (asking: Omit<ToolContext, 'fence'>) => Promise<T>,
  ) => Promise<T>;
  readonly authorize: (secret: string) => ApiToken | undefined;
  readonly onError: (error: unknown) => void;
}

/** Serves the archive over MCP's streamable HTTP transport, without sessions. Each request has its own bearer token. */
export class McpSurface {
  readonly #turns = new TokenQueue();
  readonly #handler = createMcpHandler(
    ({ requestInfo }) => this.#serverFor(requestInfo?.headers.get('authorization') ?? null),
    // There are no changes to subscribe to.
    { maxRequestBodySize: MAX_BODY_BYTES, maxSubscriptions: 0 },
  );

  constructor(private readonly options: McpSurfaceOptions) {}

  /** Never rejects: errors become replies. @param ownOrigin origin of this server's pages; others are refused */
  async fetch(request: Request, ownOrigin: string): Promise<Response> {
    try {
      return await this.#answer(request, ownOrigin);
    } catch (error) {
      if (!(error instanceof Refusal)) this.options.onError(error);
      return toResponse(envelope(error));
    }
  }

  async close(): Promise<void> {
    await this.#handler.close();
  }

  async #answer(request: Request, ownOrigin: string): Promise<Response> {
    refuseForeign(request, ownOrigin);
    const header = request.headers.get('authorization');
    const { authorize } = this.options;
    const token = requireToken(header, authorize);
    if (request.method !== 'POST') {
      const message = 'There are no sessions or streams here: every request is a POST';
      throw new Refusal(405, 'ERR_METHOD_NOT_ALLOWED', message, {}, { allow: 'POST' });
    }
    const leave = await this.#turns.enter(token.id);
    try {
      // The token may have been revoked while the request waited.
      requireToken(header, authorize);
      const message = await oneMessage(request);
      // The client has disconnected, so the turn goes to the token's other requests.
      if (request.signal.aborted) throw new Refusal(400, 'ERR_LEFT', 'The client has left');
      const answer = await this.#handler.fetch(message);
      const { status, headers } = answer;
      // The SDK allows caches to keep a stream, but this one contains mail.
      headers.set('cache-control', 'no-store');
      const bytes = await answer.arrayBuffer();
      return new Response(bytes.byteLength === 0 ? null : bytes, { status, headers });
    } finally {
      leave();
    }
  }

  #serverFor(header: string | null): ReturnType<typeof mcpServer> {
    const { use, authorize, onError } = this.options;
    return mcpServer(async (signal, act) => {
      const { mailboxes } = requireToken(header, authorize);
      const answer = await use(mailboxes, signal, act);
      if (bearerToken(header, authorize) === undefined)
        throw new ToolRefusal('The token was revoked.');
      return answer;
    }, onError);
  }
}

/**
 * Reads the body before the SDK can, because the SDK would answer all messages in an array concurrently, in one turn.
 * The protocol dropped batches in its 2025-06-18 revision.
 *
 * @throws Refusal for an array, and for a body that is too large or incomplete
 */
async function oneMessage(request: Request): Promise<Request> {
  const { url, method, headers, signal } = request;
  const maxBytes = MAX_BODY_BYTES;
  const bytes = await readAtMost(request, maxBytes).catch(() => {
    // The client has disconnected.
    throw new Refusal(400, 'ERR_BODY_INCOMPLETE', 'The body did not come to its end');
  });
  if (bytes === null)
    throw new Refusal(413, 'ERR_BODY_TOO_LARGE', 'The body is too large', { maxBytes });
  // Drops a byte order mark.
  const body = new TextDecoder().decode(bytes);
  if (body.trimStart().startsWith('['))
    throw new Refusal(400, 'ERR_BATCH', 'Batches are not supported: every request is one message');
  return new Request(url, { method, headers, signal, body });
}
