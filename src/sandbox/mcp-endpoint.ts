import type { IncomingMessage, ServerResponse } from 'node:http';
import { envelope, Refusal, unauthorized } from '../service/surface.ts';
import type { Surface } from './http.ts';
import { sendReady } from './http.ts';
import type { ServiceState } from './sandbox.ts';

/** Offers the Mailbox API as MCP tools, at `/mcp`. Loads the MCP library for the first authorized request. */
export class McpEndpoint implements Surface {
  readonly prefix = '/mcp';
  readonly refusal = envelope;
  #opened: ReturnType<typeof open> | null = null;

  /** @param baseUrl returns the URL of the Mailbox API, which is known once the service listens */
  constructor(
    private readonly service: ServiceState,
    private readonly baseUrl: () => string,
  ) {}

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#answer(request, response).catch((error: unknown) => {
      if (!(error instanceof Refusal)) this.service.report(error);
      if (response.headersSent) response.destroy();
      else sendReady(response, envelope(error));
    });
  }

  async close(): Promise<void> {
    if (this.#opened !== null) await (await this.#opened).close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const service = this.service;
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    if (path !== '/mcp' && path !== '/mcp/') {
      throw new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
    }
    const { origin } = request.headers;
    if (origin !== undefined && !isOwn(origin, this.baseUrl())) {
      throw new Refusal(
        403,
        'ERR_FORBIDDEN_ORIGIN',
        'A web page of another origin may not call these tools',
      );
    }
    if (
      service.tokens.authorize(request.headers.authorization, 'mailbox', service.now()) === null
    ) {
      throw unauthorized('The token is missing, malformed, expired or revoked');
    }
    this.#opened ??= open(this.baseUrl(), service);
    await (await this.#opened).handle(request, response);
  }
}

/**
 * True for a page of the service itself, under either loopback name. Other pages may use DNS rebinding (MCP,
 * "Streamable HTTP", security warning).
 */
function isOwn(origin: string, baseUrl: string): boolean {
  const { port } = new URL(baseUrl);
  return origin === baseUrl || origin === `http://localhost:${port}`;
}

async function open(baseUrl: string, service: ServiceState) {
  const [{ getRequestListener }, { openMcpService }] = await Promise.all([
    import('@hono/node-server'),
    import('./mcp.ts'),
  ]);
  const mcp = openMcpService(baseUrl, service.settings.maxBodyBytes);
  const handle = getRequestListener((request) => mcp.fetch(request), {
    overrideGlobalObjects: false,
  });
  return { handle, close: () => mcp.close() };
}
