import { createHash } from 'node:crypto';
import { globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, vi } from 'vitest';
import { SessionStore } from '../../src/web/sessions.ts';
import { startWebServer, type WebServer, type WebServerOptions } from '../../src/web/web-server.ts';
import { mailkeep } from '../cli/child.ts';

export const NOW = Date.UTC(2026, 10, 20, 12);

/** Answers stop counting when their time is up. For the rest of a test it never is, however busy the machine. */
export function withoutHaste(): void {
  vi.spyOn(performance, 'now').mockReturnValue(performance.now());
}

/** Imports messages into a new archive; returns its folder. */
export async function archiveOf(
  letters: Readonly<Record<string, string | Buffer>>,
): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-web-'));
  const mail = path.join(folder, 'letters');
  mkdirSync(mail);
  for (const [name, source] of Object.entries(letters))
    writeFileSync(path.join(mail, `${name}.eml`), source);
  const data = path.join(folder, 'archive');
  const { code, stderr } = await mailkeep(['import', '--data', data, '--quiet', mail]);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return data;
}

/** A message of plain text. */
export function letter(subject: string, text: string, headers: readonly string[] = []): string {
  return [
    `Message-ID: <${subject.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}@example.org>`,
    'Date: Mon, 02 Feb 2026 10:00:00 +0000',
    'From: Anna Berg <anna@example.org>',
    'To: bob@example.org',
    `Subject: ${subject}`,
    ...headers,
    'Content-Type: text/plain; charset=utf-8',
    '',
    text,
    '',
  ].join('\r\n');
}

export const idOf = (source: string | Buffer) => createHash('sha256').update(source).digest('hex');

/** Flips one bit of an archive's log, at a share of its length. */
export function flipBit(data: string, share: number): void {
  const [segment = ''] = globSync('log/*.seg', { cwd: data });
  const file = path.join(data, segment);
  const bytes = readFileSync(file);
  const at = Math.floor(bytes.length * share);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  writeFileSync(file, bytes);
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
}

export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends exactly these headers to a server. */
export function askAt(
  { host, port }: { readonly host: string; readonly port: number },
  target: string,
  { method = 'GET', headers = {}, body }: Asked = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = httpRequest({ host, port, method, path: target, headers, agent: false });
    asked.on('error', reject);
    asked.on('response', (response) => {
      buffer(response).then(
        (bytes) =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            bytes,
            text: bytes.toString('utf8'),
          }),
        reject,
      );
    });
    asked.end(body);
  });
}

/** A server with a time of its own, and a client that sends exactly the headers it is given. */
export class Served {
  now = NOW;
  readonly errors: unknown[] = [];
  store = new SessionStore(null);
  dataDir = '';
  /** Of the browser that `get` and `data` are; empty before `startSignedIn`. */
  cookie = '';
  #web: WebServer | undefined;

  get web(): WebServer {
    if (this.#web === undefined) throw new Error('the server was not started');
    return this.#web;
  }

  async start(dataDir: string, more: Partial<WebServerOptions> = {}): Promise<this> {
    this.dataDir = dataDir;
    this.#web = await startWebServer({
      dataDir,
      listen: { host: '127.0.0.1', port: 0 },
      publicUrl: null,
      sessions: this.store,
      accounts: () => new Map(),
      look: async () => false,
      hasDaemon: async () => false,
      state: null,
      now: () => this.now,
      onError: (error) => this.errors.push(error),
      ...more,
    });
    return this;
  }

  async startSignedIn(dataDir: string, more: Partial<WebServerOptions> = {}): Promise<this> {
    await this.start(dataDir, more);
    this.cookie = await this.signIn();
    return this;
  }

  close(): Promise<void> {
    return this.web.close();
  }

  get host(): string {
    return `127.0.0.1:${this.web.address.port}`;
  }

  ask(target: string, asked: Asked = {}): Promise<Answer> {
    return askAt(this.web.address, target, asked);
  }

  /** Opens a page as the browser that is signed in. */
  get(target: string, asked: Omit<Asked, 'headers'> = {}): Promise<Answer> {
    return this.ask(target, { ...asked, headers: { cookie: this.cookie } });
  }

  /** Returns what a script of a page gets. */
  async data(target: string) {
    const { status, text } = await this.ask(target, { headers: this.own() });
    expect([target, status]).toEqual([target, 200]);
    return JSON.parse(text).data;
  }

  /** Sends a form as a browser does. */
  post(
    target: string,
    fields: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    const body = new URLSearchParams(fields).toString();
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    return this.ask(target, { method: 'POST', headers: { ...type, ...headers }, body });
  }

  /** The code at the end of a new sign-in link. */
  code(mailboxes: readonly string[] | null = null): string {
    return this.web.link(mailboxes).replace(/^.*#/, '');
  }

  /** Opens the sign-in page: the cookie and the token that its form needs. */
  async form(headers: Readonly<Record<string, string>> = {}) {
    const answer = await this.ask('/enter', { headers });
    const cookie = cookiesOf(answer)[0] ?? '';
    return { cookie, token: tokenIn(answer.text) };
  }

  /** Types a code on the sign-in page. */
  async enter(code: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    const { cookie, token } = await this.form();
    return this.post('/enter', { code, token }, { cookie, ...headers });
  }

  /** Signs in; returns the cookie to send. */
  async signIn(
    mailboxes: readonly string[] | null = null,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const answer = await this.enter(this.code(mailboxes), headers);
    expect(answer.status).toBe(303);
    return cookiesOf(answer)[0] ?? '';
  }

  /** The headers of a request that a page of this server makes. */
  own(cookie = this.cookie): Record<string, string> {
    return { cookie, 'sec-fetch-site': 'same-origin' };
  }
}

/** The cookies that an answer sets, as `name=value`. */
export function cookiesOf({ headers }: Pick<Answer, 'headers'>): string[] {
  return (headers['set-cookie'] ?? []).map((cookie) => cookie.split(';', 1)[0] ?? '');
}

/** The token of the first form of a page. */
export function tokenIn(html: string): string {
  return /name="token" value="([^"]+)"/.exec(html)?.[1] ?? '';
}

/** Serves an archive to a browser that is signed in, for all tests of a file or a group; none may cause an error. */
export function serveForAll(
  make: () => Promise<string>,
  more: Partial<WebServerOptions> = {},
): Served {
  const served = new Served();
  beforeAll(async () => {
    await served.startSignedIn(await make(), more);
  });
  afterAll(() => served.close());
  beforeEach(() => {
    expect(served.errors).toEqual([]);
  });
  return served;
}

/** The same for one test, which checks the errors itself. */
export async function serve(data: string, more: Partial<WebServerOptions> = {}): Promise<Served> {
  const served = await new Served().startSignedIn(data, more);
  onTestFinished(() => served.close());
  return served;
}
