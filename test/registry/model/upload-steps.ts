import { type At, type Step, sent, spent, withNode } from './changes.ts';
import { isSecret, type Job, type Node, type Request, type State, segmentOf } from './state.ts';
import type { Variant } from './variants.ts';

/** What a range of commits is as an object: a chunk has the bytes as they were, whatever was purged since. */
function contentOf(
  chain: readonly string[],
  job: Pick<Job, 'kind' | 'first' | 'last'>,
  purges: number,
) {
  const part = chain.slice(job.first - 1, job.last);
  const isThere = part.some(isSecret) && (purges === 0 || job.kind === 'chunk');
  return `${part.join(' ')}|${isThere ? 'SECRET' : ''}`;
}

export function* uploadSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { budget, store } = state;
  const node = state.nodes[at];
  const { session, epoch, job, chain } = node;
  if (!node.holds && node.importing === undefined) return;
  if (job === undefined) {
    if (budget.uploads === 0) return;
    const isImporter = node.importing !== undefined;
    const jobs = isImporter ? importJobs(node) : jobsOf(state, node, variant);
    for (const { kind, first, last, segment } of jobs) {
      const content = isImporter
        ? localContent(state.local, { kind, first, last }, state.isForgotten)
        : contentOf(chain, { kind, first, last }, node.purges);
      const key =
        variant.namedByContent === true ? `${kind}:${content}` : `${kind}${budget.uploads}`;
      const begun: Job = {
        ...{ kind, first, last, segment, key, content },
        ...{ stage: 'register', isSent: true },
      };
      let next = withNode(spent(state, 'uploads'), at, { ...node, job: begun });
      if (kind === 'snapshot') next = spent(next, 'snapshots');
      const { purges } = node;
      next = sent(next, { to: 'register', key, purges, session, epoch });
      yield { label: `${session} uploads ${key} of ${first} to ${last}`, next };
    }
    return;
  }
  if (job.stage === 'verify') {
    const isRight = store.objects[job.key] === job.content;
    const verified: Job | undefined = isRight
      ? { ...job, stage: 'cover', isSent: false }
      : undefined;
    yield {
      label: `${session} reads ${job.key} back`,
      next: withNode(state, at, { ...node, job: verified }),
    };
  } else if (!job.isSent) {
    const { key, content, first, last, segment } = job;
    const next = withNode(state, at, { ...node, job: { ...job, isSent: true } });
    const to = job.kind === 'chunk' ? 'coverChunk' : 'coverSegment';
    const request: Request =
      job.stage === 'complete'
        ? { to: 'complete', key, content }
        : job.kind === 'snapshot'
          ? { to: 'putSnapshot', key, session, epoch }
          : node.importing !== undefined
            ? { to: 'coverImported', key, first, last, session, epoch }
            : { to, key, first, last, segment, session, epoch };
    yield { label: `${session} sends ${request.to} ${key}`, next: sent(next, request) };
  } else if (budget.faults > 0) {
    // Without an answer it is abandoned; who does not read back takes it for done.
    const isTaken = variant.notReadBack === true && job.stage === 'complete';
    const after: Job | undefined = isTaken ? { ...job, stage: 'cover', isSent: false } : undefined;
    const next = withNode(spent(state, 'faults'), at, { ...node, job: after });
    yield { label: `${session} has no answer to ${job.stage} ${job.key}`, next };
  }
}

/** The same of an archive outside the fleet, whose forgets are its own. */
export function localContent(
  local: readonly string[],
  job: Pick<Job, 'kind' | 'first' | 'last'>,
  isForgotten: boolean,
) {
  return contentOf(local, job, isForgotten ? 1 : 0);
}

function* importJobs({
  importing,
}: Node): Generator<Pick<Job, 'kind' | 'first' | 'last' | 'segment'>> {
  if (importing === undefined || importing.isResumed || importing.stored > 0) return;
  yield { kind: 'sealed', first: 1, last: 1, segment: 1 };
}

function* jobsOf(
  { db, budget }: State,
  { chain, hot, purges }: Node,
  variant: Variant,
): Generator<Pick<Job, 'kind' | 'first' | 'last' | 'segment'>> {
  for (const segment of new Set(chain.map(segmentOf))) {
    const numbers = chain.flatMap((id, at) => (segmentOf(id) === segment ? [at + 1] : []));
    const last = numbers.at(-1) ?? 0;
    const begins = numbers[0] ?? 0;
    if (segment < hot) yield { kind: 'sealed', first: begins, last, segment };
    else if (variant.rollOnDiskOnly !== true) {
      const first = Math.max(begins, ...db.covers.map(([, , to]) => to + 1));
      // Whoever knows of a purge makes no chunk of what it concerns: such a segment is sealed.
      const isPurged = purges > 0 && chain.slice(first - 1, last).some(isSecret);
      const isMade = !isPurged || variant.chunkOfPurged === true;
      if (first <= last && isMade) yield { kind: 'chunk', first, last, segment };
    }
  }
  if (budget.snapshots > 0 && chain.length > 0) {
    yield { kind: 'snapshot', first: 1, last: chain.length, segment: 0 };
  }
}
