import { type CallToolResult, Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { program } from '../../cli/child.ts';
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
