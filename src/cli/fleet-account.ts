import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { link, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { SearchHit } from '../catalog/search.ts';
import { sleep, systemClock } from '../core/concurrency.ts';
import { usageError } from '../core/error-tables.ts';
import { EXIT, type ExitCode, errnoOf, MailkeepError } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { fleetError } from '../fleet/errors.ts';
import { addGrant, revokeGrant, routesOf } from '../fleet/grants.ts';
import { readFleetKeys } from '../fleet/keys.ts';
import { certify } from '../fleet/node-identity.ts';
import type { ListedAccount } from '../fleet/overview.ts';
import type { Registry } from '../fleet/postgres.ts';
import { HolderClient, refusalOf } from '../fleet/relay.ts';
import { readMessage } from '../mail/reading.ts';
import { attachmentLine, saveAttachments } from './commands/attachments.ts';
import { type HistoryLine, printHistoryLine } from './commands/history.ts';
import { hitText } from './commands/search.ts';
import { messageText, printPaged } from './commands/show.ts';
import type { CommandContext } from './context.ts';
import { accountNamed, type OpenFleet, withFleet } from './open-fleet.ts';
import type { AccountOption, ForwardedCommand } from './option-values.ts';

/*
 * The reading commands for an account of a fleet: an HTTP client of the node that holds it. The command makes a token for
 * itself, which is revoked when it ends, so that the registry records who read what.
 */

/** Options that each command takes with `--fleet-account`. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  search: ['--limit', '--sort'],
  list: ['--limit', '--sort', '--mailbox', '--folder', '--deleted'],
  show: ['--raw', '--headers', '--no-pager'],
  attachments: ['--save'],
  history: [],
  export: ['--to', '--format', '--query'],
  status: [],
  mcp: [],
};
/** A token outlives the longest export. */
const TOKEN_MS = 86_400_000;
/** How long to wait until another node holds the account. */
const PATIENCE_MS = 60_000;
const RETRY_MS = 2_000;
const PAGE = 200;

/** @throws usage-invalid, fleet-account-unknown, fleet-account-ambiguous, and errors of the holder and the registry */
export async function readFleetAccount(
  context: CommandContext,
  which: AccountOption,
  line: ForwardedCommand,
): Promise<ExitCode> {
  const { command, options } = line;
  const [known, run] = [OPTIONS[command] ?? [], COMMANDS[command]];
  if (run === undefined) throw new TypeError(`${command} does not read accounts`);
  const foreign = options.find(([name]) => !name.startsWith('--fleet-') && !known.includes(name));
  if (foreign !== undefined || context.globals.data !== undefined) {
    const option = foreign?.[0] ?? '--data';
    const problem = `${option} cannot be used with --fleet-account: run the command on the node that holds the account.`;
    throw usageError('usage-invalid', { command, problem });
  }
  return withFleet(context, async (open) => {
    const found = await accountNamed(open.registry, which);
    return withAccountReader(context, open, found, command, (reader) => run(reader, context, line));
  });
}

/** Reads an account at the node that holds it, for as long as `act` takes. @param command for the registry's events */
export async function withAccountReader<T>(
  context: CommandContext,
  { config, registry, fleet: { id: fleet } }: OpenFleet,
  found: ListedAccount,
  command: string,
  act: (reader: AccountReader) => Promise<T>,
): Promise<T> {
  const { keyFile, node } = config.fleet;
  const keys = readFleetKeys(keyFile);
  const { id: grant } = await addGrant(registry, keys, {
    ...{ use: 'token', tenant: found.tenant, name: `${command} at ${node}` },
    rights: { accounts: [found.account], mailboxes: null },
    expiresAt: new Date(context.now() + TOKEN_MS),
  });
  const client = new HolderClient(certify(keys, fleet, { kind: 'grant', id: grant }));
  try {
    return await act(new AccountReader(context, registry, client, grant, found));
  } finally {
    client.close();
    await revokeGrant(registry, grant, node);
  }
}

export class AccountReader {
  /** That was asked last, for errors. */
  #holder = { node: '', account: '' };

  constructor(
    private readonly context: CommandContext,
    private readonly registry: Registry,
    private readonly client: HolderClient,
    private readonly grant: string,
    private readonly account: ListedAccount,
  ) {}

  /** Returns the answer to a request once it starts. While nobody holds the account, waits for the next holder. */
  async ask(target: string, body: string | null = null): Promise<IncomingMessage> {
    const { signal, now, notices } = this.context;
    const until = now() + PATIENCE_MS;
    const who = { grant: this.grant, account: this.account.account };
    const accept = 'application/json, text/event-stream';
    for (let isFirst = true; ; isFirst = false) {
      const [route] = await routesOf(this.registry, this.grant);
      try {
        if (route === undefined) {
          const { name: account, tenant } = this.account;
          throw fleetError('fleet-account-unknown', { account, tenant });
        }
        this.#holder = { node: route.node ?? '', account: route.name };
        const answer = await this.client.send(route, who, {
          ...{ method: body === null ? 'GET' : 'POST', target, signal },
          headers: { 'content-type': 'application/json', accept },
          body: Buffer.from(body ?? ''),
          reached: { host: 'mailkeep', origin: 'https://mailkeep', secure: true },
        });
        const refused = refusalOf(answer);
        if (refused === undefined) return answer;
        answer.resume();
        throw this.unready(refused, true);
      } catch (error) {
        if (!(error instanceof MailkeepError) || !error.retryable || now() >= until) throw error;
        if (isFirst) notices.say('Waiting for a node that holds the account.');
        await sleep(systemClock, RETRY_MS, signal);
      }
    }
  }

  unready(code: string, mayChange = false): Error {
    const facts = { ...this.#holder, code };
    return fleetError('fleet-reading-unready', facts, undefined, mayChange);
  }

  /** An answer that ended too early. */
  cut(error: unknown): Error {
    return fleetError('fleet-answer-cut', { node: this.#holder.node }, error);
  }

  /** @throws fleet-reading-unready for any status but 200 and those given */
  async get(target: string, missing?: () => Error): Promise<IncomingMessage> {
    const answer = await this.ask(target);
    if (answer.statusCode === 200) return answer;
    answer.resume();
    if (answer.statusCode === 404 && missing !== undefined) throw missing();
    throw this.unready(`HTTP ${answer.statusCode}`);
  }

  /** Returns the data that a page's script would get. */
  async data(path: string, parameters: Readonly<Record<string, string>>) {
    const answer = await this.get(`${path}?${new URLSearchParams(parameters)}`);
    return JSON.parse(await text(answer)).data;
  }

  /** Yields the source of a message. */
  async *source(id: string): AsyncGenerator<Uint8Array, void, undefined> {
    const missing = () => usageError('usage-unknown-message', { id });
    try {
      yield* await this.get(`/m/${encodeURIComponent(id)}/source`, missing);
    } catch (error) {
      throw error instanceof MailkeepError ? error : this.cut(error);
    }
  }
}

type Run = (
  reader: AccountReader,
  context: CommandContext,
  line: ForwardedCommand,
) => Promise<ExitCode>;

function optionOf({ options }: ForwardedCommand, name: string): string | undefined {
  return options.findLast(([known]) => known === name)?.[1] ?? undefined;
}

function hasOption({ options }: ForwardedCommand, name: string): boolean {
  return options.some(([known]) => known === name);
}

/** Prints what a query finds, one line a message. */
const search: Run = async (reader, { output, notices, signal }, line) => {
  let left = Number(optionOf(line, '--limit') ?? (output.json ? 1_000_000 : 20));
  const sort = optionOf(line, '--sort') ?? 'newest';
  const query = { q: queryOf(line), sort };
  let after: string | null = '';
  let printed = 0;
  while (after !== null && left > 0 && !signal.aborted) {
    const limit = String(Math.min(PAGE, left));
    const page: { hits?: SearchHit[]; next?: string | null; problem?: { message: string } | null } =
      await reader.data('/api/rows', { ...query, limit, ...(after === '' ? {} : { after }) });
    if (page.problem != null) {
      throw usageError('usage-invalid', { command: line.command, problem: page.problem.message });
    }
    for (const hit of page.hits ?? []) {
      await output.line(hit.line, () => hitText(hit, output));
      printed += 1;
    }
    left -= page.hits?.length ?? 0;
    after = page.next ?? null;
  }
  if (printed === 0) notices.say('Nothing found.');
  return signal.aborted ? EXIT.interrupted : EXIT.done;
};

/** Returns the query of a search, or the one that lists what `list` names. */
function queryOf(line: ForwardedCommand): string {
  if (line.command === 'search') return line.words.join(' ');
  const quoted = (name: string, values: readonly (string | null)[]) => {
    const terms = values.map((value) => `${name}:"${(value ?? '').replaceAll('"', '')}"`);
    return terms.length === 0 ? [] : [`(${terms.join(' OR ')})`];
  };
  const named = (name: string) =>
    line.options.filter(([known]) => known === name).map(([, value]) => value);
  const deleted = hasOption(line, '--deleted') ? 'is:deleted' : '-is:deleted';
  const places = [...quoted('mailbox', named('--mailbox')), ...quoted('in', named('--folder'))];
  return [deleted, ...places].join(' ');
}

const show: Run = async (reader, context, line) => {
  const { output } = context;
  const [id = ''] = line.words;
  if (hasOption(line, '--raw')) {
    for await (const piece of reader.source(id)) await output.bytes(piece);
    return EXIT.done;
  }
  const reading = await readMessage(reader.source(id));
  const { html: _, ...facts } = reading;
  const { headers } = reading;
  const isHeaders = hasOption(line, '--headers');
  const shown = () =>
    isHeaders
      ? headers.map(({ name, value }) => `${terminalLine(name)}: ${terminalLine(value)}`).join('\n')
      : messageText(id, reading, output);
  if (output.interactive && !hasOption(line, '--no-pager')) await printPaged(context, shown());
  else await output.object(isHeaders ? { id, headers } : { id, ...facts }, shown);
  return EXIT.done;
};

const attachments: Run = async (reader, { output, environment }, line) => {
  const [id = ''] = line.words;
  const to = optionOf(line, '--save');
  if (to === undefined) {
    for (const attachment of (await readMessage(reader.source(id))).attachments) {
      await output.line(attachment, () => attachmentLine(attachment, null));
    }
    return EXIT.done;
  }
  const folder = path.resolve(environment.cwd, to);
  const { saved, failure } = await saveAttachments(folder, reader.source(id));
  for (const attachment of saved) {
    const { savedAs } = attachment;
    await output.line(attachment, () => `${attachmentLine(attachment, null)}  ->  ${savedAs}`);
  }
  if (failure !== null) throw failure;
  return EXIT.done;
};

const history: Run = async (reader, { output }, { words: [id = ''] }) => {
  const found = await reader.data('/api/message', { m: id, page: 'message', view: 'history' });
  const lines: HistoryLine[] | undefined = found?.content?.lines;
  if (lines === undefined) throw usageError('usage-unknown-message', { id });
  for (const one of lines) await printHistoryLine(output, one);
  return EXIT.done;
};

const exportMail: Run = async (reader, { output, environment, signal }, line) => {
  const format = optionOf(line, '--format') ?? '';
  if (!['zip', 'mbox', 'eml'].includes(format)) {
    const problem = `--format ${format} cannot be used with --fleet-account: choose zip, mbox or eml.`;
    throw usageError('usage-invalid', { command: line.command, problem });
  }
  const to = path.resolve(environment.cwd, optionOf(line, '--to') ?? '');
  const query = new URLSearchParams({ format, q: optionOf(line, '--query') ?? '' });
  const answer = await reader.ask(`/api/export?${query}`);
  if (answer.statusCode !== 200) {
    const { error } = JSON.parse(await text(answer));
    throw reader.unready(String(error?.code ?? answer.statusCode));
  }
  // The file gets its name once it is complete, and only if the name is free.
  const part = `${to}.${randomBytes(4).toString('hex')}.part`;
  try {
    await pipeline(answer, createWriteStream(part, { flags: 'wx', mode: 0o600 }), { signal });
    await link(part, to);
  } catch (error) {
    signal.throwIfAborted();
    const reason = errnoOf(error);
    if (reason === undefined || reason === 'ECONNRESET') throw reader.cut(error);
    throw usageError('usage-save-failed', { file: to, reason }, error);
  } finally {
    await rm(part, { force: true });
  }
  await output.object({ to, format }, () => [`exported to ${terminalLine(to)}`]);
  return EXIT.done;
};

const status: Run = async (reader, { output }) => {
  const params = { name: 'status', arguments: {} };
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const answer = await reader.ask('/mcp', JSON.stringify(call));
  const [found] = messagesIn(await text(answer));
  const { notice: _, ...facts } = JSON.parse(found ?? '{}').result?.structuredContent ?? {};
  await output.object(facts, () => [JSON.stringify(facts, null, 2)]);
  return EXIT.done;
};

/** Returns the JSON-RPC messages of an answer, which may be a stream of events. */
function messagesIn(answer: string): string[] {
  const lines = answer.split('\n').map((one) => one.trim());
  const events = lines.flatMap((one) => (one.startsWith('data:') ? [one.slice(5).trim()] : []));
  return (events.length > 0 ? events : [answer.trim()]).filter((one) => one !== '');
}

/** Passes on the messages of an assistant, one a line. */
const mcp: Run = async (reader, { stdin, output, signal }) => {
  for await (const line of createInterface({ input: stdin(), signal })) {
    if (line.trim() === '') continue;
    for (const message of messagesIn(await text(await reader.ask('/mcp', line)))) {
      await output.bytes(Buffer.from(`${message}\n`));
    }
  }
  return EXIT.done;
};

const COMMANDS: Readonly<Record<string, Run>> = {
  ...{ search, list: search, show, attachments, history, export: exportMail, status, mcp },
};
