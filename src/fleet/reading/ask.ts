import type { z } from 'zod';
import { parseJson } from '../../archive/format/json-shape.ts';
import { fleetLinkError } from '../../errors/fleet-links.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import { claimersOf, holderOf, type ReachableSession } from '../../registry/overview.ts';
import type { Registry } from '../../registry/registry.ts';
import { type Link, openLink } from '../link/dial.ts';
import { BadFrame, FRAME, frame, jsonFrame } from '../link/frames.ts';
import type { LinkSecrets } from '../link/link-keys.ts';
import { pause } from '../pause.ts';
import { READING_PATH } from './desk.ts';
import { endShape, type ReadingRequest, refusalShape } from './request.ts';

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

/** Takes an answer as it comes; each resolves when more is taken. */
export interface AnswerSink {
  output(bytes: Buffer): Promise<void>;
  errors(bytes: Buffer): Promise<void>;
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
/** Bytes that are kept until more come or the answer ends: a shorter one that is cut off is asked for again. */
const KEPT_BYTES = 256 * 1024;

/** Whoever was asked does not have the archive, or does not answer: look again, or ask another. */
type Elsewhere = 'not-holder' | 'full' | 'cut';

/**
 * Lets the holder of an archive run a reading command, and passes on what it writes. Where nobody holds it, a worker claims
 * it: the one of this node, if there is one.
 *
 * @returns the exit code
 * @throws fleet-node-unreachable, fleet-link-refused, fleet-no-reader, fleet-reading-moved, fleet-reading-unready,
 *   fleet-reading-busy, fleet-reading-refused; fleet-answer-cut after a part of the answer was passed on; the errors of the
 *   registry and the sink; the signal's reason
 */
export async function askHolder(
  options: AskOptions,
  question: Question,
  sink: AnswerSink,
  signal: AbortSignal,
): Promise<number> {
  const { registry, clock, monotonic, onWaiting } = options;
  const { archive, account } = question;
  const until = monotonic() + LOOK_MS;
  const asked = new Set<string>();
  let unreachable: unknown;
  let isTold = false;
  let cuts = 0;
  while (monotonic() < until) {
    const holder = await holderOf(registry, archive);
    const target = holder ?? (await claimerOf(options, question, asked));
    let elsewhere: Elsewhere = 'not-holder';
    try {
      const answer = new Answer(sink, target.node, account);
      const outcome = await answer.from(options, question, target, holder !== undefined, signal);
      if (typeof outcome === 'number') return outcome;
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
      asked.add(target.session);
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
  asked: ReadonlySet<string>,
): Promise<ReachableSession> {
  const claimers = await claimersOf(registry, { node, most: CLAIMERS });
  const next = claimers.find(({ session }) => !asked.has(session));
  if (next !== undefined) return next;
  throw fleetLinkError('fleet-no-reader', { account, full: claimers.length > 0 });
}

/** One answer of one node. */
class Answer {
  #kept: { readonly isOutput: boolean; readonly bytes: Buffer }[] = [];
  #bytes = 0;
  #isPassedOn = false;

  constructor(
    private readonly sink: AnswerSink,
    private readonly node: string,
    private readonly account: string,
  ) {}

  /** Returns the exit code, or why another node has to be asked: then nothing was passed on. */
  async from(
    { secrets }: AskOptions,
    { account: _, ...question }: Question,
    { session, node, address }: ReachableSession,
    isHolder: boolean,
    signal: AbortSignal,
  ): Promise<number | Elsewhere> {
    const [, host = '', port = ''] = /^\[?([^\]]*)\]?:(\d+)$/.exec(address) ?? [];
    if (host === '') {
      const facts = { node, address, reason: 'no address' };
      throw fleetLinkError('fleet-node-unreachable', facts);
    }
    const target = { node, host, port: Number(port) };
    const link = await openLink(target, secrets, READING_PATH, signal);
    try {
      const request: ReadingRequest = { ...question, session: isHolder ? session : null };
      await link.send(jsonFrame(FRAME.ask, request));
      await link.send(frame(FRAME.inputEnd));
      return await this.#read(link, signal);
    } finally {
      link.close();
    }
  }

  async #read(link: Link, signal: AbortSignal): Promise<number | Elsewhere> {
    const frames = link.frames[Symbol.asyncIterator]();
    for (;;) {
      const next = await this.#next(frames, link);
      signal.throwIfAborted();
      if (next === undefined) return this.#cut();
      const { kind, bytes } = next;
      if (kind === FRAME.output || kind === FRAME.errors) await this.#take(kind, bytes);
      else if (kind === FRAME.end) {
        await this.#passOn();
        return parsed(endShape, bytes)?.code ?? this.#cut();
      } else if (kind === FRAME.refused) return this.#refused(bytes);
    }
  }

  /** Undefined at the end, also where that comes too early. */
  async #next(frames: AsyncIterator<{ kind: number; bytes: Buffer }>, link: Link) {
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

  async #take(kind: number, bytes: Buffer): Promise<void> {
    this.#kept.push({ isOutput: kind === FRAME.output, bytes });
    this.#bytes += bytes.length;
    if (this.#bytes > KEPT_BYTES) await this.#passOn();
  }

  async #passOn(): Promise<void> {
    for (const { isOutput, bytes } of this.#kept) {
      this.#isPassedOn = true;
      await (isOutput ? this.sink.output(bytes) : this.sink.errors(bytes));
    }
    this.#kept = [];
    this.#bytes = 0;
  }

  #cut(): 'cut' {
    if (this.#isPassedOn) throw fleetLinkError('fleet-answer-cut', { node: this.node });
    return 'cut';
  }

  #refused(bytes: Buffer): Elsewhere {
    const { node, account } = this;
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
        return this.#cut();
    }
  }
}

function parsed<T>(shape: z.ZodType<T>, bytes: Buffer): T | undefined {
  return shape.safeParse(parseJson(bytes.toString('utf8'))).data;
}

/** Node.js has errors of its own for connections that end too early. */
function isOfNetwork(error: unknown): boolean {
  if (hasCode(error, 'fleet-node-unreachable')) return true;
  return error instanceof Error && 'code' in error && /^E[A-Z]/.test(String(error.code));
}
