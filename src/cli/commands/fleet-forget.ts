import { setTimeout as delay } from 'node:timers/promises';
import type { SearchHit } from '../../catalog/search.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { matches } from '../../core/names.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { counted, span } from '../../core/text.ts';
import type { MailboxKey, MessageId } from '../../core/types.ts';
import { sealWork } from '../../fleet/account-settings.ts';
import { fleetError } from '../../fleet/errors.ts';
import { encodeWork } from '../../fleet/exclusive.ts';
import { readFleetKeys } from '../../fleet/keys.ts';
import { currentLease, findPurge, purgesAskedBy, type WaitingPurge } from '../../fleet/overview.ts';
import { decidePurge } from '../../fleet/purges.ts';
import { retentionError } from '../../verify/errors.ts';
import { MAILBOXES_PATH } from '../../web/relayed.ts';
import { confirm } from '../ask.ts';
import { type CommandContext, type Flags, refuse, type Values } from '../context.ts';
import { type AccountReader, withAccountReader } from '../fleet-account.ts';
import { accountNamed, type OpenFleet, withFleet } from '../open-fleet.ts';

export type ForgetLine = Flags<'dryRun' | 'yes' | 'list'> &
  Values<'tenant' | 'mailbox'> & { readonly wait: boolean };

type Account = Awaited<ReturnType<typeof accountNamed>>;

interface ChosenMessage {
  readonly id: MessageId;
  readonly date: string | null;
  readonly subject: string | null;
}

/** What goes from which mailboxes of an account: some messages, or everything if there are none. */
interface Choice {
  readonly messages: readonly ChosenMessage[];
  readonly mailboxes: readonly (MailboxKey & { readonly address: string })[];
}

/** How often progress is looked at, in milliseconds. */
const LOOK_MS = 1_000;
/** How long to wait for a node that holds the account. */
const PATIENCE_MS = 60_000;
const COMMAND = 'fleet forget';

/**
 * Forgets messages or a mailbox of an account. Once that is decided, it is carried out whatever happens to this command or
 * to the node that holds the account.
 */
export async function forgetInFleet(
  context: CommandContext,
  name: string,
  ids: readonly string[],
  line: ForgetLine,
): Promise<ExitCode> {
  const { tenant, mailbox, list = false, dryRun = false, yes = false } = line;
  refuse(COMMAND, {
    '--list takes no messages and no --mailbox.': list && (ids.length > 0 || mailbox !== undefined),
    'name the messages by their ids, or a mailbox with --mailbox.':
      !list && ids.length === 0 && mailbox === undefined,
  });
  return withFleet(context, async (open) => {
    const account = await accountNamed(open.registry, { account: name, tenant });
    const askedBy = `${account.tenant}/${name}`;
    if (list) return listForgets(context, open, account, askedBy);
    const choice = await withAccountReader(context, open, account, COMMAND, (reader) =>
      choose(reader, context, open, ids, mailbox),
    );
    const lines = linesOf(choice);
    if (dryRun) {
      await context.output.object({ wouldForget: choice }, () => lines);
      return EXIT.done;
    }
    if (!yes) await confirm(context, COMMAND, lines);
    const number = await decide(context, open, account, askedBy, choice);
    return report(context, open, account, number, choice, line.wait);
  });
}

/** @throws usage-unknown-message, usage-ambiguous-id, usage-unknown-name, forget-on-hold */
async function choose(
  reader: AccountReader,
  context: CommandContext,
  open: OpenFleet,
  ids: readonly string[],
  mailbox: string | undefined,
): Promise<Choice> {
  const own: Choice['mailboxes'] = await reader.data(MAILBOXES_PATH, {});
  const mailboxes = own.filter(
    ({ address, mailbox: id }) => mailbox === undefined || mailbox === address || mailbox === id,
  );
  if (mailboxes.length === 0) {
    const problem =
      mailbox === undefined
        ? 'the account has no mailbox yet.'
        : `the account has no mailbox ${mailbox}.`;
    throw usageError('usage-invalid', { command: COMMAND, problem });
  }
  if (ids.length === 0) await refuseHeld(reader, open, mailboxes);
  const messages = new Map<MessageId, ChosenMessage>();
  for (const typed of ids) {
    context.signal.throwIfAborted();
    const message = await findMessage(reader, typed);
    messages.set(message.id, message);
  }
  return { messages: [...messages.values()], mailboxes };
}

async function findMessage(reader: AccountReader, typed: string): Promise<ChosenMessage> {
  const found = await reader.data('/api/message', { m: typed, page: 'message', view: 'history' });
  if (found?.kind === 'several') {
    const candidates: readonly { id: string }[] = found.links;
    throw usageError('usage-ambiguous-id', {
      id: typed,
      candidates: candidates.map(({ id }) => id),
    });
  }
  if (found?.kind === 'message') {
    const { all, at }: { all: SearchHit[]; at: number } = found.conversation;
    const { date = null, subject = null } = all[at]?.line ?? {};
    return { id: found.id, date, subject };
  }
  // It may be forgotten already, or only the service has it.
  if (/^[0-9a-f]{64}$/.test(typed)) return { id: typed, date: null, subject: null };
  throw usageError('usage-unknown-message', { id: typed });
}

/** Respects the holds of this node's configuration, like the removal of a mailbox on a single machine. */
async function refuseHeld(
  reader: AccountReader,
  { config }: OpenFleet,
  mailboxes: Choice['mailboxes'],
): Promise<void> {
  for (const hold of config.settings.retention.hold) {
    for (const { address, mailbox } of mailboxes) {
      const name = 'mailbox' in hold ? hold.mailbox : undefined;
      const isNamed = name !== undefined && (matches(name, address) || matches(name, mailbox));
      if (name !== undefined && !isNamed) continue;
      const within = `mailbox:"${address.replaceAll('"', '')}"`;
      const q = 'query' in hold ? `(${hold.query}) ${within}` : within;
      const page = await reader.data('/api/rows', { q, sort: 'newest', limit: '200' });
      const messages = page.hits?.length ?? 0;
      if (page.problem != null || messages > 0) {
        const shown = 'query' in hold ? hold.query : `mailbox ${name}`;
        throw retentionError('forget-on-hold', { hold: shown, messages });
      }
    }
  }
}

function linesOf({ messages, mailboxes }: Choice): string[] {
  const names = terminalLine(mailboxes.map(({ address }) => address).join(', '));
  if (messages.length === 0) return [`Forget everything in ${names}`];
  const each = messages.map(({ id, date, subject }) =>
    terminalLine(`Forget ${id.slice(0, 12)}  ${date ?? ''}  ${subject ?? '(no subject)'}`),
  );
  return [...each, `in ${names}. Other accounts keep what they have.`];
}

/** Returns the number of the forget once it is decided. Waits for a node that holds the account. */
async function decide(
  { now, signal, notices }: CommandContext,
  { config, registry, fleet }: OpenFleet,
  { shard }: Account,
  askedBy: string,
  { messages, mailboxes }: Choice,
): Promise<number> {
  const from = mailboxes.map(({ host, mailbox }) => ({ host, mailbox }));
  const ids = messages.map(({ id }) => id);
  const content = ids.length > 0 ? { messages: ids, from } : { messages: [], mailboxes: from };
  const keys = readFleetKeys(config.fleet.keyFile);
  const work = sealWork(keys, fleet.id, shard, encodeWork(content));
  const until = now() + PATIENCE_MS;
  for (let isFirst = true; ; isFirst = false) {
    const lease = await currentLease(registry, shard);
    const purge = { reason: 'forgotten', work, askedBy } as const;
    const outcome = lease && (await decidePurge(registry, lease, purge));
    if (outcome?.outcome === 'committed') return outcome.number;
    if (now() >= until) throw fleetError('fleet-no-reader', { account: askedBy });
    if (isFirst) notices.say('Waiting for a node that holds the account.');
    await delay(LOOK_MS, undefined, { signal });
  }
}

/** Says what was decided and, unless told otherwise, waits until nothing has the bytes any more. */
async function report(
  { output, notices, signal }: CommandContext,
  { registry }: OpenFleet,
  { shard }: Account,
  number: number,
  { messages, mailboxes }: Choice,
  isWaiting: boolean,
): Promise<ExitCode> {
  let purge = await findPurge(registry, shard, number);
  let said = '';
  const text = `Forget ${number} of shard ${shard} is decided, and is carried out without this command.`;
  if (isWaiting) notices.say(text);
  while (isWaiting && purge?.hasEnded === false && !signal.aborted) {
    const waiting = `It waits for ${waitsFor(purge)}.`;
    if (waiting !== said) notices.say(waiting);
    said = waiting;
    await delay(LOOK_MS, undefined, { signal }).catch(() => undefined);
    if (!signal.aborted) purge = await findPurge(registry, shard, number);
  }
  const hasEnded = purge?.hasEnded === true;
  const facts = {
    ...{ shard, number, ended: hasEnded, messages: messages.map(({ id }) => id) },
    mailboxes: mailboxes.map(({ address }) => address),
  };
  await output.object(facts, () =>
    hasEnded
      ? `Forgotten: no node and no object of the bucket has ${messages.length === 1 ? 'it' : 'them'} any more.`
      : `${text} It waits for ${purge === undefined ? 'its node' : waitsFor(purge)}.`,
  );
  return hasEnded || !isWaiting ? EXIT.done : EXIT.interrupted;
}

async function listForgets(
  { output, notices }: CommandContext,
  { registry }: OpenFleet,
  { shard }: Account,
  askedBy: string,
): Promise<ExitCode> {
  const purges = await purgesAskedBy(registry, shard, askedBy);
  for (const purge of purges) {
    const { number, ageMs, hasEnded } = purge;
    await output.line(purge, () => {
      const state = hasEnded ? 'has ended' : `waits for ${waitsFor(purge)}`;
      return `Forget ${number} of shard ${shard}, asked for ${span(ageMs)} ago, ${state}.`;
    });
  }
  if (purges.length === 0) notices.say('Nothing of this account was forgotten.');
  return EXIT.done;
}

/** Returns what an unfinished forget waits for, for the end of a sentence. */
export function waitsFor({ holder, isShipped, nodes, objects }: WaitingPurge): string {
  if (!isShipped) {
    return holder === null ? 'a node that takes the shard' : `${holder}, which carries it out`;
  }
  if (nodes.length > 0) return `the disks of ${nodes.join(', ')}`;
  if (objects > 0) return `${counted(objects, 'object')} of the bucket to be deleted`;
  return holder === null ? 'a node that takes the shard' : `${holder}, which checks it`;
}
