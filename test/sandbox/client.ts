import { Pool } from 'undici';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Buffer;
  /** The body as JSON; undefined where it is none. */
  readonly json: unknown;
}

export interface Request {
  readonly body?: unknown;
  /** Sent as it is, instead of `body`. */
  readonly raw?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Null sends no Authorization header. */
  readonly token?: string | null;
}

/** A running service and a plain HTTP client for it that knows nothing of the service's code. */
export interface Served {
  readonly sandbox: Sandbox;
  /** `/api/v1/mailboxes/{first mailbox}` */
  readonly m: string;
  call(route: string, request?: Request): Promise<Answer>;
  close(): Promise<void>;
}

export async function serve(options: SandboxOptions = {}): Promise<Served> {
  const sandbox = await startSandbox(options);
  const pool = new Pool(sandbox.mailboxUrl, { connections: 4 });
  return {
    sandbox,
    m: `/api/v1/mailboxes/${sandbox.mailboxes[0]?.resourceId ?? ''}`,
    async call(route, { body, raw, headers, token = sandbox.tokens.mailbox } = {}) {
      const [method = '', path = ''] = route.split(' ');
      const answer = await pool.request({
        method: httpMethod(method),
        path,
        headers: {
          ...(body === undefined && raw === undefined
            ? {}
            : { 'content-type': 'application/json' }),
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...headers,
        },
        body: raw ?? (body === undefined ? null : JSON.stringify(body)),
      });
      const bytes = Buffer.from(await answer.body.arrayBuffer());
      return {
        status: answer.statusCode,
        headers: answer.headers,
        bytes,
        json: parsed(bytes),
      };
    },
    async close() {
      await pool.close();
      await sandbox.close();
    },
  };
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

function httpMethod(name: string): Method {
  switch (name) {
    case 'GET':
    case 'POST':
    case 'PUT':
    case 'PATCH':
    case 'DELETE':
    case 'OPTIONS':
      return name;
    default:
      throw new Error(`no method ${name}`);
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

/** A small message in CRLF lines. */
export function mail(subject: string, ...more: readonly string[]): string {
  return [
    `Subject: ${subject}`,
    'From: Somebody <somebody@example.net>',
    ...more,
    '',
    `About ${subject}.`,
    '',
  ].join('\r\n');
}

/** Delivers mail to INBOX of the first mailbox, as if it came from outside, in order; uids follow from 1. */
export function fill({ sandbox }: Served, sources: readonly string[], folder = 'INBOX'): void {
  const { store } = sandbox.service;
  const mailbox = store.mailboxes.get(sandbox.mailboxes[0]?.resourceId ?? '');
  if (mailbox === undefined) throw new Error('no mailbox');
  sources.forEach((source, index) => {
    store.add(
      store.folderFor(mailbox, folder),
      Buffer.from(source, 'latin1'),
      Date.UTC(2026, 0, 1 + index),
      [],
    );
  });
}

/** The same service without any mail in it. */
export function serveEmpty(options: SandboxOptions = {}): Promise<Served> {
  return serve({ mail: { messages: 0 }, ...options });
}
