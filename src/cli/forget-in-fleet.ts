import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { EXIT, type ExitCode, hasCode } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { counted, span } from '../core/text.ts';
import { fleetLinkError } from '../fleet/errors.ts';
import { wantedOf } from '../fleet/forgets.ts';
import { askHolder } from '../fleet/reading/ask.ts';
import { accountOf } from '../registry/account-named.ts';
import { fleetError } from '../registry/errors.ts';
import { type ForgetState, forgetsOf } from '../registry/forget-reading.ts';
import { askForget, type ForgetRequest } from '../registry/forgets.ts';
import { purgeRemaining, type Remaining } from '../registry/purges.ts';
import type { Registry } from '../registry/registry.ts';
import { confirm } from './ask.ts';
import { refuseFolder, withHolder } from './ask-fleet.ts';
import { withFleet } from './commands/fleet/open-fleet.ts';
import { waitingText } from './commands/fleet/status-words.ts';
import {
  candidateLines,
  dryRunText,
  type ForgetCandidate,
  shortIds,
  stillAtServiceText,
} from './commands/forget.ts';
import type { CommandContext } from './context.ts';
import { printErrors, valuesIn } from './holder-said.ts';
import type { AccountOption, ForwardedCommand } from './option-values.ts';

/** Requests that `--list` prints. */
const MOST = 100;
/** Between two looks at how far a request has come. Milliseconds. */
const LOOK_MS = 2_000;
/** How often a request is sent whose outcome is unknown. */
const TRIES = 5;
const BACKUPS =
  'Backups of PostgreSQL from before still have what was in it then, until you delete them.';

const plannedShape = z.object({
  wouldForget: z.array(
    z.object({
      message: z.string().regex(/^[0-9a-f]{64}$/),
      ...{ at: z.string().nullable(), date: z.string().nullable(), subject: z.string().nullable() },
      purged: z.enum(['pruned', 'forgotten']).nullable(),
      atOrigin: z.int().min(0),
    }),
  ),
});

export interface ForgetInFleet {
  /** Ids of messages, or their beginnings. */
  readonly ids: readonly string[];
  readonly yes: boolean;
  readonly dryRun?: boolean;
  /** False where the request is not waited for. */
  readonly wait: boolean;
}

/**
 * `mailkeep forget --account`: asks the fleet to forget messages, and waits until they are nowhere any more. Which messages
 * are meant is asked of the holder now: what comes later is never among them.
 *
 * @throws what `withHolder` and `askHolder` throw: nothing was recorded; fleet-account-removed; the errors of the registry
 */
export async function forgetInFleet(
  context: CommandContext,
  which: AccountOption,
  options: ForgetInFleet,
): Promise<ExitCode> {
  const { output, notices } = context;
  const planned = await candidatesOf(context, which, options.ids);
  if (typeof planned === 'number') return planned;
  if (options.dryRun === true) {
    await output.object({ wouldForget: planned }, () => dryRunText(planned));
    return EXIT.done;
  }
  const lines = candidateLines(planned);
  const isAgain = lines.length === 0;
  if (!options.yes && !isAgain && !(await confirm(context, 'forget', lines))) return EXIT.done;
  return withFleet(context, async ({ config: { fleet: place }, registry }) => {
    const { archive, tenant } = await accountOf(registry, which.account, which.tenant);
    const { account } = which;
    const forgotten = planned.map(({ message }) => message);
    const request = { id: randomUUID(), archive, node: place.node, wanted: wantedOf(forgotten) };
    const record = () => recorded(registry, request, { account, tenant });
    await record();
    const facts = { account, tenant, request: request.id, forgotten };
    const what = `${counted(forgotten.length, 'message')} (${shortIds(forgotten)})`;
    const atOrigin = planned.reduce((sum, one) => sum + one.atOrigin, 0);
    const after = [...stillAtServiceText(atOrigin, forgotten.length), BACKUPS];
    const it = forgotten.length === 1 ? 'it' : 'them';
    if (!options.wait) {
      await output.object({ ...facts, state: 'recorded' }, () =>
        [`To be forgotten by the fleet: ${what}. Request ${request.id}.`, ...after].join('\n'),
      );
      return EXIT.done;
    }
    notices.say(
      `Request ${request.id} is recorded. The fleet carries it out, also if this command ends.`,
    );
    await ended(context, registry, request, record);
    await output.object({ ...facts, state: 'ended' }, () =>
      [`Forgotten: ${what}. No node, bucket or table has ${it}.`, ...after].join('\n'),
    );
    return EXIT.done;
  });
}

/**
 * `mailkeep forget --account --list`: the requests of an account, newest first, and what they wait for.
 *
 * @throws what `withFleet` and `accountOf` throw
 */
export async function listForgets(
  context: CommandContext,
  which: AccountOption,
): Promise<ExitCode> {
  const { output, notices } = context;
  refuseFolder(context, 'forget');
  return withFleet(context, async ({ registry }) => {
    const { archive } = await accountOf(registry, which.account, which.tenant);
    const requests = await forgetsOf(registry, archive, { most: MOST });
    for (const request of requests) {
      const left = await remainingOf(registry, archive, request);
      const { id, node, ageMs, messages } = request;
      const facts = { request: id, node, seconds: Math.round(ageMs / 1000), messages };
      await output.line({ ...facts, state: stateOf(request), waitsFor: left }, () => {
        const asked = `${counted(messages, 'message')}, asked for ${span(ageMs)} ago at ${terminalLine(node)}`;
        return `${id}  ${asked}: ${progressText(request, left)}`;
      });
    }
    if (requests.length === 0) notices.say('Nothing was asked to be forgotten.');
    return EXIT.done;
  });
}

/** Asks the holder what is meant; returns the exit code of its refusal, which is printed. */
async function candidatesOf(
  context: CommandContext,
  which: AccountOption,
  ids: readonly string[],
): Promise<readonly ForgetCandidate[] | ExitCode> {
  const { notices, globals, signal } = context;
  const line: ForwardedCommand = { command: 'forget', options: [], words: ids };
  const [printed, said]: [Buffer[], Buffer[]] = [[], []];
  const sink = {
    output: async (bytes: Buffer) => void printed.push(bytes),
    errors: async (bytes: Buffer) => void said.push(bytes),
  };
  const code = await withHolder(context, which, line, (asking, question) =>
    askHolder(asking, question, sink, signal),
  );
  for (const { wouldForget } of valuesIn(printed, plannedShape)) return wouldForget;
  // It ended without either: as little as of an answer that was cut off.
  if (!printErrors(said, notices.stream, globals.json)) {
    throw fleetLinkError('fleet-reading-moved', { account: which.account });
  }
  return Object.values(EXIT).find((known) => known === code) ?? EXIT.failures;
}

/**
 * Records a request, however often it takes: it counts once.
 *
 * @throws fleet-account-removed; outcome-unknown: it may be recorded, and `--list` shows it then
 */
async function recorded(
  registry: Registry,
  request: ForgetRequest,
  account: { readonly account: string; readonly tenant: string },
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      const { outcome } = await askForget(registry, request);
      if (outcome === 'fenced') throw fleetError('fleet-account-removed', account);
      return;
    } catch (error) {
      if (!hasCode(error, 'outcome-unknown') || tries === TRIES) throw error;
    }
  }
}

/** Resolves once a request has ended; says what it waits for, whenever that changes. */
async function ended(
  { notices, signal }: CommandContext,
  registry: Registry,
  { id, archive }: ForgetRequest,
  record: () => Promise<void>,
): Promise<void> {
  let said = '';
  for (;;) {
    const [request] = await forgetsOf(registry, archive, { id });
    // A failover, or a backup that was restored, took it back.
    if (request === undefined) await record();
    else if (stateOf(request) === 'ended') return;
    else {
      const text = progressText(request, await remainingOf(registry, archive, request));
      if (text !== said) notices.say(`It ${text}.`);
      said = text;
    }
    await sleep(LOOK_MS, undefined, { signal });
  }
}

function stateOf({ isSettled, purge }: ForgetState): 'waiting' | 'decided' | 'ended' {
  if (!isSettled) return 'waiting';
  return purge === null ? 'ended' : 'decided';
}

/** Returns what the first purge of a request waits for; null where there is none. */
async function remainingOf(
  registry: Registry,
  archive: number,
  { purge, holder }: ForgetState,
): Promise<Remaining | null> {
  return purge === null ? null : purgeRemaining(registry, archive, purge, holder);
}

function progressText(request: ForgetState, left: Remaining | null): string {
  return stateOf(request) === 'ended' ? 'has ended' : `waits for ${waitingText(request, left)}`;
}
