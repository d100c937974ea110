import type { z } from 'zod';
import { parseJson } from '../../archive/format.ts';
import { hasCode } from '../../core/errors.ts';
import { claimersOf, holderOf, type ReachableSession } from '../../registry/overview.ts';
import type { Registry } from '../../registry/registry.ts';
import { fleetLinkError } from '../errors.ts';
import { type Link, openLink } from '../link/dial.ts';
import { BadFrame, FRAME, type Frame, jsonFrame } from '../link/frames.ts';
import type { LinkSecrets } from '../link/link-keys.ts';
import { pause } from '../pause.ts';
import { READING_PATH } from './desk.ts';
import { type ReadingRequest, refusalShape } from './request.ts';

export interface AskOptions {
  readonly registry: Registry;
  readonly secrets: LinkSecrets;
  /** This node, whose worker is the first to claim what nobody holds. */
  readonly node: string;
  readonly clock: Parameters<typeof pause>[0];
  /** Milliseconds of a clock that is never set. */
  readonly monotonic: () => number;
  /** Told once that the holder does not answer, and is asked again until another one holds the archive. */
  readonly onWaiting: (node: string) => void;
}

export interface Question extends Omit<ReadingRequest, 'session'> {
  /** As its tenant calls it, for errors. */
  readonly account: string;
}

/** Between two looks for a holder, in milliseconds: an archive that is opened or taken over is soon there. */
const AGAIN_MS = 500;
/** How long a holder is looked for: longer than a dead one holds what it had, and others need to take it. */
const LOOK_MS = 60_000;
/** Milliseconds without a sign of the holder, which sends one every 5 seconds. */
const SILENT_MS = 30_000;
/** Answers that are cut off before anything was passed on. */
const MOST_CUTS = 3;
/** Workers that are asked to claim what nobody holds. */
const CLAIMERS = 8;

/** Whoever was asked does not have the archive, or does not answer: look again, or ask another. */
export type Elsewhere = 'not-holder' | 'full' | 'cut';

/** What is asked at one node. */
export interface Asked {
  readonly question: Question;
  readonly target: ReachableSession;
  /** Whether it holds the archive by what the registry says; otherwise it is to claim it. */
  readonly isHolder: boolean;
}

/**
 * Asks the holder of an archive something. Where nobody holds it, a worker claims it: the one of this node, if there is one.
 *
 * @param ask returns why another node has to be asked, as long as nothing of its answer has counted
 * @throws fleet-node-unreachable, fleet-link-refused, fleet-no-reader, fleet-reading-moved, fleet-answer-cut; the errors of
 *   the registry and of `ask`; the signal's reason
 */
export async function atHolder<T extends object>(
  options: AskOptions,
  question: Question,
  signal: AbortSignal,
  ask: (asked: Asked) => Promise<T | Elsewhere>,
): Promise<T> {
  const { registry, clock, monotonic, onWaiting } = options;
  const { archive, account } = question;
  const until = monotonic() + LOOK_MS;
  const tried = new Set<string>();
  let unreachable: unknown;
  let isTold = false;
  let cuts = 0;
  while (monotonic() < until) {
    const holder = await holderOf(registry, archive);
    const target = holder ?? (await claimerOf(options, question, tried));
    let elsewhere: Elsewhere = 'not-holder';
    try {
      const outcome = await ask({ question, target, isHolder: holder !== undefined });
      if (typeof outcome === 'object') return outcome;
      elsewhere = outcome;
      unreachable = undefined;
      // Something about the question itself may end whoever answers it.
      if (outcome === 'cut') cuts += 1;
      if (cuts > MOST_CUTS) throw fleetLinkError('fleet-answer-cut', { node: target.node });
    } catch (error) {
      if (!hasCode(error, 'fleet-node-unreachable') || target.address === '') throw error;
      unreachable = error;
      if (holder !== undefined && !isTold) onWaiting(target.node);
      isTold = holder !== undefined;
    }
    if (holder === undefined && (elsewhere === 'full' || unreachable !== undefined)) {
      tried.add(target.session);
      continue;
    }
    await pause(clock, AGAIN_MS, signal);
    signal.throwIfAborted();
  }
  throw unreachable ?? fleetLinkError('fleet-reading-moved', { account });
}

async function claimerOf(
  { registry, node }: AskOptions,
  { account }: Question,
  tried: ReadonlySet<string>,
): Promise<ReachableSession> {
  const claimers = await claimersOf(registry, { node, most: CLAIMERS });
  const next = claimers.find(({ session }) => !tried.has(session));
  if (next !== undefined) return next;
  throw fleetLinkError('fleet-no-reader', { account, full: claimers.length > 0 });
}

/** A link on which something was asked. */
export interface AskedLink extends Omit<Link, 'frames'> {
  /** The next frame; undefined at the end, also where that comes too early. */
  next(): Promise<Frame | undefined>;
}

/**
 * Opens a link to a node and sends it what is asked.
 *
 * @throws what `openLink` throws; fleet-node-unreachable where the node has no address
 */
export async function askedOf(
  { secrets }: AskOptions,
  { question, target: { session, node, address }, isHolder }: Asked,
  signal: AbortSignal,
): Promise<AskedLink> {
  const [, host = '', port = ''] = /^\[?([^\]]*)\]?:(\d+)$/.exec(address) ?? [];
  if (host === '') {
    const facts = { node, address, reason: 'no address' };
    throw fleetLinkError('fleet-node-unreachable', facts);
  }
  const link = await openLink({ node, host, port: Number(port) }, secrets, READING_PATH, signal);
  const { account: _, ...asked } = question;
  const request: ReadingRequest = { ...asked, session: isHolder ? session : null };
  await link.send(jsonFrame(FRAME.ask, request));
  const frames = link.frames[Symbol.asyncIterator]();
  return {
    send: (bytes) => link.send(bytes),
    close: () => link.close(),
    next: () => nextOf(frames, link),
  };
}

async function nextOf(frames: AsyncIterator<Frame>, link: Link): Promise<Frame | undefined> {
  const timer = setTimeout(() => link.close(), SILENT_MS);
  try {
    const next = await frames.next();
    return next.done === true ? undefined : next.value;
  } catch (error) {
    if (error instanceof BadFrame || isOfNetwork(error)) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Returns why another node has to be asked, from the frame of a refusal.
 *
 * @throws fleet-reading-unready, fleet-reading-busy, fleet-reading-refused
 */
export function refusedBy(
  bytes: Buffer,
  { question: { account }, target: { node } }: Asked,
): Elsewhere {
  const refusal = parsed(refusalShape, bytes);
  switch (refusal?.because) {
    case 'not-holder':
    case 'full':
      return refusal.because;
    case 'busy':
      throw fleetLinkError('fleet-reading-busy', { node });
    case 'unready':
      throw fleetLinkError('fleet-reading-unready', { node, account, code: refusal.code });
    case 'request':
      throw fleetLinkError('fleet-reading-refused', { what: 'This' });
    default:
      return 'cut';
  }
}

/** Returns the value of a frame of JSON; undefined where it has another shape. */
export function parsed<T>(shape: z.ZodType<T>, bytes: Buffer): T | undefined {
  return shape.safeParse(parseJson(bytes.toString('utf8'))).data;
}

/** Node.js has errors of its own for connections that end too early. */
function isOfNetwork(error: unknown): boolean {
  if (hasCode(error, 'fleet-node-unreachable')) return true;
  return error instanceof Error && 'code' in error && /^E[A-Z]/.test(String(error.code));
}
