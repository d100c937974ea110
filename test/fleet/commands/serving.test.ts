import { createInterface } from 'node:readline';
import {
  type CallToolResult,
  Client,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep, program, start } from '../../cli/child.ts';
import { cookiesOf, tokenIn } from '../../web/served.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import type { Place } from './place.ts';
import { accountsOf, addAccounts, freeAddress, nodeOf, RunningWorker } from './running-worker.ts';

const skipped = withoutServers();

let servers: Servers;
let sandbox: Sandbox;
/** One has a worker; two has none, and no copy of anything. */
let one: Place;
let two: Place;
let worker: RunningWorker;
/** The folder of the account at the node that holds it. */
let data: string;

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
  sandbox = await startSandbox({ seed: 1 });
  one = await nodeOf(servers, 'one', { fleet: { address: await freeAddress() } });
  two = await nodeOf(servers, 'two', { first: one, fleet: { address: await freeAddress() } });
  const names = [...(await addAccounts(one, sandbox)).keys()];
  worker = new RunningWorker(one);
  await worker.said('run finished', names.length);
  const held = (await accountsOf(two)).find(({ account }) => account === 'account-0');
  data = `${one.folder}/cache/${held?.archive}`;
}, 120_000);
afterAll(async () => {
  await worker?.end('SIGKILL');
  for (const place of [one, two]) place?.remove();
  await sandbox?.close();
  await servers?.stop();
});

describe.skipIf(skipped)('an assistant at any node', () => {
  test('is answered by the holder, in one conversation', async () => {
    const asked = async (place: Place, ...which: string[]) => {
      const client = new Client({ name: 'test', version: '1.0.0' });
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: [program, 'mcp', ...which],
        ...{ cwd: place.folder, env: place.env, stderr: 'pipe' },
      });
      await client.connect(transport);
      const answers: CallToolResult[] = [];
      const call = async (name: string, args: Record<string, unknown>) => {
        const answer = await client.callTool({ name, arguments: args });
        answers.push(answer);
        return Object(answer.structuredContent);
      };
      const { messages } = await call('search', { query: '', limit: 5 });
      for (const { id } of messages) await call('get_message', { id });
      await call('list_folders', {});
      await call('search', { query: 'before:never' });
      await client.close();
      return answers;
    };
    const here = await asked(one, '--data', data);
    const there = await asked(two, '--account', 'account-0');
    expect(here.length).toBeGreaterThan(3);
    // What marks text of senders is random.
    const withoutMarks = (answers: object) =>
      JSON.stringify(answers).replace(/\b[0-9a-f]{24}\b/g, 'mark');
    expect(withoutMarks(there)).toEqual(withoutMarks(here));
  }, 60_000);
});

const announced = z.object({ url: z.url(), signInUrl: z.url(), apiUrl: z.url(), mcpUrl: z.url() });

/** `mailkeep web` at a node, and what a browser does with it. */
class Web {
  cookie = '';

  private constructor(
    readonly at: z.output<typeof announced>,
    readonly running: ReturnType<typeof start>,
  ) {}

  static async start(place: Place, ...which: readonly string[]): Promise<Web> {
    const args = ['web', '--json', '--listen', '127.0.0.1:0', ...which];
    const running = start(args, { cwd: place.folder, env: place.env });
    onTestFinished(() => void running.child.kill('SIGKILL'));
    const lines = createInterface({ input: running.child.stdout });
    const line = await Promise.race([
      new Promise<string>((resolve) => lines.once('line', resolve)),
      running.ended.then(({ stderr }) => Promise.reject(new Error(stderr))),
    ]);
    return new Web(announced.parse(JSON.parse(line)), running);
  }

  ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { cookie: this.cookie, 'sec-fetch-site': 'same-origin', ...init.headers };
    return fetch(this.at.url + path, { redirect: 'manual', ...init, headers });
  }

  /** Types the code of a link. */
  async signIn(link = this.at.signInUrl): Promise<void> {
    const form = await this.ask('/enter');
    const [cookie = ''] = form.headers.getSetCookie().map((text) => text.split(';', 1)[0] ?? '');
    const body = new URLSearchParams({
      code: link.replace(/^.*#/, ''),
      token: tokenIn(await form.text()),
    });
    const entered = await this.ask('/enter', { method: 'POST', headers: { cookie }, body });
    expect(entered.status).toBe(303);
    const headers = { 'set-cookie': entered.headers.getSetCookie() };
    this.cookie = cookiesOf({ headers })[0] ?? '';
  }

  async text(path: string): Promise<string> {
    const answer = await this.ask(path);
    expect([path, answer.status]).toEqual([path, 200]);
    return await answer.text();
  }
}

/** A page as it is at any time and port. */
const lasting = (page: string, { at }: Web) =>
  page
    .replaceAll(new URL(at.url).host, 'HOST')
    .replace(/name="(?:token|id)" value="[^"]+"/g, 'OWN')
    .replace(/\d{4}-\d\d-\d\dT[\d.:%A-F]+Z|"now":\d+/g, 'NOW')
    .split('<');

describe.skipIf(skipped)('the web interface at any node', () => {
  test('shows what it shows where the archive is', async () => {
    const here = await Web.start(one, '--data', data);
    const there = await Web.start(two, '--account', 'account-0');
    await Promise.all([here.signIn(), there.signIn()]);
    const listed = await mailkeep(['list', '--data', data, '--format', 'ids', '--limit', '1']);
    const id = listed.stdout.trim();
    const paths = [
      ...['/mail', '/mail?q=in:INBOX', '/files', '/export'],
      ...[`/m/${id}`, `/m/${id}?view=headers`, `/m/${id}/source`, '/api/complete?q=fr', '/you'],
    ];
    for (const path of paths) {
      const [near, far] = [await here.text(path), await there.text(path)];
      expect([path, lasting(far, there)]).toEqual([path, lasting(near, here)]);
    }
    // How long ago something was is different a moment later.
    for (const path of ['/dashboard', '/health', '/health/folders'])
      expect(await there.text(path)).toContain('ada@example.org');
    const dark = `${there.cookie}; mailkeep-theme=dark`;
    const inTheDark = await there.ask('/mail', { headers: { cookie: dark } });
    expect(await inTheDark.text()).toContain('data-theme="dark"');
    // A worker mirrors it, of which a page must not say that nobody does.
    const health = await there.text('/health');
    expect(health).not.toContain('No daemon runs');
    expect(health).not.toContain('Check for new mail');
    const zip = await there.ask('/api/export?format=zip&q=in:INBOX');
    const bytes = Buffer.from(await zip.arrayBuffer());
    expect([zip.status, bytes.subarray(0, 2).toString()]).toEqual([200, 'PK']);
    // What only this server asks for is no page.
    expect((await there.ask('/-/mailboxes')).status).toBe(404);
    // Headers are those of any page, and nobody who is not signed in learns anything.
    const page = await there.ask('/mail');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    for (const path of ['/mail', '/-/mailboxes', '/nothing']) {
      const answer = await there.ask(path, { headers: { cookie: '' } });
      expect([path, answer.status, answer.headers.get('location')]).toEqual([path, 303, '/enter']);
    }
  }, 60_000);

  test('knows tokens at this node, ends what it sends to whom it no longer knows, and finds the next holder', async () => {
    const account = ['--account', 'account-0'];
    const at = (...args: string[]) => mailkeep(args, { cwd: two.folder, env: two.env });
    const there = await Web.start(two, ...account);
    await there.signIn();
    const created = await at('token', 'create', '--name', 'laptop', '--json', ...account);
    const { secret } = z.object({ secret: z.string() }).parse(JSON.parse(created.stdout));
    const asked = async (authorization: string) => {
      const answer = await fetch(`${there.at.apiUrl}/api/v1/me`, {
        headers: { authorization },
      });
      return { status: answer.status, text: await answer.text() };
    };
    const known = await asked(`Bearer ${secret}`);
    expect([known.status, JSON.parse(known.text)]).toEqual([200, expect.anything()]);
    // Who asks is believed where the archive is, so nobody can say it from outside.
    const forged = Buffer.from('{"session":null}').toString('base64url');
    for (const wrong of ['', `Bearer ${forged}`, 'Bearer mk_wrong'])
      expect([wrong, (await asked(wrong)).status]).toEqual([wrong, 401]);
    const mcp = new Client({ name: 'test', version: '1.0.0' });
    const requestInit = { headers: { authorization: `Bearer ${secret}` } };
    await mcp.connect(new StreamableHTTPClientTransport(new URL(there.at.mcpUrl), { requestInit }));
    expect((await mcp.listTools()).tools.length).toBeGreaterThan(5);
    await mcp.close();
    expect((await at('token', 'revoke', 'laptop', ...account)).code).toBe(0);
    expect((await asked(`Bearer ${secret}`)).status).toBe(401);

    // As for every command with --account, no folder is named.
    const inFolder = await at('token', 'list', '--json', ...account, '--data', data);
    expect([inFolder.code, inFolder.stderr]).toEqual([2, expect.stringContaining('--data')]);

    // A link that is limited to a mailbox, of the server that runs.
    const limited = await at(
      'web',
      '--link',
      '--json',
      ...account,
      '--mailbox',
      'nobody@example.org',
    );
    expect([limited.code, limited.stderr]).toEqual([2, expect.stringContaining('ada@example.org')]);
    const other = await at('web', '--link', '--json', ...account, '--mailbox', 'ada@example.org');
    const { signInUrl } = z.object({ signInUrl: z.string() }).parse(JSON.parse(other.stdout));
    const first = there.cookie;
    await there.signIn(signInUrl);
    expect(await there.text('/you')).toContain('ada@example.org');
    expect((await there.ask('/health/runs')).status).toBe(403);

    // A stream ends with its session.
    const events = await there.ask('/api/events');
    const reader = events.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toContain('event: commit');
    const own = { 'x-mailkeep': '1' };
    expect((await there.ask('/api/sign-out', { method: 'POST', headers: own })).status).toBe(200);
    const rest = async () => {
      for (;;) if ((await reader?.read())?.done !== false) return;
    };
    await expect(rest()).rejects.toThrow();

    // The holder is killed, and another one takes over: who is signed in stays so.
    there.cookie = first;
    await worker.end('SIGKILL');
    const next = new RunningWorker(two);
    onTestFinished(() => void next.end('SIGKILL'));
    const node = sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = 'one'`;
    await next.said('session begun');
    await one.registry.statement('let a lease run out', node);
    expect(await there.text('/mail?q=in:INBOX')).toContain('INBOX');
    there.running.child.kill('SIGTERM');
    expect((await there.running.ended).code).toBe(0);
  }, 120_000);
});
